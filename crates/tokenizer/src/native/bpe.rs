use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use foldhash::fast::RandomState;

use super::super::{Error, Token};
use super::alphabet::Alphabet;
use super::byte_joints::ByteJoints;
use super::forged::ForgedTokens;
use super::kept::{Kept, place_tokens};
use super::memory::WordMemory;
use super::merges::{Merges, Symbols};
use super::whole_characters::WholeCharacters;
use super::word_cache::{AHEAD, AskedWords, WordKey};

/// Byte-pair encoding of words, with the same ids as the reference crate.
pub(crate) struct Bpe {
    pub tables: Arc<Tables>,
    pub forged: ForgedTokens,
}

/// The merge tables of a vocabulary.
pub(crate) struct Tables {
    pub alphabet: Alphabet,
    pub merges: Merges,
    /// Words that are tokens although merging does not produce them. In a longer word they are merged
    /// like any text.
    pub unmerged: UnmergedWords,
    /// Where long words may be split before merging, in a vocabulary of bytes.
    pub joints: Option<ByteJoints>,
    /// The characters that merging begins with instead of bytes, in a vocabulary of bytes.
    pub characters: Option<WholeCharacters>,
}

/// Words with the tokens that they are.
pub(crate) struct UnmergedWords {
    words: HashMap<Vec<u8>, u32, RandomState>,
    /// For each first byte, a bit for each length.
    lengths: [u64; 256],
}

impl UnmergedWords {
    pub fn new(words: HashMap<Vec<u8>, u32, RandomState>) -> Self {
        let mut lengths = [0; 256];
        for word in words.keys() {
            lengths[first_byte(word)] |= 1 << (word.len() % 64);
        }
        Self { words, lengths }
    }

    #[inline]
    fn get(&self, word: &[u8]) -> Option<u32> {
        match self.lengths[first_byte(word)] >> (word.len() % 64) & 1 {
            0 => None,
            _ => self.words.get(word).copied(),
        }
    }
}

fn first_byte(word: &[u8]) -> usize {
    word.first().copied().map_or(0, usize::from)
}

/// Whether text may encode to control tokens.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    /// It may not.
    Ordinary,
    /// It may, as in the reference.
    Reference,
}

impl Bpe {
    /// Appends the tokens of neighboring words. The first word begins at `start`.
    pub fn encode_words<K: Kept>(
        &self,
        text: &str,
        start: usize,
        ends: &[u32],
        reading: Reading,
        memory: &mut WordMemory,
        out: &mut Vec<K>,
    ) -> Result<(), Error> {
        let bytes = text.as_bytes();
        let mut ahead = memory.ahead.take().unwrap_or_default();
        let mut cuts = std::mem::take(&mut memory.cuts);
        let mut from = start;
        for ends in ends.chunks(AHEAD) {
            let may_be_cut = memory.approach(bytes, from, ends, &mut ahead.words);
            let are_cut = may_be_cut && self.cut_words(bytes, from, ends, &mut cuts);
            for mut ends in if are_cut { &cuts } else { ends }.chunks(AHEAD) {
                if are_cut {
                    memory.approach(bytes, from, ends, &mut ahead.words);
                }
                let (mut words, tokens) = (&ahead.words[..], K::room(&mut ahead.tokens));
                loop {
                    let known = memory.read(AskedWords { text, start: from, ends, words }, tokens);
                    out.extend_from_slice(tokens.get(..known.tokens).unwrap_or_default());
                    from = known.end;
                    let [end, rest @ ..] = ends.get(known.words..).unwrap_or_default() else { break };
                    self.encode_other(text, (from, *end as usize), reading, memory, out)?;
                    from = *end as usize;
                    (words, ends) = (words.get(known.words + 1..).unwrap_or_default(), rest);
                }
            }
        }
        (memory.ahead, memory.cuts) = (Some(ahead), cuts);
        Ok(())
    }

