use std::future::Future;
use std::sync::{OnceLock, mpsc};

use tokio::runtime::{Builder, Runtime};

use crate::Error;

/// The threads that speak with kernels. They live as long as the process: a sandbox ends with the thread that
/// started it.
static RUNTIME: OnceLock<Result<Runtime, String>> = OnceLock::new();

/// Returns the runtime of all kernels.
pub(crate) fn runtime() -> Result<&'static Runtime, Error> {
    let runtime = RUNTIME.get_or_init(|| {
        let threads = Builder::new_multi_thread().worker_threads(2).thread_name("interpreter").enable_all().build();
        threads.map_err(|error| error.to_string())
    });
    runtime.as_ref().map_err(|error| Error::Internal(format!("threads could not be started: {error}")))
}

/// Runs a task there, and waits for it. The caller may be a thread of another runtime that is allowed to wait. A task
/// that panics ends this call alone.
pub(crate) fn wait<T: Send + 'static>(
    task: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> Result<T, Error> {
    let (done, answer) = mpsc::channel();
    runtime()?.spawn(async move {
        let _ = done.send(task.await);
    });
    answer.recv().unwrap_or_else(|_| Err(Error::Internal("a task of the interpreter ended without an answer".into())))
}
