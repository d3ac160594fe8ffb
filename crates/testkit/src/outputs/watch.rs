use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

/// What one output may take; they take milliseconds.
const MOST: Duration = Duration::from_secs(120);

/// How often one looks.
const TICK: Duration = Duration::from_millis(50);

/// Watches over work that must end: what does not ends the process, and says what it was.
#[derive(Default)]
pub(super) struct Watch {
    now: Mutex<Now>,
}

#[derive(Default)]
struct Now {
    /// What each thread works at, and since when.
    works: Vec<(ThreadId, Instant, String)>,
    is_over: bool,
}

impl Watch {
    /// Does a piece of work; an error is what it panicked with.
    pub fn during<T>(&self, name: impl Fn() -> String, work: impl FnOnce() -> T) -> Result<T, Box<dyn Any + Send>> {
        let own = thread::current().id();
        self.now().works.push((own, Instant::now(), name()));
        let done = catch_unwind(AssertUnwindSafe(work));
        self.now().works.retain(|(thread, ..)| *thread != own);
        done
    }

    /// Looks until the end. A thread cannot be stopped from outside, so that a process with one that hangs can only end.
    pub fn run(&self) {
        loop {
            thread::sleep(TICK);
            let now = self.now();
            if now.is_over {
                return;
            }
            if let Some((_, since, name)) = now.works.iter().find(|(_, since, _)| since.elapsed() > MOST) {
                eprintln!("BROKEN every output is read to its end: not after {:?}\n  again: {name}", since.elapsed());
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