    /// Cuts words that are too long for the cache, where no token joins their characters. Writes the
    /// ends of the parts, and returns whether there was such a word.
    fn cut_words(&self, bytes: &[u8], mut start: usize, ends: &[u32], parts: &mut Vec<u32>) -> bool {
        let Some(joints) = &self.tables.joints else { return false };
        parts.clear();
        let mut any = false;
        for &end in ends {
            let word = &bytes[start..end as usize];
            if word.len() > WordKey::LONGEST && !word.is_ascii() {
                any = true;
                let first = parts.len();
                joints.find_cuts(word, start, parts);
                if parts.len() > first && self.any_unmerged(bytes, start, &parts[first..], end) {
                    parts.truncate(first);
                }
            }
            parts.push(end);
            start = end as usize;
        }
        any
    }

    /// Appends the tokens of a word that [`WordCache::read`](super::word_cache::WordCache::read) does
    /// not know.
    fn encode_other<K: Kept>(
        &self,
        text: &str,
        (start, end): (usize, usize),
        reading: Reading,
        memory: &mut WordMemory,
        out: &mut Vec<K>,
    ) -> Result<(), Error> {
        let bytes = text.as_bytes().get(start..end).unwrap_or_default();
        let mut key = WordKey::new(text.as_bytes(), start, end);
        let known = key.and_then(|key| memory.cache.get(key));
        if let Some(word) = known.filter(|word| word.has_tokens()) {
            out.extend(place_tokens::<K>(text, start, word.tokens(end - start), word.splits_characters()));
            return Ok(());
        }
        if (key.is_none() || known.is_some())
            && let Some((tokens, splits_characters)) = memory.long_words.get(bytes)
        {
            out.extend(place_tokens::<K>(text, start, tokens, splits_characters));
            return Ok(());
        }
        if known.is_some() {
            // The cache knows already that the word is with the long words.
            key = None;
        }
        let is_forged = self.merge_word(bytes, reading, memory)?;
        let word = &memory.word;
        let splits_characters = word.ends.iter().any(|&at| !text.is_char_boundary(start + at as usize));
        if !is_forged && !key.is_some_and(|key| memory.cache.put(key, word, splits_characters)) {
            memory.long_words.put(bytes, word, splits_characters);
        }
        out.extend(place_tokens::<K>(text, start, symbols(word), splits_characters));
        Ok(())
    }

    /// Reports whether a part of a word would be a token on its own that merging does not produce.
    fn any_unmerged(&self, bytes: &[u8], start: usize, cuts: &[u32], end: u32) -> bool {
        let starts = std::iter::once(start).chain(cuts.iter().map(|&cut| cut as usize));
        let ends = cuts.iter().chain([&end]);
        starts.zip(ends).any(|(start, &end)| self.tables.unmerged.get(&bytes[start..end as usize]).is_some())
    }

    /// Appends the tokens of a word after a prefix that is not part of the text.
    pub fn encode_prefixed<K: Kept>(
        &self,
        prefix: char,
        text: &str,
        (start, end): (usize, usize),
        reading: Reading,
        memory: &mut WordMemory,
        out: &mut Vec<K>,
    ) -> Result<(), Error> {
        let word = format!("{prefix}{}", &text[start..end]);
        let first = out.len();
        self.encode_words(&word, 0, &[word.len() as u32], reading, memory, out)?;
        for token in K::spans(&mut out[first..]) {
            let place = |at: usize| start + at.saturating_sub(prefix.len_utf8());
            let Range { start, end } = token.range();
            *token = Token::covering(token.id, (place(start), place(end)), text);
        }
        Ok(())
    }

    /// Passes on the tokens of a very long word.
    pub fn encode_long_word(
        &self,
        text: &str,
        (start, end): (usize, usize),
        reading: Reading,
        memory: &mut WordMemory,
        mut take: impl FnMut(Token),
    ) -> Result<(), Error> {
        let bytes = text.as_bytes().get(start..end).unwrap_or_default();
        let merged = self.merge_word(bytes, reading, memory);
        // Do not keep the memory for later words, and release it block by block as tokens are
        // passed on.
        let Symbols { mut ids, mut ends, .. } = std::mem::take(&mut memory.word);
        merged?;
        ids.reverse();
        ends.reverse();
        let mut from = start;
        while let (Some(id), Some(end)) = (ids.pop(), ends.pop()) {
            let end = start + end as usize;
            take(Token::covering(id, (from, end), text));
            from = end;
            if ids.len() % LONG_WORD == 0 {
                ids.shrink_to_fit();
                ends.shrink_to_fit();
            }
        }
        Ok(())
    }

