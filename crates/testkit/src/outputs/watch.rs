use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

/// The time limit for one output; most take milliseconds.
const MOST: Duration = Duration::from_secs(120);

/// The interval between two checks.
const TICK: Duration = Duration::from_millis(50);

/// Watches over work that must end: work that exceeds the limit ends the process with a message
/// that names it.
#[derive(Default)]
pub(super) struct Watch {
    now: Mutex<Now>,
}

#[derive(Default)]
struct Now {
    /// The work of each thread and when it started.
    works: Vec<(ThreadId, Instant, String)>,
    is_over: bool,
}

impl Watch {
    /// Runs a piece of work. Returns the panic payload as an error.
    pub fn during<T>(&self, name: impl Fn() -> String, work: impl FnOnce() -> T) -> Result<T, Box<dyn Any + Send>> {
        let own = thread::current().id();
        self.now().works.push((own, Instant::now(), name()));
        let done = catch_unwind(AssertUnwindSafe(work));
        self.now().works.retain(|(thread, ..)| *thread != own);
        done
    }

    /// Watches until the end. A thread cannot be stopped from outside, so a hanging thread ends the
    /// process.
    pub fn run(&self) {
        loop {
            thread::sleep(TICK);
            let now = self.now();
            if now.is_over {
                return;
            }
            if let Some((_, since, name)) = now.works.iter().find(|(_, since, _)| since.elapsed() > MOST) {
                eprintln!(
                    "BROKEN every output is parsed to its end: not done after {:?}\n  reproduce with: {name}",
                    since.elapsed()
                );
                std::process::exit(1);
            }
        }
    }

    pub fn end(&self) {
        self.now().is_over = true;
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
