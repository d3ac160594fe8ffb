use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use super::record::Replayed;

/// Frees turns that nothing leads to any more on its own thread, a little at a time: there may be thousands
/// of them, and requests should not wait.
#[derive(Debug)]
pub struct Dropper {
    turns: Option<SyncSender<Vec<Arc<Replayed>>>>,
}

/// How long it goes on without a pause, and how long a pause is.
const SLICE: Duration = Duration::from_millis(1);
const PAUSE: Duration = Duration::from_millis(4);

impl Dropper {
    pub fn new() -> Dropper {
        let (turns, queue) = sync_channel(1);
        let started = thread::Builder::new().name("dropper".into()).spawn(move || drop_all(&queue));
        Dropper { turns: started.is_ok().then_some(turns) }
    }

    /// Frees turns soon. If it has too much to do, they are freed here, so that memory does not grow.
    pub fn take(&self, turns: Vec<Arc<Replayed>>) {
        if let (Some(queue), false) = (&self.turns, turns.is_empty()) {
            let _ = queue.try_send(turns);
        }
    }
}

fn drop_all(queue: &Receiver<Vec<Arc<Replayed>>>) {
    let mut next = None;
    while let Some(turns) = next.take().or_else(|| queue.recv().ok()) {
        let mut began = Instant::now();
        for turn in turns {
            drop(turn);
            if began.elapsed() < SLICE {
                continue;
            }
            next = next.or_else(|| queue.try_recv().ok());
            if next.is_none() {
                thread::sleep(PAUSE);
            }
            began = Instant::now();
        }
    }
}
