//! Encodes text to token ids with byte spans, using the model maker's own tokenizer file.
//!
//! An adapter validates and compiles the file; then [`Tokenizer::encode_ordinary`] and
//! [`Tokenizer::encode_reference`] encode text. `hugging_face` reads `tokenizer.json`, and
//! `sentencepiece` reads `.model` files. The others of `file_kind`'s table convert their files into
//! one of these two kinds; `facts` supplies what those files leave out. Start reading at the trait
//! [`Tokenizer`].

#![cfg_attr(not(feature = "files"), allow(dead_code, reason = "some of it serves the readers of files alone"))]

mod added;
mod cached;
mod engine;
mod error;
mod extended;
mod file_kind;
mod named;
mod words;

// What reads files, and the engines that they are read into.
#[cfg(feature = "files")]
mod base64;
#[cfg(feature = "files")]
mod byte_alphabet;
#[cfg(feature = "files")]
mod byte_pairs;
#[cfg(feature = "files")]
mod combining;
#[cfg(feature = "files")]
mod config;
#[cfg(feature = "files")]
mod facts;
#[cfg(feature = "files")]
mod gguf;
#[cfg(feature = "files")]
mod hugging_face;
#[cfg(feature = "files")]
mod native;
#[cfg(feature = "files")]
mod ranks;
#[cfg(feature = "files")]
mod sentencepiece;
#[cfg(feature = "files")]
mod tekken;
#[cfg(feature = "files")]
mod tiktoken;
#[cfg(feature = "files")]
mod token_bytes;

#[cfg(test)]
mod tests;

pub use added::{AddedToken, is_space};
pub use cached::{CacheCounts, CachedTokenizer};
pub use engine::Engine;
pub use error::Error;
pub use extended::ExtendedTokenizer;
pub use file_kind::FileKind;
#[cfg(feature = "files")]
pub use gguf::{EmbeddedVocabulary, TokenType};
#[cfg(feature = "files")]
pub use hugging_face::HuggingFace;
pub use named::{Beside, NamedToken, TokenRef, WRONG_TYPE};
#[cfg(feature = "files")]
pub use sentencepiece::SentencePiece;
#[cfg(feature = "files")]
pub use tekken::is_tekken;
#[cfg(feature = "files")]
pub use tiktoken::is_tiktoken;
pub use words::stands_alone;

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

/// Engines store ids as signed 32-bit integers; a larger id means that the file is broken.
const LARGEST_ID: u32 = i32::MAX as u32;

/// A model maker's tokenizer that can tell ordinary text from control tokens.
pub trait Tokenizer: Send + Sync {
    /// Encodes ordinary text. The result contains no token that is kept out of text, whatever the
    /// text spells. By default these are the `added_tokens`; [`Tokenizer::keeping_out`] changes
    /// them.
    ///
    /// If a text spells none of these tokens, the ids equal those of the reference tokenizer.
    /// Tokens are appended to `out`.
    fn encode_ordinary(&self, text: &str, place: TextPlace, out: &mut Vec<Token>) -> Result<(), Error>;

    /// Encodes ordinary text as [`Tokenizer::encode_ordinary`] does, and appends the ids alone. A
    /// tokenizer may do this in less time.
    fn encode_ids(&self, text: &str, place: TextPlace, out: &mut Vec<u32>) -> Result<(), Error> {
        let mut tokens = Vec::new();
        self.encode_ordinary(text, place, &mut tokens)?;
        out.extend(tokens.iter().map(|token| token.id));
        Ok(())
    }

    /// Encodes ordinary text, but may stop once more than `most` tokens were appended. These are then
    /// the first tokens of the text.
    fn encode_at_most(&self, text: &str, place: TextPlace, _most: usize, out: &mut Vec<Token>) -> Result<(), Error> {
        self.encode_ordinary(text, place, out)
    }

