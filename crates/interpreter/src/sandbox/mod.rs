//! The sandbox: what code sees of this machine, and what it may use.
//!
//! It is [bubblewrap](https://github.com/containers/bubblewrap) with namespaces of its own for users, processes, the
//! network, System V IPC, host names and cgroups, without any capability, and with a filter of system calls
//! ([`seccomp`]). The system is read-only, `/home`, `/root`, `/var` and `/sys` are not there, and neither are the
//! environment and the open files of this process. What namespaces do not bound, `prlimit` and [`watch`] do.

mod seccomp;
pub(crate) mod watch;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::{env, fs, io};

use tokio::process::Command;

use crate::folder::Folder;
use crate::options::{DATA, Isolation, KernelOptions};
use crate::{Error, KernelLimits};

/// Where the connection file and the sockets of a kernel are within the sandbox.
pub(crate) const RUN: &str = "/run/kernel";

/// What runs in a sandbox.
pub(crate) struct Sandboxed<'a> {
    /// The program and its arguments.
    pub argv: Vec<OsString>,
    /// Its environment.
    pub env: Vec<(String, OsString)>,
    /// Files and folders that it reads, besides the system's.
    pub readable: &'a [PathBuf],
    /// Files that are shown in another place: where they are, and where the program sees them.
    pub shown: &'a [(PathBuf, PathBuf)],
    /// The folder that becomes [`RUN`], if it has one.
    pub run: Option<&'a Path>,
}

/// Closes what this process has open, and opens the filter.
const LAUNCH: &str = r#"
for file in /proc/self/fd/*; do
  number=${file##*/}
  case $number in 0|1|2) ;; *) eval "exec $number>&-" ;; esac
done
filter=$1
shift
[ "$filter" = - ] && exec "$@"
exec "$1" --seccomp 9 "${@:2}" 9<"$filter"
"#;

/// Returns the path of a program, if there is one of this name.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// Returns a command that runs a program on a session's folder.
pub(crate) fn command(folder: &Folder, program: &Sandboxed<'_>, options: &KernelOptions) -> Result<Command, Error> {
    let mut command = match options.isolation {
        Isolation::Sandbox => sandboxed(folder, program, options)?,
        Isolation::UnsafeNone => plain(folder, program),
    };
    // The group is killed with its first process where no namespace does that.
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true).process_group(0);
    Ok(command)
}

fn plain(folder: &Folder, program: &Sandboxed<'_>) -> Command {
    // Where it can be had, the program ends with the thread that started it, as a sandbox does.
    let tied = find_program("setpriv")
        .map(|setpriv| [setpriv.into_os_string(), "--pdeathsig".into(), "KILL".into(), "--".into()]);
    let argv: Vec<OsString> = tied.into_iter().flatten().chain(program.argv.iter().cloned()).collect();
    let (name, arguments) = argv.split_first().map_or((OsString::new(), &[][..]), |(name, rest)| (name.clone(), rest));
    let mut command = Command::new(name);
    command.args(arguments).current_dir(folder.path()).envs(program.env.iter().map(|(key, value)| (key, value)));
    command
}

/// Finds the programs that make a sandbox.
pub fn programs() -> Result<[PathBuf; 3], Error> {
    let missing = |name: &str| {
        let help = crate::machine::HELP.to_owned();
        Error::Missing { what: format!("the program `{name}` is not on the path"), help }
    };
    let [bash, bwrap, prlimit] =
        ["bash", "bwrap", "prlimit"].map(|name| find_program(name).ok_or_else(|| missing(name)));
    Ok([bash?, bwrap?, prlimit?])
}

