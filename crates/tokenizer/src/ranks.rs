//! Byte strings by rank, as tiktoken and tekken files hold them, and the merges that follow from them.

use std::collections::HashMap;

use super::byte_alphabet::ByteAlphabet;
use super::{Error, LARGEST_ID};

/// What taking all tokens apart may cost, in bytes looked at; the largest known vocabulary takes a twentieth.
const MOST_WORK: usize = 1 << 28;

/// Tokens and their ranks, each of both once.
#[derive(Default)]
pub(super) struct Ranks {
    tokens: Vec<(Vec<u8>, u32)>,
    known: HashMap<Vec<u8>, u32>,
    taken: HashMap<u32, usize>,
}

impl Ranks {
    /// Adds a token; `place` says where it stands.
    pub fn push(&mut self, token: Vec<u8>, rank: u32, place: impl Fn() -> String) -> Result<(), Error> {
        if token.is_empty() {
            return Err(Error::malformed(place(), "the token is empty"));
        }
        if rank > LARGEST_ID {
            return Err(Error::malformed(place(), format!("the rank {rank} is too large")));
        }
        if let Some(before) = self.known.insert(token.clone(), rank) {
            let text = String::from_utf8_lossy(&token).into_owned();
            return Err(Error::malformed(place(), format!("the token `{text}` stands twice, with rank {before} too")));
        }
        if self.taken.insert(rank, self.tokens.len()).is_some() {
            return Err(Error::malformed(place(), format!("the rank {rank} stands twice")));
        }
        self.tokens.push((token, rank));
        Ok(())
    }

    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// A byte of UTF-8 that is no token: text with it could not be encoded.
    pub fn missing_byte(&self) -> Option<u8> {
        let in_text = |byte: &u8| !matches!(byte, 0xC0 | 0xC1 | 0xF5..);
        (0..=u8::MAX).filter(in_text).find(|byte| !self.known.contains_key([*byte].as_slice()))
    }

    /// The tokens in the alphabet of byte-level vocabularies, each with its rank and `shift` on top as its id.
    pub fn vocabulary(&self, shift: u32) -> Vec<(String, u32)> {
        let alphabet = ByteAlphabet::new();
        self.tokens.iter().map(|(token, rank)| (alphabet.spell(token), rank + shift)).collect()
    }

    /// Every pair of tokens that joins to a token, the lowest token first: what merging by rank does.
    pub fn merges(&self) -> Result<Vec<(String, String)>, Error> {
        let work = self.tokens.iter().map(|(token, _)| token.len().saturating_mul(token.len()));
        if work.fold(0, usize::saturating_add) > MOST_WORK {
            return Err(Error::unsupported("ranks", "tokens so long that they are no vocabulary"));
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
                if let (Some(first), Some(second)) = (self.known.get(left), self.known.get(right)) {
                    pairs.push((*first, *second, middle));
                }
            }
            // transformers: one token's pairs go by the ranks of their halves.
            pairs.sort_unstable();
            let spelled = pairs.iter().map(|&(.., middle)| token.split_at(middle));
            merges.extend(spelled.map(|(left, right)| (alphabet.spell(left), alphabet.spell(right))));
        }
        Ok(merges)
    }
}