    /// Returns the same tokenizer, keeping exactly the tokens with these ids out of text. Text
    /// encodes to all other tokens, including added tokens, as in the reference.
    ///
    /// The unknown token and the byte tokens still encode unknown characters and bytes, but text
    /// that spells their names never encodes to them.
    fn keeping_out(&self, ids: &BTreeSet<u32>) -> Result<Arc<dyn Tokenizer>, Error>;

    /// Returns the tokens that the tokenizer's own files name, such as the tokens that begin and
    /// end a text.
    fn named(&self) -> &[NamedToken] {
        &[]
    }

    /// Returns the `chat_control_tokens` of the config, which list the added tokens that text must
    /// never encode to.
    fn chat_control_tokens(&self) -> Option<&[String]> {
        None
    }

    /// Returns the token for text that the vocabulary lacks, or `None` if the vocabulary can encode
    /// every text.
    fn unknown(&self) -> Option<u32> {
        None
    }

    /// Encodes ordinary text and passes the tokens on in parts, so that the tokens of a long text
    /// need not all be in memory at once. After an error, discard the tokens that were passed so
    /// far.
    fn encode_in_parts(&self, text: &str, place: TextPlace, take: &mut dyn FnMut(&[Token])) -> Result<(), Error> {
        let mut tokens = Vec::new();
        self.encode_ordinary(text, place, &mut tokens)?;
        take(&tokens);
        Ok(())
    }

    /// Encodes as the reference does: added tokens are matched wherever text spells them, even if
    /// they are forged.
    fn encode_reference(&self, text: &str, place: TextPlace, out: &mut Vec<Token>) -> Result<(), Error>;

    /// Returns every token outside the learned vocabulary except those that are text, ordered by
    /// id. An id may occur under two spellings.
    fn added_tokens(&self) -> &[AddedToken];

    /// Reports whether text is normalized before added tokens with the `normalized` flag are
    /// matched. Only [`Tokenizer::find_added`] knows which tokens such a text spells.
    fn normalizes(&self) -> bool {
        false
    }

    /// Finds the added tokens that the reference finds in a text. Only called if the tokenizer
    /// normalizes.
    fn find_added(&self, _text: &str, _out: &mut Vec<Token>) -> Result<(), Error> {
        Ok(())
    }

    /// Returns the added tokens that look like text rather than markers, such as runs of spaces and
    /// doubled dashes.
    fn text_tokens(&self) -> Vec<AddedToken> {
        Vec::new()
    }

    /// Returns the id of the token with exactly this text, including added tokens.
    fn token_id(&self, text: &str) -> Option<u32>;

    /// Returns the text of a token, spelled in the tokenizer's own alphabet.
    fn token_text(&self, id: u32) -> Option<String>;

    /// Appends the bytes that a token represents. They include the first space of a text even if
    /// the tokenizer added it (see [`Tokenizer::prefix_space`]). Returns false if there is no such
    /// token, or if its bytes depend on context: a word piece, for example, has a space before it
    /// or not, depending on the token before it.
    fn token_bytes(&self, id: u32, out: &mut Vec<u8>) -> bool;

    /// Appends the bytes of tokens as [`Tokenizer::token_bytes`] does, up to the first one for which it
    /// returns false. Returns the number of tokens before that one.
    ///
    /// A tokenizer may collect the bytes of all its tokens at the first call, so that each further token
    /// takes nanoseconds.
    fn decode_bytes(&self, ids: &[u32], out: &mut Vec<u8>) -> usize {
        ids.iter().take_while(|id| self.token_bytes(**id, out)).count()
    }

    /// Reports whether the tokenizer adds a space before a text at this place. The space is not
    /// part of the text's bytes.
    fn prefix_space(&self, _place: TextPlace) -> bool {
        false
    }

    /// Returns the number of tokens, including added tokens.
    fn vocabulary_size(&self) -> usize;

    /// Returns the algorithm, for reports.
    fn kind(&self) -> TokenizerKind;

    /// Returns the token that begins a text, whether or not the tokenizer adds it by itself.
    fn bos(&self) -> Option<u32> {
        self.adds_bos()
    }

