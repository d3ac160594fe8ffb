//! rolecall and its peers, behind one interface.

mod bpe;
mod fastokens;
mod kitoken;
mod rolecall;
mod tiktoken;
mod tokenizers;

use self::rolecall::Output;
use crate::model::Model;

/// A tokenizer that a library has loaded.
pub trait Encoder {
    /// Encodes ordinary text and returns the number of ids.
    fn encode(&mut self, text: &str) -> usize;

    /// Encodes ordinary text and returns the ids, as the tokenizer's file numbers them.
    fn ids(&mut self, text: &str) -> Result<Vec<u32>, String>;

    /// Decodes ids and returns the bytes.
    fn decode(&self, ids: &[u32]) -> Result<Vec<u8>, String>;
}

/// A library.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Library {
    Rolecall,
    /// rolecall with the span of each token.
    Spans,
    Fastokens,
    Tokenizers,
    Tiktoken,
    Kitoken,
    Bpe,
}

impl Library {
    /// rolecall first: the ratios are relative to it.
    pub const ALL: [Library; 7] = [
        Library::Rolecall,
        Library::Spans,
        Library::Fastokens,
        Library::Tokenizers,
        Library::Tiktoken,
        Library::Kitoken,
        Library::Bpe,
    ];

    /// Returns the name of its package.
    pub fn name(self) -> &'static str {
        match self {
            Library::Rolecall => "rolecall",
            Library::Spans => "spans",
            Library::Fastokens => "fastokens",
            Library::Tokenizers => "tokenizers",
            Library::Tiktoken => "tiktoken-rs",
            Library::Kitoken => "kitoken",
            Library::Bpe => "bpe-openai",
        }
    }

    pub fn named(name: &str) -> Option<Library> {
        Library::ALL.into_iter().find(|library| library.name() == name)
    }

    /// Returns the share of the documents that it encodes in a measurement of speed. A library that
    /// is some ten times slower would take most of the time.
    pub fn share(self) -> usize {
        match self {
            Library::Tokenizers => 8,
            _ => 1,
        }
    }

    /// Loads a tokenizer, or says why it does not.
    pub fn load(self, model: &Model) -> Result<Box<dyn Encoder>, String> {
        let load = || match self {
            Library::Rolecall => rolecall::load(model, Output::Ids),
            Library::Spans => rolecall::load(model, Output::Tokens),
            Library::Fastokens => fastokens::load(model),
            Library::Tokenizers => tokenizers::load(model),
            Library::Tiktoken => tiktoken::load(model),
            Library::Kitoken => kitoken::load(model),
            Library::Bpe => bpe::load(model),
        };
        std::panic::catch_unwind(load).unwrap_or_else(|panic| {
            let message = panic.downcast_ref::<String>().map_or("", String::as_str);
            Err(format!("it panics: {}", message.lines().next().unwrap_or_default()))
        })
    }
}

/// Reads the tokens of a file of ranks, in order.
fn read_ranks(file: &std::path::Path) -> Result<Vec<Vec<u8>>, String> {
    use base64::Engine as _;
    let text = std::fs::read_to_string(file).map_err(|error| error.to_string())?;
    let token = |line: &str| {
        let encoded = line.split(' ').next().unwrap_or_default();
        base64::engine::general_purpose::STANDARD.decode(encoded).map_err(|error| error.to_string())
    };
    text.lines().map(token).collect()
}