    /// Merges a word, and returns whether it spells a token that is kept out of text.
    fn merge_word(&self, bytes: &[u8], reading: Reading, memory: &mut WordMemory) -> Result<bool, Error> {
        let word = &mut memory.word;
        self.tokenize(bytes, word);
        let is_forged = self.any_forged(bytes, word);
        // Words with forged tokens differ between the two readings, so they are not cached.
        if is_forged && reading == Reading::Ordinary {
            self.cut_forged(bytes, word)?;
        }
        Ok(is_forged)
    }

    fn tokenize(&self, bytes: &[u8], word: &mut Symbols) {
        if let Some(id) = self.tables.unmerged.get(bytes) {
            word.clear();
            word.push(id, bytes.len());
            return;
        }
        let whole = self.tables.characters.as_ref().zip(self.tables.joints.as_ref());
        if !whole.is_some_and(|(characters, joints)| characters.fill(bytes, joints, word)) {
            self.tables.alphabet.fill(bytes, word);
        }
        self.tables.merges.merge(word);
    }

    fn any_forged(&self, bytes: &[u8], word: &Symbols) -> bool {
        parts(word).any(|(id, start, end)| self.is_forged(id, &bytes[start..end]))
    }

    fn is_forged(&self, id: u32, bytes: &[u8]) -> bool {
        self.forged.is_forged(id, bytes, self.tables.alphabet.space())
    }

    /// Encodes a word with forged tokens again. Each forged token is split after its first
    /// character until none is left.
    fn cut_forged(&self, bytes: &[u8], word: &mut Symbols) -> Result<(), Error> {
        let mut ordinary = Symbols::default();
        let mut open = vec![(0, bytes.len())];
        while let Some((start, end)) = open.pop() {
            let part = &bytes[start..end];
            self.tokenize(part, word);
            let cuts = self.cuts(part, word)?;
            if cuts.is_empty() {
                word.ids.iter().zip(&word.ends).for_each(|(&id, &end)| ordinary.push(id, start + end as usize));
                continue;
            }
            // Push the last part first, because this is a stack.
            let edges: Vec<usize> = [0].into_iter().chain(cuts).chain([part.len()]).collect();
            for edge in edges.windows(2).rev().filter(|edge| edge[0] < edge[1]) {
                open.push((start + edge[0], start + edge[1]));
            }
        }
        *word = ordinary;
        Ok(())
    }

    fn cuts(&self, part: &[u8], word: &Symbols) -> Result<Vec<usize>, Error> {
        let mut cuts = Vec::new();
        for (id, start, end) in parts(word).filter(|&(id, start, end)| self.is_forged(id, &part[start..end])) {
            let length = self.tables.alphabet.first_length(&part[start..end]);
            if length >= part.len() {
                // Splitting would produce the same part again.
                let why = format!("`{}` cannot be spelled in ordinary tokens", self.forged.name(id));
                return Err(Error::Unencodable { why });
            }
            cuts.extend([start, start + length, end]);
        }
        Ok(cuts)
    }
}

/// The length in bytes above which the tokens of a word are passed on in parts.
const LONG_WORD: usize = 1 << 15;

/// Returns the index of the first word whose tokens are passed on in parts.
pub(crate) fn find_long_word(first: usize, ends: &[u32]) -> Option<usize> {
    let starts = std::iter::once(first).chain(ends.iter().map(|&end| end as usize));
    starts.zip(ends).position(|(start, &end)| end as usize - start > LONG_WORD)
}

fn symbols(word: &Symbols) -> impl Iterator<Item = (u32, usize)> + '_ {
    word.ids.iter().zip(&word.ends).map(|(&id, &end)| (id, end as usize))
}

fn parts(word: &Symbols) -> impl Iterator<Item = (u32, usize, usize)> + '_ {
    let mut start = 0;
    word.ids.iter().zip(&word.ends).map(move |(&id, &end)| {
        let from = std::mem::replace(&mut start, end as usize);
        (id, from, end as usize)
    })
}