    /// Returns the engine that encodes, for reports.
    fn engine(&self) -> Engine {
        Engine::Native
    }

    /// Returns the token that the reference adds before every prompt, if any.
    fn adds_bos(&self) -> Option<u32>;

    /// Returns the token that the reference adds after every prompt, if any.
    fn adds_eos(&self) -> Option<u32>;
}

/// The length in bytes of the longest text that can be encoded at once: positions take 32 bits, with
/// some to spare for a prefix.
pub const LONGEST_TEXT: usize = u32::MAX as usize - 64;

/// A token and the bytes of the text that it covers.
///
/// Spans lie on character boundaries. Tokens that each hold part of a character all span the whole
/// character, and a token that represents no text (a prefix space) spans an adjacent character.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Token {
    /// The token's id.
    pub id: u32,
    /// The first byte of the span.
    pub start: u32,
    /// The byte after the span.
    pub end: u32,
}

/// The position of a text in the prompt. Some tokenizers add a prefix space only at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TextPlace {
    /// At the start of the prompt.
    Start,
    /// After a control token.
    Inside,
}

/// The algorithm of a tokenizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TokenizerKind {
    /// Byte-pair merges over bytes.
    ByteLevelBpe,
    /// Byte-pair merges over characters.
    Bpe,
    /// Segmentation into the most probable pieces.
    Unigram,
    /// Segmentation of each word into the longest pieces, left to right.
    WordPiece,
    /// Whole words.
    WordLevel,
    /// Byte-pair merges of a sentencepiece model.
    SentencePieceBpe,
    /// Segmentation into the most probable pieces of a sentencepiece model.
    SentencePieceUnigram,
}

impl std::fmt::Display for TokenizerKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::ByteLevelBpe => "byte-level BPE",
            Self::Bpe => "BPE",
            Self::Unigram => "unigram",
            Self::WordPiece => "WordPiece",
            Self::WordLevel => "word level",
            Self::SentencePieceBpe => "sentencepiece BPE",
            Self::SentencePieceUnigram => "sentencepiece unigram",
        })
    }
}

/// Formats the summary of a tokenizer for debugging, without its large tables.
fn describe(tokenizer: &dyn Tokenizer, name: &str, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
    let mut out = f.debug_struct(name);
    out.field("kind", &tokenizer.kind()).field("vocabulary_size", &tokenizer.vocabulary_size());
    out.finish_non_exhaustive()
}

impl Token {
    /// Returns a token that covers the bytes from `start` up to `end`, in a text of at most
    /// [`LONGEST_TEXT`] bytes.
    #[inline]
    pub fn new(id: u32, start: usize, end: usize) -> Self {
        debug_assert!(end <= LONGEST_TEXT, "{start} to {end}");
        Self { id, start: start as u32, end: end as u32 }
    }

    /// Returns the bytes of the text that it covers.
    #[inline]
    pub fn range(&self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// Returns the token in a text in which this one has `base` bytes before it.
    #[inline]
    fn behind(self, base: usize) -> Self {
        let Range { start, end } = self.range();
        Self::new(self.id, base + start, base + end)
    }

    /// Returns a token over these bytes, widened to whole characters and to at least one of them.
    fn covering(id: u32, (start, end): (usize, usize), text: &str) -> Self {
        let mut start = boundary_before(text, start.min(text.len()));
        let mut end = boundary_behind(text, end.clamp(start, text.len()));
        if start == end && end < text.len() {
            end = boundary_behind(text, end + 1);
        }
        if start == end && start > 0 {
            start = boundary_before(text, start - 1);
        }
        Self::new(id, start, end)
    }
}

/// Refuses a text whose tokens could not say where they are.
fn check_length(text: &str) -> Result<(), Error> {
    match text.len() {
        ..=LONGEST_TEXT => Ok(()),
        length => Err(Error::Unencodable { why: format!("a text of {length} bytes: split it below 4 GiB") }),
    }
}

fn boundary_before(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

fn boundary_behind(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at += 1;
    }
    at
}
