//! Numbers handed out to threads in batches.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The size of a batch.
pub const BATCH: usize = 64;

/// The numbers below a count, in batches that threads take in turn.
#[derive(Debug)]
pub struct Batches {
    next: AtomicUsize,
    count: usize,
}

impl Batches {
    /// Creates the batches of the numbers below `count`.
    pub fn new(count: usize) -> Batches {
        Batches { next: AtomicUsize::new(0), count }
    }

    /// Returns the next batch, or `None` if none is left.
    pub fn take(&self) -> Option<Range<usize>> {
        let first = self.next.fetch_add(BATCH, Ordering::Relaxed);
        (first < self.count).then(|| first..(first + BATCH).min(self.count))
    }
}
