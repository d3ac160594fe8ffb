use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use fearless_simd::{Level, dispatch};

use super::kept::{Kept, ROOM};
use super::lanes::Lanes;
use super::long_words::LongWords;
use super::merges::Symbols;
use super::word_cache::{AHEAD, Approach, AskedWords, KnownWords, WordCache, WordsAhead};

/// The number of recently used tokenizers whose memory a thread keeps.
const KEPT: usize = 4;

/// The state that encoding keeps from word to word. Each thread has its own, so that threads share
/// a tokenizer without a lock.
#[derive(Default)]
pub(crate) struct Memory {
    pub lanes: Lanes,
    pub words: WordMemory,
}

/// The words that were encoded.
#[derive(Default)]
pub(crate) struct WordMemory {
    pub cache: WordCache,
    pub long_words: LongWords,
    /// The word that is being merged.
    pub word: Symbols,
    /// The ends of words, of which long ones are cut.
    pub cuts: Vec<u32>,
    pub ahead: Option<Box<WordsAhead>>,
}

impl WordMemory {
    /// Finds out what finds each of these words, and asks for the places where they are. Returns
    /// whether any word is long and not ASCII.
    pub fn approach(&self, bytes: &[u8], start: usize, ends: &[u32], words: &mut [Approach; AHEAD]) -> bool {
        let long_word = |word: &[u8]| {
            self.long_words.approach(word);
            !word.is_ascii()
        };
        dispatch!(Level::new(), _simd => self.cache.approach(bytes, start as u32, ends, words, long_word))
    }

    /// Reads the tokens of words up to the first that is not known.
    pub fn read<K: Kept>(&self, asked: AskedWords<'_>, tokens: &mut [K; ROOM]) -> KnownWords {
        let long_word = |place, to: &mut [K]| self.long_words.read(asked.text, place, to);
        dispatch!(Level::new(), _simd => self.cache.read(asked, tokens, long_word))
    }
}

/// The number of a tokenizer, which identifies its memory on each thread, and its memories for threads
/// that end, each with the number of its worker.
pub(crate) struct MemoryOwner {
    number: u64,
    spare: Mutex<Vec<(usize, Memory)>>,
}

thread_local! {
    static MEMORIES: RefCell<Vec<(u64, Box<Memory>)>> = const { RefCell::new(Vec::new()) };
}

impl MemoryOwner {
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self { number: NEXT.fetch_add(1, Ordering::Relaxed), spare: Mutex::default() }
    }

    /// Calls `work` with this tokenizer's memory on this thread.
    pub fn with_memory<T>(&self, work: impl FnOnce(&mut Memory) -> T) -> T {
        let known = MEMORIES.with_borrow_mut(|memories| {
            let at = memories.iter().position(|(owner, _)| *owner == self.number)?;
            Some(memories.remove(at).1)
        });
        let mut memory = known.unwrap_or_default();
        let result = work(&mut memory);
        MEMORIES.with_borrow_mut(|memories| {
            // The most recently used memory is the last.
            if memories.len() >= KEPT {
                memories.remove(0);
            }
            memories.push((self.number, memory));
        });
        result
    }

    /// Calls `work` with a memory for a thread that ends afterwards: if there is one, that which a
    /// worker with this number had before.
    pub fn with_spare_memory<T>(&self, worker: usize, work: impl FnOnce(&mut Memory) -> T) -> T {
        let spare = || self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        let take = |spare: &mut Vec<(usize, Memory)>| {
            let at = spare.iter().position(|(number, _)| *number == worker)?;
            Some(spare.swap_remove(at).1)
        };
        let taken = take(&mut spare());
        let mut memory = taken.unwrap_or_default();
        let result = work(&mut memory);
        spare().push((worker, memory));
        result
    }
}
