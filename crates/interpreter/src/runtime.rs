use std::future::Future;
use std::process;
use std::sync::{OnceLock, mpsc};

use tokio::runtime::{Builder, Runtime};

use crate::Error;

/// The threads that speak with kernels. They live as long as the process: a sandbox ends with the thread that
/// started it.
static RUNTIME: OnceLock<Result<(Runtime, u32), String>> = OnceLock::new();

/// Returns the runtime of all kernels.
pub(crate) fn runtime() -> Result<&'static Runtime, Error> {
    let runtime = RUNTIME.get_or_init(|| {
        let threads = Builder::new_multi_thread().worker_threads(2).thread_name("interpreter").enable_all().build();
        threads.map(|runtime| (runtime, process::id())).map_err(|error| error.to_string())
    });
    match runtime {
        Ok((runtime, process)) if *process == process::id() => Ok(runtime),
        // A process that was forked has no threads, and would wait for them forever.
        Ok(_) => Err(Error::Start("this process was forked from one that has kernels; start it anew instead".into())),
        Err(error) => Err(Error::Internal(format!("threads could not be started: {error}"))),
    }
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

/// Runs a task there, for a caller that may not wait. It goes on if the caller is dropped.
pub(crate) async fn run<T: Send + 'static>(
    task: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> Result<T, Error> {
    let ended = runtime()?.spawn(task).await;
    ended.unwrap_or_else(|_| Err(Error::Internal("a task of the interpreter ended without an answer".into())))
}
