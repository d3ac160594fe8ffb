use std::collections::HashMap;
use std::sync::Arc;

use super::super::{Error, Token};
use super::alphabet::Alphabet;
use super::forged::ForgedTokens;
use super::merges::{Merges, Symbols};
use super::word_cache::{Memory, WordKey};

/// Byte-pair encoding of words, with the same ids as the reference crate.
pub(crate) struct Bpe {
    pub tables: Arc<Tables>,
    pub forged: ForgedTokens,
}

/// The merge tables of a vocabulary.
pub(crate) struct Tables {
    pub alphabet: Alphabet,
    pub merges: Merges,
    /// Words that are encoded as tokens without merging, by their bytes, if the vocabulary requires
    /// that.
    pub whole: Option<HashMap<Vec<u8>, u32>>,
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
    /// Appends the tokens of a word, given by its byte range in a text.
    #[inline]
    pub fn encode_word(
        &self,
        text: &str,
        (start, end): (usize, usize),
        reading: Reading,
        memory: &mut Memory,
        out: &mut Vec<Token>,
    ) -> Result<(), Error> {
        let key = WordKey::new(text, start, end);
        if let Some(key) = &key {
            let mut from = start;
            let known = memory.cache.get(key, |id, end| {
                out.push(Token { id, start: from, end: start + end });
                from = start + end;
            });
            if known {
                return Ok(());
            }
        }
        let is_forged = self.merge_word(text, (start, end), reading, memory)?;
        if let Some(key) = key.filter(|_| !is_forged) {
            memory.cache.put(&key, &memory.word);
        }
        out.extend(tokens(&memory.word, start));
        Ok(())
    }

    /// Passes on the tokens of a very long word.
    pub fn encode_long_word(
        &self,
        text: &str,
        (start, end): (usize, usize),
        reading: Reading,
        memory: &mut Memory,
        mut take: impl FnMut(Token),
    ) -> Result<(), Error> {
        let merged = self.merge_word(text, (start, end), reading, memory);
        // Do not keep the memory for later words, and release it block by block as tokens are
        // passed on.
        let Symbols { mut ids, mut ends, .. } = std::mem::take(&mut memory.word);
        merged?;
        ids.reverse();
        ends.reverse();
        let mut from = start;
        while let (Some(id), Some(end)) = (ids.pop(), ends.pop()) {
            let token = Token { id, start: from, end: start + end as usize };
            from = token.end;
            take(token);
            if ids.len() % LONG_WORD == 0 {
                ids.shrink_to_fit();
                ends.shrink_to_fit();
            }
        }
        Ok(())
    }

    /// Merges a word, and returns whether it spells a token that is kept out of text.
    #[inline]
    fn merge_word(
        &self,
        text: &str,
        (start, end): (usize, usize),
        reading: Reading,
        memory: &mut Memory,
    ) -> Result<bool, Error> {
        let bytes = text.as_bytes().get(start..end).unwrap_or_default();
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
        if let Some(&id) = self.tables.whole.as_ref().and_then(|whole| whole.get(bytes)) {
            word.clear();
            word.push(id, bytes.len());
            return;
        }
        self.tables.alphabet.fill(bytes, word);
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
pub(crate) const LONG_WORD: usize = 1 << 15;

/// Returns the tokens of a word that begins at byte `start`.
fn tokens(word: &Symbols, start: usize) -> impl Iterator<Item = Token> + '_ {
    let mut from = start;
    word.ids.iter().zip(&word.ends).map(move |(&id, &end)| {
        let token = Token { id, start: from, end: start + end as usize };
        from = token.end;
        token
    })
}

fn parts(word: &Symbols) -> impl Iterator<Item = (u32, usize, usize)> + '_ {
    let mut start = 0;
    word.ids.iter().zip(&word.ends).map(move |(&id, &end)| {
        let from = std::mem::replace(&mut start, end as usize);
        (id, from, end as usize)
    })
}
