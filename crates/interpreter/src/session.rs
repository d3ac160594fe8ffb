use std::sync::Arc;

use crate::interpreter::{Interpreter, Stop};
use crate::kernel::Kernel;
use crate::pool::PoolShare;
use crate::runtime::wait;
use crate::{CodeOutput, Error, Execution, Folder};

/// A session: a folder, and a kernel on it while one is needed. It ends with this.
///
/// If the kernel dies or is ended, the call that it ran gets an error, and the next call gets a new kernel. The
/// files are still there then, the variables are not, and the call says so.
#[derive(Debug)]
pub struct KernelSession {
    pool: Arc<PoolShare>,
    folder: Folder,
    kernel: Option<Kernel>,
    /// Whether a kernel has run code here that was lost since.
    has_lost: bool,
}

impl KernelSession {
    pub(crate) fn new(pool: Arc<PoolShare>, folder: Folder, kernel: Option<Kernel>) -> KernelSession {
        KernelSession { pool, folder, kernel, has_lost: false }
    }

    /// Starts the kernel, if it does not run.
    pub fn warm_up(&mut self) -> Result<(), Error> {
        self.living().map(|_| ())
    }

    /// Ends the kernel, with all variables. The files stay.
    pub fn restart(&mut self) {
        self.has_lost |= self.kernel.take().is_some();
    }

    /// Returns the number of the kernel's process on this machine, while it runs.
    pub fn process(&self) -> Option<u32> {
        self.kernel.as_ref().filter(|kernel| kernel.is_alive()).map(Kernel::process)
    }

    fn living(&mut self) -> Result<&Kernel, Error> {
        if self.kernel.as_ref().is_some_and(|kernel| !kernel.is_alive()) {
            self.restart();
        }
        let kernel = match self.kernel.take() {
            Some(kernel) => kernel,
            None => {
                let (pool, folder) = (Arc::clone(&self.pool), self.folder.clone());
                wait(async move { pool.start(&folder).await })?
            }
        };
        Ok(self.kernel.insert(kernel))
    }
}

impl Interpreter for KernelSession {
    fn run(&mut self, code: &str, stop: &Stop, show: &mut dyn FnMut(&CodeOutput)) -> Result<Execution, Error> {
        if stop.is_stopped() {
            return Err(Error::NotBegun);
        }
        self.living()?;
        let is_new_kernel = std::mem::take(&mut self.has_lost);
        let mut outputs = Vec::new();
        if is_new_kernel {
            let note = "the kernel was started again: variables and imports are gone, files are still there";
            outputs.push(CodeOutput::Note(note.into()));
            show(&outputs[0]);
        }
        let end = self.living()?.run(code, stop, show);
        if end.as_ref().is_err_and(Error::lost_kernel) {
            self.restart();
        }
        // The next call says it.
        self.has_lost |= is_new_kernel && end == Err(Error::NotBegun);
        outputs.extend(end?);
        Ok(Execution { outputs, is_new_kernel })
    }

    fn folder(&self) -> &Folder {
        &self.folder
    }
}

impl Drop for KernelSession {
    fn drop(&mut self) {
        self.pool.leave();
    }
}
