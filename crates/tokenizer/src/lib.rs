//! In: a text, and the bytes of a model maker's own tokenizer file. Out: token ids with byte spans.
//! Between: an adapter checks and compiles the file, `encode_ordinary` and `encode_reference` encode.
//! The adapters: `hugging_face` for `tokenizer.json`, `sentencepiece` for `.model` files; `tiktoken`, `tekken` and `gguf` read what
//! other files hold into one of the two, with the help of `facts` for what those files leave out.
//! Start reading at the trait `Tokenizer`, below.

#![cfg_attr(not(feature = "files"), allow(dead_code, reason = "some of it serves the readers of files alone"))]

mod added;
mod cached;
mod engine;
mod error;
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
mod config;
#[cfg(feature = "files")]
mod facts;
#[cfg(feature = "files")]
mod gguf;
#[cfg(feature = "files")]
mod hugging_face;
#[cfg(feature = "files")]
mod own;
#[cfg(feature = "files")]
mod ranks;
#[cfg(feature = "files")]
mod sentencepiece;
#[cfg(feature = "files")]
mod tekken;
#[cfg(feature = "files")]
mod tiktoken;

#[cfg(all(test, feature = "files"))]
mod tests;

pub use added::{AddedToken, is_space};
pub use cached::{CacheCounts, Cached};
pub use engine::Engine;
pub use error::Error;
#[cfg(feature = "files")]
pub use gguf::{EmbeddedVocabulary, TokenType};
#[cfg(feature = "files")]
pub use hugging_face::HuggingFace;
pub use named::{Beside, Named, NamedToken};
#[cfg(feature = "files")]
pub use sentencepiece::SentencePiece;
#[cfg(feature = "files")]
pub use tekken::is_tekken;
#[cfg(feature = "files")]
pub use tiktoken::is_tiktoken;
pub use words::stands_alone;

use std::collections::BTreeSet;
use std::sync::Arc;

/// Engines keep ids as signed 32-bit numbers; a larger claim is a broken file.
const LARGEST_ID: u32 = i32::MAX as u32;

/// A tokenizer as its model maker shipped it, able to tell ordinary text from control tokens.
pub trait Tokenizer: Send + Sync {
    /// Encodes ordinary text: no token that is kept out of text comes out, whatever the text spells. These are the
    /// `added_tokens`, until [`Tokenizer::keeping_out`] says otherwise.
    ///
    /// Where a text spells none of them, the ids are the reference tokenizer's. Tokens are appended to `out`.
    fn encode_ordinary(&self, text: &str, place: Place, out: &mut Vec<Token>) -> Result<(), Error>;

    /// The same tokenizer, which keeps exactly the tokens with these ids out of text. All its other tokens, added ones
    /// too, come out of text as they do in the reference.
    ///
    /// The token for what the vocabulary lacks, and the tokens of bytes, still stand for such text; their names never
    /// become them.
    fn keeping_out(&self, ids: &BTreeSet<u32>) -> Result<Arc<dyn Tokenizer>, Error>;

    /// Tokens that the tokenizer's own files name: as those that open and close a text, say.
    fn named(&self) -> &[Named] {
        &[]
    }

    /// The `chat_control_tokens` of its config, which say which added tokens no text may become.
    fn chat_control_tokens(&self) -> Option<&[String]> {
        None
    }

    /// The token that text becomes which the vocabulary lacks; none where every text has a spelling.
    fn unknown(&self) -> Option<u32> {
        None
    }

    /// The same, handed over in parts, so that the tokens of a long text need not all be in memory at once. After an error,
    /// what was handed over is of no use.
    fn encode_in_parts(&self, text: &str, place: Place, take: &mut dyn FnMut(&[Token])) -> Result<(), Error> {
        let mut tokens = Vec::new();
        self.encode_ordinary(text, place, &mut tokens)?;
        take(&tokens);
        Ok(())
    }

    /// Encodes as the reference does: added tokens are matched wherever they are spelled, forged or not.
    fn encode_reference(&self, text: &str, place: Place, out: &mut Vec<Token>) -> Result<(), Error>;

