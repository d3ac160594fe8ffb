//! Readers for the syntaxes of arguments. Each converts its syntax to JSON text while it streams.
//!
//! A reader accepts pieces cut anywhere between characters, appends output as soon as it is
//! certain, and reports how many bytes it used. Output is never retracted.

mod check;
mod json;
mod json_string;
mod literal;
mod marked;
mod nest;
mod quoted;
mod repeated;
mod schema;
mod text;
mod typed;
mod types;

use crate::{JsonPolicy, Why};

pub use check::check_schema;
pub(crate) use json::JsonReader;
pub(crate) use json_string::JsonStringReader;
pub(crate) use literal::LiteralReader;
pub(crate) use repeated::RepeatedKey;
pub(crate) use schema::Schema;
pub(crate) use text::{TextValue, uncdata};
pub(crate) use typed::{TypedValue, typed, types_of};
pub(crate) use types::Types;

/// The progress of a reader through a piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ValueStep {
    /// The bytes of the piece that belong to the value, or that precede the first invalid byte.
    pub(crate) used: usize,
    /// The state after the piece.
    pub(crate) state: ReaderState,
}

/// The state of a reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReaderState {
    /// The value continues.
    More,
    /// The value is complete.
    Done,
    /// The text is not a value of this syntax.
    Bad(Why),
}

/// A reader for one value.
#[derive(Clone, Debug)]
pub(crate) enum ValueReader {
    /// JSON in its original spelling.
    Json(JsonReader),
    /// JSON inside a JSON string.
    JsonString(JsonStringReader),
    /// Python literals and keyword arguments, and values with markers.
    Literal(LiteralReader),
}

impl ValueReader {
    /// Creates a reader for any JSON value. It skips leading white space.
    pub(crate) fn json(policy: JsonPolicy) -> ValueReader {
        ValueReader::Json(JsonReader::new(policy))
    }

    /// Creates a reader for a JSON string that contains JSON. Unless strict, it also accepts JSON
    /// outside a string.
    pub(crate) fn json_string(policy: JsonPolicy) -> ValueReader {
        ValueReader::JsonString(JsonStringReader::new(policy))
    }

    /// Creates a reader for Python keyword arguments, up to the closing `)`.
    pub(crate) fn python_arguments(policy: JsonPolicy, cap: usize) -> ValueReader {
        ValueReader::Literal(LiteralReader::arguments(policy, cap))
    }

    /// Creates a reader for one value in the spelling of Python or JSON.
    pub(crate) fn literal(policy: JsonPolicy, cap: usize) -> ValueReader {
        ValueReader::Literal(LiteralReader::value(policy, cap))
    }

    /// Creates a reader for braces, bare keys, and strings between markers.
    pub(crate) fn marked(mark: &str, policy: JsonPolicy, cap: usize) -> ValueReader {
        ValueReader::Literal(LiteralReader::marked(mark, policy, cap))
    }

    /// Reads the next piece.
    pub(crate) fn push(&mut self, text: &str, out: &mut String) -> ValueStep {
        match self {
            ValueReader::Json(reader) => reader.push(text, out),
            ValueReader::JsonString(reader) => reader.push(text, out),
            ValueReader::Literal(reader) => reader.push(text, out),
        }
    }

    /// Reports whether a text only continues an open string. [`ValueReader::push`] would then
    /// output its escaped form and stay in the same state.
    pub(crate) fn is_plain(&self, text: &str) -> bool {
        match self {
            ValueReader::Json(reader) => reader.is_plain(text),
            ValueReader::JsonString(reader) => reader.is_plain(text),
            ValueReader::Literal(reader) => reader.is_plain(text),
        }
    }

    /// Returns the text that was read but produced no output yet: the start of a number, a word or
    /// a key.
    pub(crate) fn unsaid(&self) -> String {
        match self {
            ValueReader::Json(_) | ValueReader::JsonString(_) => String::new(),
            ValueReader::Literal(reader) => reader.unsaid(),
        }
    }

    /// Ends the input, at the end of the output or at the text after the value. This completes a
    /// number, but not an open string.
    pub(crate) fn end(&mut self, out: &mut String) -> ReaderState {
        match self {
            ValueReader::Json(reader) => reader.end(),
            ValueReader::JsonString(reader) => reader.end(),
            ValueReader::Literal(reader) => reader.end(out),
        }
    }
}

/// Reports an unexpected character after this number of used bytes.
fn bad(used: usize, expected: &str, text: &str) -> ValueStep {
    let found = match text.get(used..).and_then(|rest| rest.chars().next()) {
        Some(character) if character.is_control() => format!("{character:?}"),
        Some(character) => format!("`{character}`"),
        None => "the end of the text".into(),
    };
    ValueStep { used, state: ReaderState::Bad(Why::BadValue(format!("expected {expected}, found {found}"))) }
}

#[cfg(test)]
mod tests;
