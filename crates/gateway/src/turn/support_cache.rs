use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The kinds of requests of which a model's template is known to write everything.
#[derive(Debug, Default)]
pub struct SupportCache(Mutex<HashSet<String>>);

/// The most kinds that are remembered.
const MOST_KINDS: usize = 64;

impl SupportCache {
    /// Reports whether a kind is known.
    pub fn has(&self, kind: &str) -> bool {
        self.kinds().contains(kind)
    }

    /// Remembers a kind.
    pub fn add(&self, kind: String) {
        let mut kinds = self.kinds();
        if kinds.len() >= MOST_KINDS {
            kinds.clear();
        }
        kinds.insert(kind);
    }

    fn kinds(&self) -> MutexGuard<'_, HashSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