    /// Every token beside the learned vocabulary but those that are text, ordered by id. An id may stand here under two
    /// spellings.
    fn added_tokens(&self) -> &[AddedToken];

    /// Whether text is normalized before those added tokens are looked for that are flagged so. What such text spells,
    /// only [`Tokenizer::find_added`] knows.
    fn normalizes(&self) -> bool {
        false
    }

    /// The added tokens that the reference finds in a text. It is asked where the tokenizer normalizes.
    fn find_added(&self, _text: &str, _out: &mut Vec<Token>) -> Result<(), Error> {
        Ok(())
    }

    /// The added tokens that look like text and not like markers: runs of spaces, doubled dashes.
    fn text_tokens(&self) -> Vec<AddedToken> {
        Vec::new()
    }

    /// The id of the token with exactly this text, added tokens included.
    fn token_id(&self, text: &str) -> Option<u32>;

    /// The text of a token, spelled in the tokenizer's own alphabet.
    fn token_text(&self, id: u32) -> Option<String>;

    /// Appends the bytes that a token stands for in a text, the first space of a text among them even where the tokenizer
    /// put it there itself (see [`Tokenizer::prefix_space`]). False where there is no such token, or where its bytes are
    /// not its own: a word piece, say, has a space before it or has none by what stands before it.
    fn token_bytes(&self, id: u32, out: &mut Vec<u8>) -> bool;

    /// Whether the tokenizer puts a space before a text at a place, which is none of its bytes.
    fn prefix_space(&self, _place: Place) -> bool {
        false
    }

    /// How many tokens there are, added ones included.
    fn vocabulary_size(&self) -> usize;

    /// What algorithm this is, for reports.
    fn kind(&self) -> Kind;

    /// The token that opens a text, whether or not the tokenizer adds it by itself.
    fn bos(&self) -> Option<u32> {
        self.adds_bos()
    }

    /// What does the encoding, for reports.
    fn engine(&self) -> Engine {
        Engine::Own
    }

    /// The token that the reference puts before every prompt by itself, if any.
    fn adds_bos(&self) -> Option<u32>;

    /// The token that the reference puts behind every prompt by itself, if any.
    fn adds_eos(&self) -> Option<u32>;
}

/// A token and the bytes of the text that it stands for.
///
/// Spans lie on character boundaries: tokens that hold a part of a character each span all of it, and a token
/// that stands for no text (a prefix space) spans the character beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Token {
    /// The token's number.
    pub id: u32,
    /// The first byte of its span.
    pub start: usize,
    /// The byte behind its span.
    pub end: usize,
}

/// Where in the prompt a text stands; some tokenizers put a prefix space at the start only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// At the very start of the prompt.
    Start,
    /// Behind a control token.
    Inside,
}

/// The algorithm of a tokenizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// Byte-pair merges over bytes.
    ByteLevelBpe,
    /// Byte-pair merges over characters.
    Bpe,
    /// The most probable pieces.
    Unigram,
    /// The longest pieces of each word, left to right.
    WordPiece,
    /// Whole words.
    WordLevel,
    /// Byte-pair merges of a sentencepiece model.
    SentencePieceBpe,
    /// The most probable pieces of a sentencepiece model.
    SentencePieceUnigram,
}

impl std::fmt::Display for Kind {
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

/// What a person wants to see of a tokenizer, whose tables are endless.
fn describe(tokenizer: &dyn Tokenizer, name: &str, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
    let mut out = f.debug_struct(name);
    out.field("kind", &tokenizer.kind()).field("vocabulary_size", &tokenizer.vocabulary_size());
    out.finish_non_exhaustive()
}

impl Token {
    /// A token over these bytes, widened to whole characters and to at least one of them.
    fn covering(id: u32, (start, end): (usize, usize), text: &str) -> Self {
        let mut start = boundary_before(text, start.min(text.len()));
        let mut end = boundary_behind(text, end.clamp(start, text.len()));
        if start == end && end < text.len() {
            end = boundary_behind(text, end + 1);
        }
        if start == end && start > 0 {
            start = boundary_before(text, start - 1);
        }
        Self { id, start, end }
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
