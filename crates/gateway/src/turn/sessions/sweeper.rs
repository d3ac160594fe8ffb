use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use super::live::Live;

/// Makes room for conversations before there is none, on its own thread and a little at a time: thousands
/// of them leave memory together, and requests should not wait.
#[derive(Debug)]
pub struct Sweeper(Option<SyncSender<()>>);

/// How many conversations leave the tables while requests cannot use these, and how long the tables are
/// left alone then. Without a rest, the lock would seldom be given to a request.
const BATCH: usize = 64;
const REST: Duration = Duration::from_millis(1);

/// How long it frees memory without a pause, and how long a pause is.
const SLICE: Duration = Duration::from_micros(200);
const PAUSE: Duration = Duration::from_micros(800);

impl Sweeper {
    /// Starts the thread, which ends when this is dropped.
    pub fn new(live: &Arc<Mutex<Live>>) -> Sweeper {
        let (wake, calls) = sync_channel(1);
        let live = Arc::downgrade(live);
        // Without a thread, conversations leave when there is no room.
        let started = thread::Builder::new().name("sweeper".into()).spawn(move || sweep(&live, &calls));
        Sweeper(started.is_ok().then_some(wake))
    }

    /// Wakes the thread.
    pub fn wake(&self) {
        // If it has been called already, that is enough.
        let _ = self.0.as_ref().map(|wake| wake.try_send(()));
    }
}

fn sweep(live: &Weak<Mutex<Live>>, calls: &Receiver<()>) {
    while let (Ok(()), Some(live)) = (calls.recv(), live.upgrade()) {
        let mut removed = Vec::new();
        while !live.lock().unwrap_or_else(PoisonError::into_inner).thin(BATCH, &mut removed) {
            thread::sleep(REST);
        }
        let mut began = Instant::now();
        for turn in removed {
            drop(turn);
            if began.elapsed() > SLICE {
                thread::sleep(PAUSE);
                began = Instant::now();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Owner, StoredTurn};
    use crate::turn::sessions::live::tests::{AGE, MOST, past};

    #[test]
    fn room_is_made_before_there_is_none_and_the_thread_ends() {
        let (owner, past) = (Owner::of_key("key"), past());
        let live = Arc::new(Mutex::new(Live::new(MOST, AGE)));
        let sweeper = Sweeper::new(&live);
        let wait = |is_done: &dyn Fn() -> bool| {
            let began = Instant::now();
            while !is_done() {
                assert!(began.elapsed() < Duration::from_secs(60));
                thread::sleep(Duration::from_millis(1));
            }
        };
        for _ in 0..3 {
            while !live.lock().unwrap().is_nearly_full() {
                let turn = StoredTurn::first(Vec::new()).id;
                let removed = live.lock().unwrap().add(owner, turn, Arc::clone(&past), (&[], 0));
                assert!(removed.is_empty());
            }
            sweeper.wake();
            // This one, and 87 in the table.
            wait(&|| Arc::strong_count(&past) == 1 + 87);
        }
        drop(sweeper);
        wait(&|| Arc::weak_count(&live) == 0);
    }
}
