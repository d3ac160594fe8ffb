use prefetch_index::prefetch_index;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::super::Token;
use super::kept::{Kept, KeptRoom, ROOM};
use super::large_table::LargeTable;
use super::merges::Symbols;

/// Words with more tokens are kept with the long words.
const MOST_TOKENS: usize = 4;
/// The most tokens of a word that are read with those of its neighbors.
const MOST_READ: usize = 16;
/// The buckets of a new cache, and the most that it grows to: 32 KiB, and 16 MiB.
const FIRST_BUCKETS: usize = 1 << 9;
const MOST_BUCKETS: usize = 1 << 18;

/// A cache of short words and their tokens.
///
/// A table of buckets with two words each. A word is in one of two buckets, and replaces another
/// word if neither has room. The table grows while that happens, so that it stays small for text
/// with few words.
pub(crate) struct WordCache {
    buckets: LargeTable<Bucket>,
    /// The number of words that were replaced since the table grew.
    replaced: usize,
}

/// One cache line of the processor.
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(64))]
struct Bucket([Slot; 2]);

/// A word and its tokens; the key of an empty slot has length 0.
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Slot {
    key: [u64; 2],
    word: CachedWord,
}

/// A short word: up to 15 bytes, and in the last byte their number.
#[derive(Clone, Copy)]
pub(crate) struct WordKey([u64; 2]);

/// A word that is about to be looked up.
#[derive(Clone, Copy)]
pub(crate) struct Approach {
    key: WordKey,
    hash: u64,
}

/// The number of words that are looked up together.
pub(crate) const AHEAD: usize = 64;
const _: () = assert!(MOST_TOKENS * AHEAD + MOST_READ <= ROOM);

/// The words that are looked up next, and the tokens of those that are known.
pub(crate) struct WordsAhead {
    pub words: [Approach; AHEAD],
    pub tokens: KeptRoom,
}

impl Default for WordsAhead {
    fn default() -> Self {
        Self { words: [Approach::NONE; AHEAD], tokens: KeptRoom::default() }
    }
}

/// Neighboring words of a text that were asked for. The first begins at `start`.
#[derive(Clone, Copy)]
pub(crate) struct AskedWords<'a> {
    pub text: &'a str,
    pub start: usize,
    pub ends: &'a [u32],
    pub words: &'a [Approach],
}

/// How many words are known, how many tokens they have, and where they end.
pub(crate) struct KnownWords {
    pub words: usize,
    pub tokens: usize,
    pub end: usize,
}

impl Approach {
    /// Finds no word.
    const NONE: Self = Self { key: WordKey([0, u64::MAX]), hash: 0 };
}

/// The bits of a key that a word of each length fills.
static MASKS: [[u64; 2]; WordKey::LONGEST + 1] = {
    let mut masks = [[0; 2]; WordKey::LONGEST + 1];
    let mut length = 0;
    while length <= WordKey::LONGEST {
        let mask = (1u128 << (length * 8)) - 1;
        masks[length] = [mask as u64, (mask >> 64) as u64];
        length += 1;
    }
    masks
};

impl WordKey {
    /// The length in bytes of the longest word. Longer ones are in [`super::long_words`].
    pub const LONGEST: usize = 15;

    /// Returns the key of a part of a text, or `None` if the word is too long.
    pub fn new(bytes: &[u8], start: usize, end: usize) -> Option<Self> {
        let length = end.checked_sub(start).filter(|&length| length <= Self::LONGEST)?;
        Some(Self::of_length(bytes, start, length))
    }

    #[inline(always)]
    fn of_length(bytes: &[u8], start: usize, length: usize) -> Self {
        // Read the text in place: numbers read from a copy that was just written wait for it.
        let window = match bytes.get(start..start + 16).and_then(|window| window.first_chunk()) {
            Some(window) => u128::from_le_bytes(*window),
            None => Self::at_the_end(bytes, start),
        };
        let [in_low, in_high] = MASKS[length & Self::LONGEST];
        Self([window as u64 & in_low, (window >> 64) as u64 & in_high | (length as u64) << 56])
    }

    #[cold]
    fn at_the_end(bytes: &[u8], start: usize) -> u128 {
        let mut window = [0; 16];
        let rest = bytes.get(start..).unwrap_or_default();
        window[..rest.len()].copy_from_slice(rest);
        u128::from_le_bytes(window)
    }

