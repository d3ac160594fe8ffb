//! The syntaxes that arguments come in, each turned into JSON text while it streams. A reader takes pieces cut anywhere between
//! characters, writes what is certain behind an output, and says how far it came. What is written is never taken back.

mod json;
mod nest;
mod schema;
mod text;
mod typed;
mod types;

use crate::Why;

pub(crate) use json::JsonReader;
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
    /// Text without an end of its own: `end` closes it.
    Text(TextValue),
}

impl ValueReader {
    /// Any JSON value; white space before it is skipped.
    pub(crate) fn json(policy: crate::JsonPolicy) -> ValueReader {
        ValueReader::Json(JsonReader::new(policy))
    }

    /// Text that becomes a JSON string.
    pub(crate) fn text() -> ValueReader {
        ValueReader::Text(TextValue::default())
    }

    pub(crate) fn json_string(policy: crate::JsonPolicy) -> ValueReader {
        ValueReader::json(policy)
    }
    pub(crate) fn python_arguments() -> ValueReader {
        ValueReader::text()
    }
    pub(crate) fn literal() -> ValueReader {
        ValueReader::text()
    }
    pub(crate) fn marked(_: &str) -> ValueReader {
        ValueReader::text()
    }
    /// Takes the next piece.
    pub(crate) fn push(&mut self, text: &str, out: &mut String) -> Step {
        match self {
            ValueReader::Json(reader) => reader.push(text, out),
            ValueReader::Text(value) => {
                value.push(text, out);
                Step { used: text.len(), state: State::More }
            }
        }
    }

    /// The output ends here, or what stands behind the value begins: a number is whole now, an open string is not.
    pub(crate) fn end(&mut self, out: &mut String) -> State {
        match self {
            ValueReader::Json(reader) => reader.end(),
            ValueReader::Text(value) => {
                value.end(out);
                State::Done
            }
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

pub(crate) fn check(_: &str, _: &rolecall_conversation::Json) -> Option<String> {
    None
}