fn sandboxed(folder: &Folder, program: &Sandboxed<'_>, options: &KernelOptions) -> Result<Command, Error> {
    let [bash, bwrap, prlimit] = programs()?;
    let written = |error: io::Error| Error::Start(format!("{}: {error}", folder.root().display()));
    let root = folder.root();
    let filter = match seccomp::filter() {
        Some(filter) => {
            let path = root.join("filter");
            fs::write(&path, filter).map_err(written)?;
            path.into_os_string()
        }
        None => {
            let what = format!("there is no filter of system calls for `{}`", env::consts::ARCH);
            return Err(Error::Missing { what, help: "run the interpreter on x86_64 or aarch64".into() });
        }
    };
    for (name, text) in SYSTEM_FILES {
        fs::write(root.join(name), text).map_err(written)?;
    }
    let mut command = Command::new(bash);
    command.env_clear().current_dir("/").arg("-c").arg(LAUNCH).arg("launch").arg(filter).arg(bwrap);
    if let Some(user) = folder.user() {
        command.uid(user).gid(user);
    }
    command.args([
        "--unshare-user",
        "--unshare-ipc",
        "--unshare-pid",
        "--unshare-net",
        "--unshare-uts",
        "--unshare-cgroup-try",
        "--disable-userns",
        "--die-with-parent",
        "--new-session",
        "--cap-drop",
        "ALL",
        "--clearenv",
        "--uid",
        "1000",
        "--gid",
        "1000",
        "--hostname",
        "sandbox",
    ]);
    let in_memory = options.limits.disk.min(MOST_IN_MEMORY).to_string();
    for name in ["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"] {
        match fs::read_link(name) {
            Ok(target) => _ = command.arg("--symlink").arg(target).arg(name),
            Err(_) => _ = command.args(["--ro-bind-try", name, name]),
        }
    }
    for name in SYSTEM {
        command.args(["--ro-bind-try", name, name]);
    }
    for (name, _) in SYSTEM_FILES {
        command.arg("--ro-bind").arg(root.join(name)).arg(format!("/etc/{name}"));
    }
    command.args(["--proc", "/proc", "--dev", "/dev"]);
    // Memory that is a file counts as a file.
    for name in ["/dev/shm", "/tmp", "/home/user"] {
        command.args(["--size", &in_memory, "--tmpfs", name]);
    }
    // After these folders, which would hide what is in them.
    for path in program.readable {
        command.arg("--ro-bind").arg(path).arg(path);
    }
    for (path, place) in program.shown {
        command.arg("--ro-bind").arg(path).arg(place);
    }
    if let Some(run) = program.run {
        command.arg("--bind").arg(run).arg(RUN);
    }
    command.arg("--bind").arg(root.join("data")).arg(DATA);
    command.args(["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", DATA]);
    for (key, value) in
        [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("HOME", "/home/user"), ("LANG", "C.UTF-8"), ("USER", "user")]
    {
        command.args(["--setenv", key, value]);
    }
    for (key, value) in &program.env {
        command.arg("--setenv").arg(key).arg(value);
    }
    command.arg("--").arg(prlimit).args(limits(&options.limits)).arg("--").args(&program.argv);
    Ok(command)
}

/// The most bytes of each folder that is in memory.
const MOST_IN_MEMORY: u64 = 64 << 20;

/// What is shown of the system, as far as it is there.
const SYSTEM: &[&str] = &[
    "/usr",
    "/etc/alternatives",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/fonts",
    "/etc/localtime",
    "/etc/timezone",
    "/etc/mime.types",
    "/etc/R",
    "/etc/java",
    "/etc/python3",
    "/etc/matplotlibrc",
];

/// Files of `/etc` that say nothing about this machine.
const SYSTEM_FILES: &[(&str, &str)] = &[
    ("passwd", "user:x:1000:1000::/home/user:/bin/sh\n"),
    ("group", "user:x:1000:\n"),
    ("hosts", "127.0.0.1 localhost\n::1 localhost\n"),
];

/// What each process may use. Its memory is what it can write to: programs reserve far more than that.
fn limits(limits: &KernelLimits) -> Vec<String> {
    let values = [
        ("nproc", limits.processes),
        ("data", limits.memory),
        ("fsize", limits.file_size),
        ("nofile", 1024),
        ("core", 0),
        ("memlock", 1 << 16),
        ("msgqueue", 1 << 16),
    ];
    values.iter().map(|(name, value)| format!("--{name}={value}:{value}")).collect()
}

/// Returns the folders of a path that the sandbox does not show anyway.
pub(crate) fn is_shown(path: &Path) -> bool {
    SYSTEM.iter().any(|shown| path.starts_with(shown))
        || ["bin", "sbin", "lib", "lib64"].iter().any(|name| path.starts_with(Path::new("/").join(name)))
}
