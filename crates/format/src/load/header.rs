//! Reads `[reading.header]`: the header of each message of a reply.

use super::table::Table;
use crate::{Diagnostic, Header};

/// The keys of `[reading.header]`.
const KEYS: &[&str] = &[
    "start",
    "author",
    "recipient",
    "channel",
    "content-type",
    "content-types",
    "body",
    "ends",
    "reasoning",
    "answers",
    "functions",
    "code",
    "people",
];

pub(super) fn read_header(table: Table<'_>, mistakes: &mut Vec<Diagnostic>) -> Header {
    let text = |key: &str, mistakes: &mut Vec<Diagnostic>| table.text(key, mistakes).unwrap_or_default();
    let header = Header {
        start: table.needed_text("start", mistakes),
        author: table.needed_text("author", mistakes),
        recipient: text("recipient", mistakes),
        channel: text("channel", mistakes),
        content_type: text("content-type", mistakes),
        content_types: table.texts("content-types", mistakes),
        body: table.needed_text("body", mistakes),
        ends: table.texts("ends", mistakes),
        reasoning: table.texts("reasoning", mistakes),
        answers: table.texts("answers", mistakes),
        functions: text("functions", mistakes),
        code: table.texts("code", mistakes),
        people: table.texts("people", mistakes),
    };
    check(&header, &table, mistakes);
    table.finish(KEYS, mistakes);
    header
}

/// Reports markers that a parser could not tell apart from one another or from the words between
/// them.
fn check(header: &Header, table: &Table<'_>, mistakes: &mut Vec<Diagnostic>) {
    let mut wrong = |key: &str, message: String, help: &str| {
        let span = table.span_of(key);
        mistakes.push(Diagnostic { code: "bad_header", message, span, help: Some(help.to_owned()) });
    };
    for (key, text) in [("start", &header.start), ("body", &header.body), ("author", &header.author)] {
        if table.has(key) && text.trim().is_empty() {
            wrong(key, format!("`{key}` is empty, so no header can be found"), "write the text that the model writes");
        }
    }
    let marks: Vec<&str> = header.marks().collect();
    let twice = marks.iter().enumerate().find(|(at, mark)| marks[..*at].contains(mark));
    if let Some((_, mark)) = twice {
        wrong("start", format!("`{mark}` has two meanings in the header"), "each marker needs a text of its own");
    }
    for (key, text) in [("author", &header.author), ("recipient", &header.recipient), ("functions", &header.functions)]
    {
        if text.contains(char::is_whitespace) {
            wrong(key, format!("`{key}` contains white space, which separates words"), "write it without white space");
        }
    }
}
