use crate::Prompt;
use crate::encode::EncodedToken;

/// The tokens of a prompt, stored compactly because a prompt may have one per byte: twelve bytes
/// each, in blocks that are never reallocated.
#[derive(Debug)]
pub struct Tokens {
    blocks: Vec<Vec<TokenEntry>>,
}

#[derive(Debug)]
struct TokenEntry {
    /// The id, with the highest bit set for a control token. Ids never use that bit.
    id: u32,
    start: u32,
    end: u32,
}

const CONTROL: u32 = 1 << 31;

/// An error for a prompt whose offsets do not fit into 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong {
    /// The prompt's size in bytes.
    pub bytes: usize,
}

/// The number of tokens in a block.
const BLOCK: usize = 1 << 14;

impl Tokens {
    /// Creates an empty list of tokens for a prompt. Fails if the prompt's offsets do not fit into
    /// 32 bits.
    pub fn of(prompt: &Prompt) -> Result<Tokens, TooLong> {
        let bytes = prompt.text().len();
        match u32::try_from(bytes) {
            Ok(_) => Ok(Tokens { blocks: Vec::new() }),
            Err(_) => Err(TooLong { bytes }),
        }
    }

    /// Adds the next token.
    pub fn push(&mut self, token: EncodedToken) {
        let flag = if token.control { CONTROL } else { 0 };
        let entry = TokenEntry { id: token.id | flag, start: token.start as u32, end: token.end as u32 };
        match self.blocks.last_mut().filter(|block| block.len() < BLOCK) {
            Some(block) => block.push(entry),
            None => {
                let mut block = Vec::with_capacity(BLOCK);
                block.push(entry);
                self.blocks.push(block);
            }
        }
    }

    /// Returns the token at an index.
    pub fn get(&self, at: usize) -> Option<EncodedToken> {
        self.blocks.get(at / BLOCK)?.get(at % BLOCK).map(TokenEntry::token)
    }

    /// Reports whether there are no tokens.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Returns the number of tokens.
    pub fn len(&self) -> usize {
        self.blocks.last().map_or(0, |last| (self.blocks.len() - 1) * BLOCK + last.len())
    }

    /// Returns all tokens in order.
    pub fn iter(&self) -> impl Iterator<Item = EncodedToken> {
        self.from(0)
    }

    /// Returns the tokens from an index on.
    pub fn from(&self, first: usize) -> impl Iterator<Item = EncodedToken> {
        let blocks = self.blocks.get(first / BLOCK..).unwrap_or_default().iter();
        blocks.flatten().skip(first % BLOCK).map(TokenEntry::token)
    }

    /// Returns the tokens that end after a byte offset.
    pub fn behind(&self, byte: usize) -> impl Iterator<Item = EncodedToken> {
        let ends_before = |entry: &TokenEntry| entry.end as usize <= byte;
        let block = self.blocks.partition_point(|block| block.last().is_some_and(ends_before));
        let within = self.blocks.get(block).map_or(0, |block| block.partition_point(ends_before));
        self.from(block * BLOCK + within)
    }
}

impl TokenEntry {
    fn token(&self) -> EncodedToken {
        EncodedToken {
            id: self.id & !CONTROL,
            start: self.start as usize,
            end: self.end as usize,
            control: self.id & CONTROL != 0,
        }
    }
}
