//! Processing tasks on several threads, with results in order and at most a fixed window of them in
//! memory.
//!
//! [`start`] starts the threads, and [`OrderedResults::next`] waits for the next result.
//!
//! ```text
//!            ┌─tasks──► worker ─┐
//! source ────┤          ..      ├─one answer each──► `OrderedResults::next`
//!            └─order: who owes the next answer──────►
//! ```
//!
//! The order channel is the window: when it is full, the source waits. Workers hold no lock while
//! they work.

use std::num::NonZeroUsize;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// The stack size of the threads: as large as the main thread's on most systems, for deeply nested
/// templates and values.
const STACK: usize = 8 << 20;

/// The number of results per thread that may wait for a slow one.
const WINDOW: usize = 4;

/// Results in the order of their tasks.
#[derive(Debug)]
pub struct OrderedResults<R> {
    order: Receiver<PipelineTurn<R>>,
    owed: Option<Receiver<R>>,
}

/// The outcome of waiting for the next result.
#[derive(Debug)]
pub enum PipelineStep<R> {
    /// A result.
    Done(R),
    /// No result is available yet.
    Late,
    /// There are no more results.
    End,
}

/// A thread died while working, so a result is missing.
#[derive(Debug, PartialEq, Eq)]
pub struct LostWorker;

#[derive(Debug)]
enum PipelineTurn<R> {
    Owed(Receiver<R>),
    /// The source has ended normally.
    End,
}

struct Task<T, R> {
    work: T,
    answer: SyncSender<R>,
}

/// Starts the threads: `source` produces tasks until it returns `None`, and `work` processes each.
///
/// The threads are never joined, so that a source that blocks in a read does not keep the caller from
/// ending. When the results are dropped, the threads end with the tasks that they have begun.
///
/// ```
/// use rolecall::pipeline::{PipelineStep, start};
/// use std::{num::NonZeroUsize, time::Duration};
/// let mut numbers = 0..3;
/// let mut ordered = start(NonZeroUsize::MIN, move || numbers.next(), |number| number * 2)?;
/// let mut doubled = Vec::new();
/// while let Ok(PipelineStep::Done(number)) = ordered.next(Duration::from_secs(10)) {
///     doubled.push(number);
/// }
/// assert_eq!(doubled, [0, 2, 4]);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn start<T: Send + 'static, R: Send + 'static>(
    threads: NonZeroUsize,
    mut source: impl FnMut() -> Option<T> + Send + 'static,
    work: impl Fn(T) -> R + Send + Sync + 'static,
) -> std::io::Result<OrderedResults<R>> {
    let (tasks, taken) = sync_channel::<Task<T, R>>(threads.get());
    let (turns, order) = sync_channel(threads.get() * WINDOW);
    let taken = Arc::new(Mutex::new(taken));
    let work = Arc::new(work);
    for _ in 0..threads.get() {
        let (taken, work) = (Arc::clone(&taken), Arc::clone(&work));
        spawn(move || {
            loop {
                let task = taken.lock().unwrap_or_else(PoisonError::into_inner).recv();
                let Ok(task) = task else { break };
                // The receiver may be gone.
                let _ = task.answer.send(work(task.work));
            }
        })?;
    }
    spawn(move || {
        while let Some(work) = source() {
            let (answer, owed) = sync_channel(1);
            if turns.send(PipelineTurn::Owed(owed)).is_err() || tasks.send(Task { work, answer }).is_err() {
                return;
            }
        }
        let _ = turns.send(PipelineTurn::End);
    })?;
    Ok(OrderedResults { order, owed: None })
}

fn spawn(run: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    thread::Builder::new().stack_size(STACK).spawn(run).map(|_| ())
}

