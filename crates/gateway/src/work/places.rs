use std::collections::{HashMap, VecDeque};
use std::num::NonZeroUsize;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::store::owner::Owner;

tokio::task_local! {
    /// Whose request a task answers.
    pub static OWNER: Owner;
}

/// Places for long work. Owners take turns, and very long work leaves places for shorter work.
#[derive(Clone)]
pub struct Places(Arc<Mutex<Queue>>);

/// A place that is taken, until this is dropped.
pub struct TakenPlace {
    places: Places,
    is_large: bool,
}

struct Queue {
    /// The places that are free, and those of them that very long work may take.
    free: usize,
    free_large: usize,
    /// In the order in which they came.
    waiting: VecDeque<WaitingWork>,
    /// When each owner had its last turn.
    turns: HashMap<Option<Owner>, u64>,
    turn: u64,
}

struct WaitingWork {
    owner: Option<Owner>,
    is_large: bool,
    start: oneshot::Sender<TakenPlace>,
}

/// The bytes or ids from which work is very long: it takes about 0.1 s or more, and as many megabytes as they are.
const LARGE: usize = 1 << 20;

/// The most very long work at the same time. It needs the most memory.
const MOST_LARGE: usize = 2;

/// A place for each processor, and one more. Very long work leaves a processor to shorter work.
pub static PLACES: LazyLock<Places> = LazyLock::new(|| {
    let processors = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    Places::new(processors + 1, processors.saturating_sub(1).clamp(1, MOST_LARGE))
});

impl Places {
    fn new(free: usize, free_large: usize) -> Places {
        let (waiting, turns) = (VecDeque::new(), HashMap::new());
        Places(Arc::new(Mutex::new(Queue { free, free_large, waiting, turns, turn: 0 })))
    }

    /// Waits for a place for work of a size.
    pub async fn take(&self, size: usize) -> Option<TakenPlace> {
        let owner = OWNER.try_with(|owner| *owner).ok();
        let (start, started) = oneshot::channel();
        self.queue().waiting.push_back(WaitingWork { owner, is_large: size >= LARGE, start });
        self.give();
        started.await.ok()
    }

    /// Gives free places to those that wait. One that no longer waits gives its place back.
    fn give(&self) {
        loop {
            let given = {
                let mut queue = self.queue();
                queue.next().map(|waiting| {
                    let taken = TakenPlace { places: self.clone(), is_large: waiting.is_large };
                    (waiting.start, taken)
                })
            };
            let Some((start, taken)) = given else { return };
            // Without the lock, because a place that is not wanted comes back.
            let _ = start.send(taken);
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    fn free(&self) -> usize {
        self.queue().free
    }
}

impl Queue {
    /// Takes out what comes next: of the owner who waits for the longest time, what came first.
    fn next(&mut self) -> Option<WaitingWork> {
        if self.waiting.is_empty() {
            self.turns.clear();
        }
        if self.free == 0 {
            return None;
        }
        let fits = |waiting: &WaitingWork| !waiting.is_large || self.free_large > 0;
        let last = |waiting: &WaitingWork| self.turns.get(&waiting.owner).copied().unwrap_or(0);
        let waiting = self.waiting.iter().enumerate().filter(|(_, waiting)| fits(waiting));
        let (at, _) = waiting.min_by_key(|(at, waiting)| (last(waiting), *at))?;
        let next = self.waiting.remove(at)?;
        self.turn += 1;
        self.turns.insert(next.owner, self.turn);
        self.free -= 1;
        self.free_large -= usize::from(next.is_large);
        Some(next)
    }
}

impl Drop for TakenPlace {
    fn drop(&mut self) {
        {
            let mut queue = self.places.queue();
            queue.free += 1;
            queue.free_large += usize::from(self.is_large);
        }
        self.places.give();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use futures_util::future::join_all;

    use super::{LARGE, OWNER, Places, TakenPlace};
    use crate::store::owner::Owner;

    /// Takes a place for each work, all at once and after one that is held, and returns the order in which they began.
    async fn order(places: &Places, held: Option<TakenPlace>, works: &[(&'static str, usize)]) -> Vec<String> {
        let begun = Arc::new(Mutex::new(Vec::new()));
        let works = works.iter().enumerate().map(|(at, (owner, size))| {
            let (places, begun) = (places.clone(), Arc::clone(&begun));
            OWNER.scope(Owner::of_key(owner), async move {
                let _place = places.take(*size).await.unwrap();
                begun.lock().unwrap().push(format!("{owner}{at}"));
                tokio::time::sleep(Duration::from_millis(5)).await;
            })
        });
        let release = async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            drop(held);
        };
        tokio::join!(join_all(works), release);
        std::mem::take(&mut *begun.lock().unwrap())
    }

    #[tokio::test]
    async fn owners_take_turns() {
        let places = Places::new(1, 1);
        let works = [("a", 1), ("a", 1), ("a", 1), ("b", 1), ("b", 1), ("c", 1)];
        assert_eq!(order(&places, places.take(1).await, &works).await, ["a0", "b3", "c5", "a1", "b4", "a2"]);
        assert_eq!(places.free(), 1);
    }

    #[tokio::test]
    async fn very_long_work_leaves_a_place_for_shorter_work() {
        let places = Places::new(2, 1);
        let works = [("a", LARGE), ("a", LARGE), ("a", LARGE), ("a", 1)];
        let order = order(&places, None, &works).await;
        assert_eq!(order[..2], ["a0", "a3"]);
        assert_eq!((order.len(), places.free()), (4, 2));
    }

    #[tokio::test]
    async fn who_leaves_while_waiting_takes_no_place() {
        let places = Places::new(1, 1);
        let held = places.take(1).await;
        let gone = tokio::time::timeout(Duration::from_millis(5), places.take(1)).await;
        assert!(gone.is_err());
        drop(held);
        assert!(places.take(1).await.is_some());
        assert_eq!(places.free(), 1);
    }
}
