//! The syntaxes that arguments come in, each turned into JSON text while it streams. A reader takes pieces cut anywhere between
//! characters, writes what is certain behind an output, and says how far it came. What is written is never taken back.

mod check;
mod json;
mod json_string;
mod literal;
mod marked;
mod nest;
mod quoted;
mod schema;
mod text;
mod typed;
mod types;

use crate::{JsonPolicy, Why};

pub(crate) use check::check;
pub(crate) use json::JsonReader;
pub(crate) use json_string::JsonStringReader;
pub(crate) use literal::LiteralReader;
pub(crate) use schema::Schema;
pub(crate) use text::{TextValue, uncdata};
pub(crate) use typed::typed;
pub(crate) use types::Types;

/// How far a reader came with a piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// The bytes of the piece that belong to the value, or that were good before the one that was not.
    pub(crate) used: usize,
    /// What it waits for.
    pub(crate) state: State,
}

/// What a reader waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// More of the value.
    More,
    /// Nothing: the value is whole.
    Done,
    /// Nothing: this is no such value.
    Bad(Why),
}

/// A value that is being read.
#[derive(Clone, Debug)]
pub(crate) enum ValueReader {
    /// JSON, as it is spelled.
    Json(JsonReader),
    /// JSON inside a JSON string.
    JsonString(JsonStringReader),
    /// Python's literals and keyword arguments, and values with marks.
    Literal(LiteralReader),
}

impl ValueReader {
    /// Any JSON value; white space before it is skipped.
    pub(crate) fn json(policy: JsonPolicy) -> ValueReader {
        ValueReader::Json(JsonReader::new(policy))
    }

    /// A JSON string that holds JSON, which comes out; unless strict, JSON that is in no string too.
    pub(crate) fn json_string(policy: JsonPolicy) -> ValueReader {
        ValueReader::JsonString(JsonStringReader::new(policy))
    }

    /// Python's keyword arguments, up to the `)` behind them.
    pub(crate) fn python_arguments(policy: JsonPolicy, cap: usize) -> ValueReader {
        ValueReader::Literal(LiteralReader::arguments(policy, cap))
    }

    /// One value as Python or JSON spells it.
    pub(crate) fn literal(policy: JsonPolicy, cap: usize) -> ValueReader {
        ValueReader::Literal(LiteralReader::value(policy, cap))
    }

    /// Braces, bare keys, and strings between marks.
    pub(crate) fn marked(mark: &str, policy: JsonPolicy, cap: usize) -> ValueReader {
        ValueReader::Literal(LiteralReader::marked(mark, policy, cap))
    }

    /// Takes the next piece.
    pub(crate) fn push(&mut self, text: &str, out: &mut String) -> Step {
        match self {
            ValueReader::Json(reader) => reader.push(text, out),
            ValueReader::JsonString(reader) => reader.push(text, out),
            ValueReader::Literal(reader) => reader.push(text, out),
        }
    }

    /// What was read and not given: the start of a number, a word or a key.
    pub(crate) fn unsaid(&self) -> String {
        match self {
            ValueReader::Json(_) | ValueReader::JsonString(_) => String::new(),
            ValueReader::Literal(reader) => reader.unsaid(),
        }
    }

    /// The output ends here, or what stands behind the value begins: a number is whole now, an open string is not.
    pub(crate) fn end(&mut self, out: &mut String) -> State {
        match self {
            ValueReader::Json(reader) => reader.end(),
            ValueReader::JsonString(reader) => reader.end(),
            ValueReader::Literal(reader) => reader.end(out),
        }
    }
}

/// The bytes of a piece that were used before something that must not stand there.
fn bad(used: usize, expected: &str, text: &str) -> Step {
    let found = match text.get(used..).and_then(|rest| rest.chars().next()) {
        Some(character) if character.is_control() => format!("{character:?}"),
        Some(character) => format!("`{character}`"),
        None => "the end of the text".into(),
    };
    Step { used, state: State::Bad(Why::BadValue(format!("expected {expected}, found {found}"))) }
}

#[cfg(test)]
mod tests;
