//! The headers of an answer: what the model does not see, what nothing enforces, and which settings are the model's.

use axum::http::{HeaderMap, HeaderValue};
use rolecall::grammar::{Note, Purpose};

use crate::reply::writer::ReplyWriter;
use crate::request::chat_request::ChatRequest;
use crate::turn::{Turn, left_out};
use crate::{Fault, FaultCode};

/// The most parts of messages that a header names.
const MOST_NAMED: usize = 16;

/// The most characters of each name.
const LONGEST_NAME: usize = 200;

/// Returns the header that names the parts of messages that the model does not see, by the names that they have
/// in the request.
pub(super) fn left_out_header(turn: &Turn, writer: &dyn ReplyWriter) -> Option<HeaderValue> {
    let name = |(index, field): &left_out::LeftOutField| {
        let place = Fault { message_index: u32::try_from(*index).ok(), ..Fault::at(field, FaultCode::LeftOut, "") };
        let Fault { message_index, param, .. } = writer.placed(place);
        let field = param.as_deref().unwrap_or_default();
        match message_index.filter(|_| !field.starts_with("input")) {
            Some(index) => format!("messages[{index}]{}{field}", if field.is_empty() { "" } else { "." }),
            None => field.to_owned(),
        }
    };
    names_header(turn.left_out.iter().map(name).collect())
}

/// Returns the names of what the request asks for and nothing enforces.
pub(super) fn not_enforced(wanted: &ChatRequest, turn: &Turn) -> Vec<String> {
    let wishes = wanted.wishes.iter().map(|wish| (*wish).to_owned());
    wishes.chain(turn.notes.iter().filter_map(keyword_of)).collect()
}

/// Returns the name of a keyword that a grammar does not say: the tool or `response_format`, and the pointer to the
/// keyword in its schema.
fn keyword_of(note: &Note) -> Option<String> {
    match note {
        Note::Keyword { purpose: Purpose::Answer, at, keyword } => Some(format!("response_format{at}/{keyword}")),
        Note::Keyword { purpose: Purpose::Arguments(tool), at, keyword } => Some(format!("tools.{tool}{at}/{keyword}")),
        _ => None,
    }
}

/// Returns a header with the first of some names. Characters beyond ASCII are escaped.
pub(super) fn names_header(mut names: Vec<String>) -> Option<HeaderValue> {
    if names.len() > MOST_NAMED {
        names.truncate(MOST_NAMED);
        names.push("..".to_owned());
    }
    let is_plain = |character: char| character.is_ascii_graphic() || character == ' ';
    let escaped = |character: char| -> String {
        if is_plain(character) { character.into() } else { character.escape_unicode().collect() }
    };
    let short = |name: &String| name.chars().take(LONGEST_NAME).map(escaped).collect::<String>();
    let names = names.iter().map(short).collect::<Vec<String>>().join(", ");
    HeaderValue::from_str(&names).ok().filter(|names| !names.is_empty())
}

/// Returns the header that says which settings are the model's.
pub(super) fn defaults(applied: &[&str], has_stops: bool) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let applied: Vec<&str> = applied.iter().copied().chain(has_stops.then_some("stop_token_ids")).collect();
    if let Ok(applied) = HeaderValue::from_str(&applied.join(", "))
        && !applied.is_empty()
    {
        headers.insert("x-rolecall-defaults", applied);
    }
    headers
}