impl<R> OrderedResults<R> {
    /// Returns the next result, if it is available within this time.
    pub fn next(&mut self, patience: Duration) -> Result<PipelineStep<R>, LostWorker> {
        if self.owed.is_none() {
            match wait(&self.order, patience) {
                Ok(PipelineTurn::Owed(owed)) => self.owed = Some(owed),
                Ok(PipelineTurn::End) => return Ok(PipelineStep::End),
                Err(RecvTimeoutError::Timeout) => return Ok(PipelineStep::Late),
                Err(RecvTimeoutError::Disconnected) => return Err(LostWorker),
            }
        }
        let Some(owed) = &self.owed else { return Ok(PipelineStep::Late) };
        match wait(owed, patience) {
            Ok(result) => {
                self.owed = None;
                Ok(PipelineStep::Done(result))
            }
            Err(RecvTimeoutError::Timeout) => Ok(PipelineStep::Late),
            Err(RecvTimeoutError::Disconnected) => Err(LostWorker),
        }
    }
}

fn wait<M>(receiver: &Receiver<M>, patience: Duration) -> Result<M, RecvTimeoutError> {
    match receiver.try_recv() {
        Ok(message) => Ok(message),
        Err(TryRecvError::Disconnected) => Err(RecvTimeoutError::Disconnected),
        Err(TryRecvError::Empty) if patience.is_zero() => Err(RecvTimeoutError::Timeout),
        Err(TryRecvError::Empty) => receiver.recv_timeout(patience),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn threads(count: usize) -> NonZeroUsize {
        NonZeroUsize::new(count).unwrap()
    }

    #[test]
    fn results_come_in_order_whoever_is_first() {
        let mut numbers = 0..1000_u64;
        let mut ordered = start(
            threads(8),
            move || numbers.next(),
            |number| {
                thread::sleep(Duration::from_micros((number * 7919) % 300));
                number
            },
        )
        .unwrap();
        let mut seen = Vec::new();
        while let PipelineStep::Done(number) = ordered.next(LONG).unwrap() {
            seen.push(number);
        }
        assert!(seen.into_iter().eq(0..1000));
    }

    #[test]
    fn one_slow_task_holds_the_source_back() {
        let read = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&read);
        let mut numbers = 0..10_000;
        let (open, gate) = sync_channel::<()>(0);
        let gate = Mutex::new(gate);
        let source = move || {
            count.fetch_add(1, Ordering::SeqCst);
            numbers.next()
        };
        let mut ordered = start(threads(2), source, move |number| {
            if number == 0 {
                let _ = gate.lock().unwrap().recv();
            }
            number
        })
        .unwrap();
        assert!(matches!(ordered.next(Duration::from_millis(200)), Ok(PipelineStep::Late)));
        // The window, the one being sent and the one that the consumer waits for.
        let most = 2 * WINDOW + 2;
        assert!(read.load(Ordering::SeqCst) <= most, "{read:?} were read, expected at most {most}");
        open.send(()).unwrap();
        let mut count = 0;
        while let PipelineStep::Done(number) = ordered.next(LONG).unwrap() {
            assert_eq!(number, count);
            count += 1;
        }
        assert_eq!(count, 10_000);
    }

    #[test]
    fn a_panic_is_a_lost_result_and_no_end() {
        let mut numbers = 0..100;
        let mut ordered = start(
            threads(3),
            move || numbers.next(),
            |number| {
                assert_ne!(number, 50, "this test panics here on purpose");
                number
            },
        )
        .unwrap();
        let mut count = 0;
        let end = loop {
            match ordered.next(LONG) {
                Ok(PipelineStep::Done(_)) => count += 1,
                Ok(_) => break Ok(()),
                Err(lost) => break Err(lost),
            }
        };
        assert_eq!((end, count), (Err(LostWorker), 50));
    }

    #[test]
    fn a_panic_of_the_source_is_no_end() {
        let mut numbers = 0..10;
        let source = move || {
            let next = numbers.next();
            assert_ne!(next, Some(5), "this test panics here on purpose");
            next
        };
        let mut ordered = start(threads(2), source, |number| number).unwrap();
        let end = loop {
            match ordered.next(LONG) {
                Ok(PipelineStep::Done(_)) => {}
                Ok(_) => break Ok(()),
                Err(lost) => break Err(lost),
            }
        };
        assert_eq!(end, Err(LostWorker));
    }
}
