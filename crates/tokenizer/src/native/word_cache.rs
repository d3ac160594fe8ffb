use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};

use super::merges::Symbols;

/// Longer words, and words with more tokens, are merged again each time.
const LONGEST: usize = 24;
const MOST_TOKENS: usize = 6;
/// 1 MiB per thread and tokenizer.
const SLOTS: usize = 1 << 14;
/// The number of recently used tokenizers whose caches a thread keeps.
const KEPT: usize = 4;

/// A cache of words and their tokens: a fixed table in which a word replaces the previous word in
/// its slot.
pub(crate) struct WordCache {
    slots: Vec<Slot>,
}

/// The word (three numbers), its ids (two per number), then the end of each token, the number of
/// tokens, and the word's length.
type Slot = [u64; 7];

/// A word in the form stored in a slot.
#[derive(Clone, Copy)]
pub(crate) struct WordKey {
    bytes: [u64; 3],
    length: usize,
    slot: usize,
}

/// The bits of a key that a word of each length fills.
static MASKS: [[u64; 3]; LONGEST + 1] = {
    let mut masks = [[0; 3]; LONGEST + 1];
    let mut bit = 0;
    while bit < LONGEST * 8 * (LONGEST + 1) {
        let (length, at) = (bit / (LONGEST * 8), bit % (LONGEST * 8));
        if at < length * 8 {
            masks[length][at / 64] |= 1 << (at % 64);
        }
        bit += 1;
    }
    masks
};

impl WordKey {
    /// Returns the key of a part of a text, or `None` if the word is too long.
    #[inline]
    pub fn new(text: &str, start: usize, end: usize) -> Option<Self> {
        let length = end - start;
        if length > LONGEST || length == 0 {
            return None;
        }
        let bytes = text.as_bytes();
        let mut buffer = [0; LONGEST];
        let window: &[u8; LONGEST] = match bytes.get(start..)?.first_chunk() {
            // Read the text in place: numbers read from a copy that was just written wait for it.
            Some(window) => window,
            None => {
                buffer[..length].copy_from_slice(bytes.get(start..end)?);
                &buffer
            }
        };
        let ([a, b, c], _) = window.as_chunks() else { return None };
        let mask = &MASKS[length];
        let part = |part: &[u8; 8], mask: u64| u64::from_le_bytes(*part) & mask;
        let bytes = [part(a, mask[0]), part(b, mask[1]), part(c, mask[2])];
        let mixed = (bytes[0] ^ bytes[1].rotate_left(23) ^ bytes[2].rotate_left(41) ^ length as u64)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mixed = (mixed ^ mixed >> 32 ^ bytes[1]).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        Some(Self { bytes, length, slot: (mixed >> 50) as usize % SLOTS })
    }
}

impl WordCache {
    pub fn new() -> Self {
        Self { slots: vec![[0; 7]; SLOTS] }
    }

    /// Calls `found` with the id and the end of each token of a known word. Returns whether the
    /// word is known.
    #[inline]
    pub fn get(&self, key: &WordKey, mut found: impl FnMut(u32, usize)) -> bool {
        let slot = &self.slots[key.slot];
        let [a, b, c, ids @ .., rest] = slot;
        let [.., count, length] = rest.to_le_bytes();
        // Number by number, for the same reason.
        let [x, y, z] = key.bytes;
        if (a ^ x) | (b ^ y) | (c ^ z) != 0 || usize::from(length) != key.length {
            return false;
        }
        let ends = rest.to_le_bytes();
        for at in 0..usize::from(count).min(MOST_TOKENS) {
            let id = (ids[at / 2] >> (at % 2 * 32)) as u32;
            found(id, usize::from(ends[at]));
        }
        true
    }

    pub fn put(&mut self, key: &WordKey, word: &Symbols) {
        let count = word.ids.len();
        if count > MOST_TOKENS {
            return;
        }
        let mut ids = [0u64; MOST_TOKENS / 2];
        let mut rest = [0u8; 8];
        for (at, (&id, &end)) in word.ids.iter().zip(&word.ends).enumerate() {
            ids[at / 2] |= u64::from(id) << (at % 2 * 32);
            rest[at] = end as u8;
        }
        rest[6] = count as u8;
        rest[7] = key.length as u8;
        let [a, b, c] = key.bytes;
        self.slots[key.slot] = [a, b, c, ids[0], ids[1], ids[2], u64::from_le_bytes(rest)];
    }
}

/// The state that encoding keeps from word to word. Each thread has its own, so that threads share
/// a tokenizer without a lock.
pub(crate) struct Memory {
    pub cache: WordCache,
    pub word: Symbols,
}

/// The number of a tokenizer, which identifies its memory on each thread.
pub(crate) struct CacheOwner(u64);

thread_local! {
    static MEMORIES: RefCell<Vec<(u64, Box<Memory>)>> = const { RefCell::new(Vec::new()) };
}

impl CacheOwner {
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// Calls `work` with this tokenizer's memory on this thread.
    pub fn with_memory<T>(&self, work: impl FnOnce(&mut Memory) -> T) -> T {
        let known = MEMORIES.with_borrow_mut(|memories| {
            let at = memories.iter().position(|(owner, _)| *owner == self.0)?;
            Some(memories.remove(at).1)
        });
        let mut memory =
            known.unwrap_or_else(|| Box::new(Memory { cache: WordCache::new(), word: Symbols::default() }));
        let result = work(&mut memory);
        MEMORIES.with_borrow_mut(|memories| {
            // The most recently used memory is the last.
            if memories.len() >= KEPT {
                memories.remove(0);
            }
            memories.push((self.0, memory));
        });
        result
    }
}
