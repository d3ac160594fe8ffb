use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::record::Replayed;

/// Drops turns that left memory on a thread of its own, a little at a time: there may be thousands of them,
/// and requests should not wait.
#[derive(Debug)]
pub struct Dropper {
    turns: Option<Sender<Vec<Arc<Replayed>>>>,
}

/// How long it goes on without a pause, and how long a pause is.
const SLICE: Duration = Duration::from_millis(1);
const PAUSE: Duration = Duration::from_millis(4);

impl Dropper {
    pub fn new() -> Dropper {
        let (turns, queue) = channel();
        let started = thread::Builder::new().name("dropper".into()).spawn(move || drop_all(&queue));
        Dropper { turns: started.is_ok().then_some(turns) }
    }

    /// Drops turns soon.
    pub fn take(&self, turns: Vec<Arc<Replayed>>) {
        if let (Some(queue), false) = (&self.turns, turns.is_empty()) {
            // Without the thread they are dropped here.
            let _ = queue.send(turns);
        }
    }
}

fn drop_all(queue: &Receiver<Vec<Arc<Replayed>>>) {
    while let Ok(turns) = queue.recv() {
        let mut began = Instant::now();
        let mut more = Vec::new();
        for turn in turns {
            drop(turn);
            if began.elapsed() < SLICE {
                continue;
            }
            // What waits must not become more and more.
            match queue.try_recv() {
                Ok(next) => more.push(next),
                Err(_) if more.is_empty() => thread::sleep(PAUSE),
                Err(_) => {}
            }
            began = Instant::now();
        }
        drop(more);
    }
}
