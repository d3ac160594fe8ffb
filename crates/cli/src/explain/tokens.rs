use rolecall::{EncodedToken, Prompt};

use crate::refusal::Refusal;

/// The tokens of a prompt, twelve bytes each: a prompt may have one for each byte.
#[derive(Debug)]
pub struct Tokens {
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    /// With the highest bit set for a control token; ids are smaller than that.
    id: u32,
    start: u32,
    end: u32,
}

const CONTROL: u32 = 1 << 31;

impl Tokens {
    /// No tokens yet; of this prompt, whose every place must fit.
    pub fn of(prompt: &Prompt) -> Result<Tokens, Refusal> {
        let bytes = prompt.text().len();
        match u32::try_from(bytes) {
            Ok(_) => Ok(Tokens { entries: Vec::new() }),
            Err(_) => Err(Refusal::TooLongForTokens { bytes }),
        }
    }

    pub fn push(&mut self, token: EncodedToken) {
        let flag = if token.control { CONTROL } else { 0 };
        self.entries.push(Entry { id: token.id | flag, start: token.start as u32, end: token.end as u32 });
    }

    pub fn get(&self, at: usize) -> Option<EncodedToken> {
        self.entries.get(at).map(Entry::token)
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = EncodedToken> {
        self.from(0)
    }

    /// The tokens from one on.
    pub fn from(&self, first: usize) -> impl Iterator<Item = EncodedToken> {
        self.entries.get(first..).unwrap_or_default().iter().map(Entry::token)
    }

    /// The tokens that end behind a byte.
    pub fn behind(&self, byte: usize) -> impl Iterator<Item = EncodedToken> {
        self.from(self.entries.partition_point(|entry| entry.end as usize <= byte))
    }
}

impl Entry {
    fn token(&self) -> EncodedToken {
        EncodedToken {
            id: self.id & !CONTROL,
            start: self.start as usize,
            end: self.end as usize,
            control: self.id & CONTROL != 0,
        }
    }
}
