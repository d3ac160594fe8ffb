use std::path::PathBuf;
use std::time::Duration;

/// Where the folder of a session is within the sandbox, as the models were trained.
pub const DATA: &str = "/mnt/data";

/// What code may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelLimits {
    /// Memory of all processes of a kernel together, in bytes.
    pub memory: u64,
    /// Processes and threads of a kernel together.
    pub processes: u64,
    /// The time that processors work for one call.
    pub processor_time: Duration,
    /// The time that one call takes.
    pub wall_time: Duration,
    /// How long code that was stopped may go on before its kernel is ended.
    pub patience: Duration,
    /// The size of one file, in bytes.
    pub file_size: u64,
    /// The sizes of all files in the folder, in bytes. `/tmp`, `/dev/shm` and the home folder, which are in memory, have as
    /// much each, and at most 64 MiB.
    pub disk: u64,
    /// The number of files in the folder.
    pub files: u64,
    /// The most bytes of text of one call that are kept. What is cut is said.
    pub text: usize,
    /// The most pictures of one call that are kept.
    pub pictures: usize,
    /// The size of one message from a kernel, in bytes.
    pub message: u64,
    /// How long a kernel may take to start.
    pub start: Duration,
}

impl Default for KernelLimits {
    fn default() -> KernelLimits {
        KernelLimits {
            memory: 1 << 30,
            processes: 128,
            processor_time: Duration::from_secs(60),
            wall_time: Duration::from_secs(120),
            patience: Duration::from_secs(2),
            file_size: 128 << 20,
            disk: 256 << 20,
            files: 10_000,
            text: 64 << 10,
            pictures: 16,
            message: 8 << 20,
            start: Duration::from_secs(30),
        }
    }
}

/// Whether code runs in a sandbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// In bubblewrap, or not at all.
    #[default]
    Sandbox,
    /// With all that this process may do. The limits on time, disk and output still hold; nothing else does.
    UnsafeNone,
}

/// How kernels are started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelOptions {
    /// What code may use.
    pub limits: KernelLimits,
    /// Whether code runs in a sandbox.
    pub isolation: Isolation,
    /// The Python interpreter that has the package `ipykernel`. Without it, the one in [`python_folder`] is used, or
    /// else `python3`.
    ///
    /// [`python_folder`]: crate::python_folder
    pub python: Option<PathBuf>,
    /// The name of an installed kernelspec, for another language. Without it, the kernel is Python's.
    pub kernelspec: Option<String>,
    /// More files and folders that code may read, such as those of a kernelspec's program.
    pub readable: Vec<PathBuf>,
    /// Where the folders of sessions are made. Without it, in the system's folder for temporary files.
    pub folder: Option<PathBuf>,
}
