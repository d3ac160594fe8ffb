use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};

use foldhash::fast::RandomState;

use super::merges::Symbols;

/// Longer words are merged again each time.
const LONGEST: usize = 256;
/// The most bytes of words and of their tokens. A full cache starts again.
const MOST_BYTES: usize = 3 << 20;

/// A cache of the words that [`super::word_cache`] cannot hold.
#[derive(Default)]
pub(crate) struct LongWords {
    /// By the hash of a word: where it and its tokens are.
    words: HashMap<u64, LongWord, RandomState>,
    texts: Vec<u8>,
    /// The id and the end of each token.
    tokens: Vec<(u32, u32)>,
    hasher: RandomState,
}

#[derive(Clone, Copy)]
struct LongWord {
    text: (u32, u32),
    tokens: (u32, u32),
    splits_characters: bool,
}

impl LongWords {
    /// Returns the id and the end of each token of a word, and whether a character lies in more
    /// than one of them.
    #[inline]
    pub fn get(&self, word: &[u8]) -> Option<(&[(u32, u32)], bool)> {
        if word.len() > LONGEST {
            return None;
        }
        let found = self.words.get(&self.hash(word))?;
        if slice(&self.texts, found.text)? != word {
            return None;
        }
        Some((slice(&self.tokens, found.tokens)?, found.splits_characters))
    }

    pub fn put(&mut self, word: &[u8], merged: &Symbols, splits_characters: bool) {
        if word.len() > LONGEST {
            return;
        }
        if self.texts.len() + self.tokens.len() * 8 > MOST_BYTES {
            self.words.clear();
            self.texts.clear();
            self.tokens.clear();
        }
        let (text, tokens) = (self.texts.len() as u32, self.tokens.len() as u32);
        self.texts.extend_from_slice(word);
        self.tokens.extend(merged.ids.iter().copied().zip(merged.ends.iter().copied()));
        let long_word = LongWord {
            text: (text, self.texts.len() as u32),
            tokens: (tokens, self.tokens.len() as u32),
            splits_characters,
        };
        self.words.insert(self.hash(word), long_word);
    }

    fn hash(&self, word: &[u8]) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(word);
        hasher.finish()
    }
}

fn slice<T>(all: &[T], (start, end): (u32, u32)) -> Option<&[T]> {
    all.get(start as usize..end as usize)
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
        for at in 0..count {
            let mut symbols = Symbols::default();
            symbols.push(at as u32, 20);
            symbols.push(7, 40);
            cache.put(word(at).as_bytes(), &symbols, at % 2 == 0);
            let expected = [(at as u32, 20), (7, 40)];
            assert_eq!(cache.get(word(at).as_bytes()), Some((expected.as_slice(), at % 2 == 0)));
        }
        assert!(cache.get(word(0).as_bytes()).is_none(), "it started again");
        assert!(cache.texts.len() + cache.tokens.len() * 8 <= MOST_BYTES + 100);
        let long = "a".repeat(LONGEST + 1);
        cache.put(long.as_bytes(), &Symbols::default(), false);
        assert!(cache.get(long.as_bytes()).is_none());
    }
}
