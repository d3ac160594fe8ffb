use std::hash::{BuildHasher, Hasher};

use foldhash::fast::RandomState;
use prefetch_index::prefetch_index;

use super::kept::{Kept, place_tokens};
use super::merges::Symbols;

/// Longer words are merged again each time.
const LONGEST: usize = 256;
/// The most bytes of words and their tokens. A full cache starts again.
const MOST_BYTES: usize = 6 << 20;
/// The slots of a new cache.
const FIRST_SLOTS: usize = 1 << 8;

/// A cache of the words that [`super::word_cache`] cannot hold.
pub(crate) struct LongWords {
    /// An open-addressing table: some bits of a word's hash, and the start of its entry plus 1.
    slots: Vec<(u32, u32)>,
    /// The entries: a [`Head`], the word, and 6 bytes for each token.
    entries: Vec<u8>,
    count: usize,
    hasher: RandomState,
}

/// The length of the word, the number of its tokens, and whether a character lies in more than one
/// of them.
type Head = [u8; 5];
const HEAD: usize = size_of::<Head>();
const TOKEN: usize = 6;

impl Default for LongWords {
    fn default() -> Self {
        Self { slots: vec![(0, 0); FIRST_SLOTS], entries: Vec::new(), count: 0, hasher: RandomState::default() }
    }
}

impl LongWords {
    /// Asks for the place where a word is looked up.
    #[inline]
    pub fn approach(&self, word: &[u8]) {
        if word.len() <= LONGEST {
            prefetch_index(&self.slots, self.hash(word) as usize & (self.slots.len() - 1));
        }
    }

    /// Returns the id and the end of each token of a word, and whether a character lies in more
    /// than one of them.
    pub fn get(&self, word: &[u8]) -> Option<(impl Iterator<Item = (u32, usize)> + use<'_>, bool)> {
        if word.len() > LONGEST {
            return None;
        }
        let hash = self.hash(word);
        let mut at = hash as usize;
        loop {
            let (bits, start) = self.slots[at & (self.slots.len() - 1)];
            let start = start.checked_sub(1)?;
            if bits == (hash >> 32) as u32 {
                let entry = self.entries.get(start as usize..)?;
                let ([low, high, count_low, count_high, splits], rest) = entry.split_first_chunk::<HEAD>()?;
                let length = usize::from(u16::from_le_bytes([*low, *high]));
                let count = usize::from(u16::from_le_bytes([*count_low, *count_high]));
                let (text, tokens) = rest.split_at_checked(length)?;
                if text == word {
                    let (tokens, _) = tokens.as_chunks::<TOKEN>();
                    let tokens = tokens.get(..count)?.iter().map(|&[a, b, c, d, low, high]| {
                        (u32::from_le_bytes([a, b, c, d]), usize::from(u16::from_le_bytes([low, high])))
                    });
                    return Some((tokens, *splits == 1));
                }
            }
            at = at.wrapping_add(1);
        }
    }

    /// Writes the tokens of the word at a place of a text. Returns their number, or `None` if the word
    /// is not here, or has more tokens than there is room for.
    pub fn read<K: Kept>(&self, text: &str, (start, end): (u32, u32), tokens: &mut [K]) -> Option<usize> {
        let (start, end) = (start as usize, end as usize);
        let (known, splits_characters) = self.get(text.as_bytes().get(start..end)?)?;
        let mut count = 0;
        for token in place_tokens(text, start, known, splits_characters) {
            *tokens.get_mut(count)? = token;
            count += 1;
        }
        Some(count)
    }

    pub fn put(&mut self, word: &[u8], merged: &Symbols, splits_characters: bool) {
        if word.len() > LONGEST {
            return;
        }
        if self.entries.len() > MOST_BYTES {
            self.slots.fill((0, 0));
            self.entries.clear();
            self.count = 0;
        }
        let start = self.entries.len() as u32 + 1;
        self.entries.extend((word.len() as u16).to_le_bytes());
        self.entries.extend((merged.ids.len() as u16).to_le_bytes());
        self.entries.push(u8::from(splits_characters));
        self.entries.extend_from_slice(word);
        for (id, &end) in merged.ids.iter().zip(&merged.ends) {
            self.entries.extend(id.to_le_bytes());
            self.entries.extend((end as u16).to_le_bytes());
        }
        if self.count * 2 >= self.slots.len() {
            let larger = vec![(0, 0); self.slots.len() * 2];
            for (_, start) in std::mem::replace(&mut self.slots, larger) {
                if let Some(entry) = start.checked_sub(1).and_then(|start| self.entries.get(start as usize..))
                    && let Some(([low, high, ..], rest)) = entry.split_first_chunk::<HEAD>()
                    && let Some(word) = rest.get(..usize::from(u16::from_le_bytes([*low, *high])))
                {
                    let hash = self.hash(word);
                    self.insert(hash, start);
                }
            }
        }
        let hash = self.hash(word);
        self.insert(hash, start);
        self.count += 1;
    }

    fn insert(&mut self, hash: u64, start: u32) {
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        while self.slots[at].1 != 0 {
            at = (at + 1) & mask;
        }
        self.slots[at] = ((hash >> 32) as u32, start);
    }

    #[inline]
    fn hash(&self, word: &[u8]) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(word);
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::super::merges::Symbols;
    use super::{LONGEST, LongWords, MOST_BYTES};

    #[test]
    fn long_words_are_kept_until_the_cache_is_full() {
        let mut cache = LongWords::default();
        let word = |at: usize| format!("{at:040}");
        let count = MOST_BYTES / 40;
        let mut known = 0;
        for at in 0..count {
            let mut symbols = Symbols::default();
            symbols.push(at as u32, 20);
            symbols.push(7, 40);
            cache.put(word(at).as_bytes(), &symbols, at % 2 == 0);
            for at in [at, at.saturating_sub(1_000)] {
                if let Some((tokens, splits_characters)) = cache.get(word(at).as_bytes()) {
                    assert_eq!(tokens.collect::<Vec<_>>(), [(at as u32, 20), (7, 40)]);
                    assert_eq!(splits_characters, at % 2 == 0);
                    known += 1;
                }
            }
        }
        assert!(known > 2 * count - 3_000, "{known} of {count}, each twice");
        assert!(cache.get(word(0).as_bytes()).is_none(), "it started again");
        assert!(cache.entries.len() <= MOST_BYTES + 100);
        let long = "a".repeat(LONGEST + 1);
        cache.put(long.as_bytes(), &Symbols::default(), false);
        assert!(cache.get(long.as_bytes()).is_none());
    }
}