    #[inline(always)]
    fn hash(self) -> u64 {
        let Self([low, high]) = self;
        let product = (low ^ high.rotate_left(32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        // The high bits of a product depend on all bits.
        product ^ product >> 32
    }
}

/// The tokens of a word.
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub(crate) struct CachedWord {
    /// The ids of the first two.
    ids: [u32; 2],
    /// The ids of the next two, the ends of the first three, their count, and whether a character lies
    /// in more than one token.
    more: u64,
}

const ID_BITS: u32 = super::merges::ID_BITS;
const END_BITS: u32 = 4;
const ENDS_AT: u32 = 2 * ID_BITS;
const COUNT_AT: u32 = ENDS_AT + 3 * END_BITS;
const SPLITS_AT: u32 = COUNT_AT + 3;

impl CachedWord {
    /// A word that is with the long words.
    const LONG: Self = Self { ids: [0; 2], more: ((MOST_TOKENS + 1) as u64) << COUNT_AT };

    /// Returns `None` if the word has too many tokens.
    fn new(word: &Symbols, splits_characters: bool) -> Option<Self> {
        let count = word.ids.len();
        if count > MOST_TOKENS {
            return None;
        }
        let id = |at: usize| word.ids.get(at).copied().unwrap_or_default();
        let end = |at: usize| u64::from(word.ends.get(at).copied().unwrap_or_default());
        let ids = u64::from(id(2)) | u64::from(id(3)) << ID_BITS;
        let ends = end(0) | end(1) << END_BITS | end(2) << (2 * END_BITS);
        let more = ids | ends << ENDS_AT | (count as u64) << COUNT_AT | u64::from(splits_characters) << SPLITS_AT;
        Some(Self { ids: [id(0), id(1)], more })
    }

    /// Reports whether these are the tokens of a word.
    #[inline]
    pub fn has_tokens(self) -> bool {
        (1..=MOST_TOKENS).contains(&self.count())
    }

    /// Reports whether a character lies in more than one token.
    #[inline]
    pub fn splits_characters(self) -> bool {
        self.more >> SPLITS_AT == 1
    }

    /// Returns the id and the end of each token of a word of this length.
    pub fn tokens(self, length: usize) -> impl Iterator<Item = (u32, usize)> {
        let ids = [self.ids[0], self.ids[1], self.id(0), self.id(1)];
        let [first, second, third] = [0, 1, 2].map(|at| self.end(at) as usize);
        let ends = [first, second, third, length];
        ids.into_iter().zip(ends).take(self.count())
    }

    fn count(self) -> usize {
        (self.more >> COUNT_AT & 7) as usize
    }

    /// Returns one of the last two ids.
    #[inline(always)]
    fn id(self, at: u32) -> u32 {
        (self.more >> (at * ID_BITS)) as u32 & ((1 << ID_BITS) - 1)
    }

    /// Returns one of the first three ends.
    #[inline(always)]
    fn end(self, at: usize) -> u32 {
        (self.more >> (ENDS_AT + at as u32 * END_BITS)) as u32 & ((1 << END_BITS) - 1)
    }
}

impl Default for WordCache {
    fn default() -> Self {
        Self { buckets: LargeTable::new(Bucket::default(), FIRST_BUCKETS), replaced: 0 }
    }
}

impl WordCache {
    /// Finds out what finds each of these words, and asks for the first of its buckets. A word that is
    /// too long is passed to `long_word`, and is then not found. Returns whether it returned true for any word.
    #[inline(always)]
    pub fn approach(
        &self,
        bytes: &[u8],
        mut start: u32,
        ends: &[u32],
        words: &mut [Approach; AHEAD],
        long_word: impl Fn(&[u8]) -> bool,
    ) -> bool {
        let buckets = &*self.buckets;
        let mut any = false;
        for (word, &end) in words.iter_mut().zip(ends) {
            let from = std::mem::replace(&mut start, end) as usize;
            let length = (end as usize).wrapping_sub(from);
            if length > WordKey::LONGEST {
                *word = Approach::NONE;
                any |= long_word(bytes.get(from..end as usize).unwrap_or_default());
                continue;
            }
            let key = WordKey::of_length(bytes, from, length);
            let hash = key.hash();
            prefetch_index(buckets, first_bucket(hash) & (buckets.len() - 1));
            *word = Approach { key, hash };
        }
        any
    }

    /// Reads the tokens of words up to the first that is not known. `long_word` writes the tokens of the
    /// word at a place that is with the long words, and returns their number.
    #[inline(always)]
    pub fn read<K: Kept>(
        &self,
        asked: AskedWords<'_>,
        tokens: &mut [K; ROOM],
        long_word: impl Fn((u32, u32), &mut [K]) -> Option<usize>,
    ) -> KnownWords {
        let buckets = &*self.buckets;
        let AskedWords { text, start, ends, words } = asked;
        let (mut start, mut count_known, mut count_tokens) = (start as u32, 0, 0);
        for (word, &end) in words.iter().zip(ends) {
            let Some(to) = tokens.get_mut(count_tokens..).and_then(<[K]>::first_chunk_mut) else { break };
            let mut slot = pick(buckets, first_bucket(word.hash), word.key);
            if slot.key != word.key.0 {
                slot = match word.key.0 == Approach::NONE.key.0 {
                    true => Slot { key: word.key.0, word: CachedWord::LONG },
                    false => pick(buckets, second_bucket(word.hash), word.key),
                };
                if slot.key != word.key.0 {
                    break;
                }
            }
            let word = slot.word;
            // Written in any case, and counted only if it is one.
            let between = start + word.end(0);
            to[0] = K::of(Token { id: word.ids[0], start, end: between });
            to[1] = K::of(Token { id: word.ids[1], start: between, end });
            let mut count = (word.more >> COUNT_AT) as usize;
            if count.wrapping_sub(1) >= 2 {
                let Some(found) = read_rest(word, text, (start, end), to, &long_word) else { break };
                count = found;
            }
            count_tokens += count;
            count_known += 1;
            start = end;
        }
        KnownWords { words: count_known, tokens: count_tokens, end: start as usize }
    }

    pub fn get(&self, key: WordKey) -> Option<CachedWord> {
        let hash = key.hash();
        self.find(first_bucket(hash), key).or_else(|| self.find(second_bucket(hash), key))
    }

    fn find(&self, bucket: usize, key: WordKey) -> Option<CachedWord> {
        let Bucket([first, second]) = self.buckets.get(bucket & (self.buckets.len() - 1))?;
        if first.key == key.0 {
            return Some(first.word);
        }
        (second.key == key.0).then_some(second.word)
    }

    /// Adds a word. Returns false if it has too many tokens, and then only remembers that.
    pub fn put(&mut self, key: WordKey, word: &Symbols, splits_characters: bool) -> bool {
        let word = CachedWord::new(word, splits_characters);
        if self.replaced > self.buckets.len() / 64 && self.buckets.len() < MOST_BUCKETS {
            self.grow();
        }
        self.insert(Slot { key: key.0, word: word.unwrap_or(CachedWord::LONG) });
        word.is_some()
    }

    fn insert(&mut self, slot: Slot) {
        if self.fill(slot) {
            return;
        }
        let mask = self.buckets.len() - 1;
        let at = first_bucket(WordKey(slot.key).hash()) & mask;
        let Bucket([first, second]) = &mut self.buckets[at];
        let oldest = std::mem::replace(second, std::mem::replace(first, slot));
        // The oldest word may have room in its other bucket.
        self.replaced += usize::from(!self.fill(oldest));
    }

    /// Puts a word into a free slot. Returns false if there is none.
    fn fill(&mut self, slot: Slot) -> bool {
        let mask = self.buckets.len() - 1;
        let hash = WordKey(slot.key).hash();
        for at in [first_bucket(hash), second_bucket(hash)] {
            let Bucket(slots) = &mut self.buckets[at & mask];
            if let Some(free) = slots.iter_mut().find(|slot| slot.key == [0; 2]) {
                *free = slot;
                return true;
            }
        }
        false
    }

    fn grow(&mut self) {
        let larger = LargeTable::new(Bucket::default(), (self.buckets.len() * 4).min(MOST_BUCKETS));
        let smaller = std::mem::replace(&mut self.buckets, larger);
        for &Bucket(slots) in &*smaller {
            for slot in slots.into_iter().filter(|slot| slot.key != [0; 2]) {
                self.insert(slot);
            }
        }
        self.replaced = 0;
    }
}

/// Completes the tokens of a word that has more than two, or that cuts a character.
#[inline(always)]
fn read_rest<K: Kept>(
    word: CachedWord,
    text: &str,
    (start, end): (u32, u32),
    tokens: &mut [K; MOST_READ],
    long_word: impl Fn((u32, u32), &mut [K]) -> Option<usize>,
) -> Option<usize> {
    let count = word.count();
    if count > MOST_TOKENS {
        return long_word((start, end), tokens);
    }
    if count > 2 {
        let [first, second, third] = [0, 1, 2].map(|at| start + word.end(at));
        tokens[1] = K::of(Token { id: word.ids[1], start: first, end: second });
        tokens[2] = K::of(Token { id: word.id(0), start: second, end: third });
        tokens[3] = K::of(Token { id: word.id(1), start: third, end });
    }
    if word.splits_characters() {
        for token in K::spans(tokens.get_mut(..count)?) {
            *token = Token::covering(token.id, (token.start as usize, token.end as usize), text);
        }
    }
    Some(count)
}

/// Returns the slot of a word, if it is in this bucket; otherwise another slot. That two words begin
/// alike in one bucket is rare, and the first is then not found.
#[inline(always)]
fn pick(buckets: &[Bucket], bucket: usize, WordKey([low, _]): WordKey) -> Slot {
    let Bucket(slots) = &buckets[bucket & (buckets.len() - 1)];
    slots[usize::from(slots[1].key[0] == low)]
}

#[inline(always)]
fn first_bucket(hash: u64) -> usize {
    hash as usize
}

#[inline(always)]
fn second_bucket(hash: u64) -> usize {
    (hash >> 14) as usize
}

#[cfg(test)]
mod tests {
    use super::super::merges::Symbols;
    use super::{MOST_TOKENS, WordCache, WordKey};

    fn symbols(tokens: &[(u32, usize)]) -> Symbols {
        let mut symbols = Symbols::default();
        tokens.iter().for_each(|&(id, end)| symbols.push(id, end));
        symbols
    }

    #[test]
    fn a_word_is_found_with_its_tokens_and_no_other_word_is() {
        let text = "abcdefghijklmnopqrstuvwxyz";
        let most = super::super::merges::LARGEST_ID;
        for length in 1..=WordKey::LONGEST {
            for count in 1..=MOST_TOKENS.min(length) {
                for splits in [false, true] {
                    let tokens: Vec<_> = (1..=count).map(|at| (most - at as u32, length - count + at)).collect();
                    // The second start leaves fewer than 16 bytes behind the word.
                    for start in [0, text.len() - length] {
                        let key = WordKey::new(text.as_bytes(), start, start + length).unwrap();
                        let mut cache = WordCache::default();
                        assert!(cache.put(key, &symbols(&tokens), splits));
                        let word = cache.get(key).unwrap();
                        assert_eq!(word.tokens(length).collect::<Vec<_>>(), tokens);
                        assert_eq!(word.splits_characters(), splits);
                    }
                }
            }
        }
        let mut cache = WordCache::default();
        cache.put(WordKey::new(b"abcd", 0, 4).unwrap(), &symbols(&[(1, 4)]), false);
        let key = WordKey::new(b"abcd\0", 0, 5).unwrap();
        assert!(cache.get(key).is_none(), "a longer word with zeros is another word");
        assert!(WordKey::new(text.as_bytes(), 0, WordKey::LONGEST + 1).is_none());
        let many: Vec<_> = (1..=MOST_TOKENS + 1).map(|at| (1, at)).collect();
        assert!(!cache.put(key, &symbols(&many), false));
        assert!(cache.get(key).is_some_and(|word| !word.has_tokens()), "it is with the long words");
    }

    #[test]
    fn a_cache_grows_with_its_words_and_forgets_the_oldest() {
        let mut cache = WordCache::default();
        let word = |at: usize| format!("{at:015}");
        for at in 0..200_000 {
            let text = word(at);
            cache.put(WordKey::new(text.as_bytes(), 0, 15).unwrap(), &symbols(&[(at as u32, 15)]), false);
        }
        let found = |at: usize| cache.get(WordKey::new(word(at).as_bytes(), 0, 15).unwrap());
        let known: Vec<usize> = (0..200_000).filter(|&at| found(at).is_some()).collect();
        assert!(known.len() > 150_000, "{} of 200,000", known.len());
        assert!(known.iter().all(|&at| found(at).unwrap().tokens(15).next() == Some((at as u32, 15))));
    }
}
