//! Byte strings by rank, as in tiktoken and tekken files, and the merges that follow from them.

use std::collections::HashMap;

use foldhash::quality::RandomState;

use super::byte_alphabet::ByteAlphabet;
use super::{Error, LARGEST_ID};

/// The limit on the work of splitting all tokens, in bytes examined; the largest known vocabulary
/// needs a twentieth of it.
const MOST_WORK: usize = 1 << 28;

/// Unique tokens with unique ranks.
#[derive(Default)]
pub(super) struct Ranks {
    tokens: Vec<(Vec<u8>, u32)>,
    known: HashMap<Vec<u8>, u32, RandomState>,
    taken: HashMap<u32, usize, RandomState>,
}

impl Ranks {
    /// Adds a token. `place` returns its position in the file.
    pub fn push(&mut self, token: Vec<u8>, rank: u32, place: impl Fn() -> String) -> Result<(), Error> {
        if token.is_empty() {
            return Err(Error::malformed(place(), "the token is empty"));
        }
        if rank > LARGEST_ID {
            return Err(Error::malformed(place(), format!("the rank {rank} is too large")));
        }
        if let Some(before) = self.known.insert(token.clone(), rank) {
            let text = String::from_utf8_lossy(&token).into_owned();
            return Err(Error::malformed(place(), format!("duplicate token `{text}`, which also has rank {before}")));
        }
        if self.taken.insert(rank, self.tokens.len()).is_some() {
            return Err(Error::malformed(place(), format!("duplicate rank {rank}")));
        }
        self.tokens.push((token, rank));
        Ok(())
    }

    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Returns a byte that occurs in UTF-8 but is not a token: text that contains it could not be
    /// encoded.
    pub fn missing_byte(&self) -> Option<u8> {
        let in_text = |byte: &u8| !matches!(byte, 0xC0 | 0xC1 | 0xF5..);
        (0..=u8::MAX).filter(in_text).find(|byte| !self.known.contains_key([*byte].as_slice()))
    }

    /// Returns the tokens in the alphabet of byte-level vocabularies, each with its rank plus
    /// `shift` as its id.
    pub fn vocabulary(&self, shift: u32) -> Vec<(String, u32)> {
        let alphabet = ByteAlphabet::new();
        self.tokens.iter().map(|(token, rank)| (alphabet.spell(token), rank + shift)).collect()
    }

    /// Returns every pair of tokens that joins to a token, ordered by the rank of the result.
    /// Applying these merges equals merging by rank.
    pub fn merges(&self) -> Result<Vec<(String, String)>, Error> {
        let work = self.tokens.iter().map(|(token, _)| token.len().saturating_mul(token.len()));
        if work.fold(0, usize::saturating_add) > MOST_WORK {
            return Err(Error::unsupported("ranks", "the tokens are too long for a vocabulary"));
        }
        let mut ranked: Vec<&(Vec<u8>, u32)> = self.tokens.iter().collect();
        ranked.sort_unstable_by_key(|(_, rank)| *rank);
        let alphabet = ByteAlphabet::new();
        let mut merges = Vec::with_capacity(2 * ranked.len());
        let mut pairs = Vec::new();
        for (token, _) in ranked {
            pairs.clear();
            for middle in 1..token.len() {
                let (left, right) = token.split_at(middle);
                if let Some(first) = self.known.get(left)
                    && let Some(second) = self.known.get(right)
                {
                    pairs.push((*first, *second, middle));
                }
            }
            // transformers: the pairs of one token are ordered by the ranks of their halves.
            pairs.sort_unstable();
            let spelled = pairs.iter().map(|&(.., middle)| token.split_at(middle));
            merges.extend(spelled.map(|(left, right)| (alphabet.spell(left), alphabet.spell(right))));
        }
        Ok(merges)
    }
}
