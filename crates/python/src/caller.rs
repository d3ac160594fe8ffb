//! Long work on a thread of its own, while Python's thread waits for it, runs its callbacks, and is interrupted.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use rolecall::guard::guard;
use rolecall_interpreter::Stop;

use crate::error;

/// How often signals are looked for.
const OFTEN: Duration = Duration::from_millis(50);

/// How long work that was stopped may go on. It is longer than a kernel may need to end.
const PATIENCE: Duration = Duration::from_millis(2500);

type Task = Box<dyn FnOnce(Python<'_>) -> PyResult<()> + Send>;

/// The thread that waits. What it is asked to do is done there, one after the other, so that a callback may use what
/// belongs to its thread, and an interrupt ends it.
#[derive(Clone)]
pub struct Caller(Sender<Task>);

impl Caller {
    /// Asks for something, and waits for it. Without a result, it failed or nobody waits any more.
    pub fn ask<T: Send + 'static>(&self, work: impl FnOnce(Python<'_>) -> PyResult<T> + Send + 'static) -> Option<T> {
        let (done, answer) = mpsc::channel();
        self.tell(move |py| {
            let _ = done.send(work(py)?);
            Ok(())
        });
        answer.recv().ok()
    }

    /// Asks for something that nobody waits for. An error ends the work.
    pub fn tell(&self, work: impl FnOnce(Python<'_>) -> PyResult<()> + Send + 'static) {
        let _ = self.0.send(Box::new(work));
    }
}

/// Does work on a new thread, without the GIL. The first error of a callback, or an interrupt, stops it and is raised.
/// Work that does not end then is left to end by itself.
pub fn call<T: Send + 'static>(
    py: Python<'_>,
    stop: &Stop,
    work: impl FnOnce(Caller) -> T + Send + 'static,
) -> PyResult<T> {
    let (tasks, asked) = mpsc::channel::<Task>();
    let (done, end) = mpsc::channel();
    let start = thread::Builder::new().name("rolecall-run".into()).stack_size(8 << 20);
    start.spawn(move || {
        let result = guard(|| work(Caller(tasks)));
        let _ = done.send(result);
    })?;
    let failed = py.detach(move || {
        let mut failed: Option<(PyErr, Instant)> = None;
        loop {
            let task = match asked.recv_timeout(OFTEN) {
                // A task that is dropped answers whoever asked that nobody waits.
                Ok(task) => Some(task).filter(|_| failed.is_none()),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => break failed,
            };
            let done = Python::attach(|py| task.map_or(Ok(()), |task| task(py)).and_then(|()| py.check_signals()));
            failed = match (failed, done) {
                // Whoever interrupts twice does not want to wait.
                (Some(failed), Err(_)) => break Some(failed),
                (Some((error, since)), Ok(())) if since.elapsed() > PATIENCE => break Some((error, since)),
                (Some(failed), Ok(())) => Some(failed),
                (None, Ok(())) => None,
                (None, Err(error)) => {
                    stop.stop();
                    Some((error, Instant::now()))
                }
            };
        }
    });
    if let Some((error, _)) = failed {
        return Err(error);
    }
    let result = py.detach(move || end.recv());
    let ended = || rolecall::Error::Internal { message: "the thread ended without a result".into(), place: None };
    result.unwrap_or_else(|_| Err(ended())).map_err(|error| error::of(py, &error))
}
