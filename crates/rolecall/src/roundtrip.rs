//! Comparing a message with the result of rendering it and parsing it back.

use rolecall_conversation::json::{self, Layout};
use rolecall_conversation::{Arguments, Call, Json, Message};
use rolecall_format::codec::is_python_space;
use rolecall_parse::{ParsedCall, Reading};

/// A field of a message that differs after rendering and parsing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldDifference {
    /// The field: `content`, `reasoning_content`, `tool_calls`, `tool_calls[0].function.arguments`,
    /// ..
    pub field: String,
    /// The kind of difference.
    pub kind: DifferenceKind,
    /// The value in the message.
    pub said: String,
    /// The value that was parsed.
    pub read: String,
}

/// How a parsed field differs from the original.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DifferenceKind {
    /// Only white space at the ends differs: the layout trims it, or writes such white space
    /// itself.
    WhiteSpace,
    /// The layout does not write the field, so it cannot be parsed back.
    NotWritten,
    /// The field was written, but parsed to another value.
    Changed,
}

impl DifferenceKind {
    /// Returns the stable name of the kind of difference.
    pub fn code(self) -> &'static str {
        match self {
            DifferenceKind::WhiteSpace => "white_space",
            DifferenceKind::NotWritten => "not_written",
            DifferenceKind::Changed => "changed",
        }
    }
}

/// Compares a message with what was parsed from its rendering.
///
/// `is_written` reports whether a field of the message, given by its path (`tool_calls[0].id`),
/// occurs in the rendering. Arguments are compared as JSON values. Ids are compared only if they
/// were written.
///
/// ```
/// use rolecall::roundtrip::{DifferenceKind, differences};
/// use rolecall::{Event, Reading};
/// use rolecall::conversation::Message;
/// let mut reading = Reading::default();
/// reading.add(&Event::Content("Hello"));
/// assert_eq!(differences(&Message::assistant("Hello"), &reading, |_| true), []);
/// let trimmed = differences(&Message::assistant("Hello\n"), &reading, |_| true);
/// assert_eq!(trimmed[0].kind, DifferenceKind::WhiteSpace);
/// ```
pub fn differences(message: &Message, reading: &Reading, is_written: impl Fn(&str) -> bool) -> Vec<FieldDifference> {
    let mut found = Vec::new();
    let mut texts = |field: &str, said: &str, read: &str| {
        if said != read {
            let strip = |text: &str| text.trim_matches(is_python_space).to_owned();
            let kind = match () {
                () if strip(said) == strip(read) => DifferenceKind::WhiteSpace,
                () if read.is_empty() && !is_written(field) => DifferenceKind::NotWritten,
                () => DifferenceKind::Changed,
            };
            found.push(FieldDifference { field: field.to_owned(), kind, said: said.to_owned(), read: read.to_owned() });
        }
    };
    texts("content", &message.text().unwrap_or_default(), &reading.content);
    texts(
        "reasoning_content",
        message.reasoning_content().unwrap_or_default(),
        reading.reasoning.as_deref().unwrap_or_default(),
    );
    let calls: Vec<Call<'_>> = message.calls().collect();
    if calls.len() != reading.calls.len() {
        let count = |count: usize| if count == 1 { "1 call".to_owned() } else { format!("{count} calls") };
        let written = is_written("tool_calls");
        let kind = if written { DifferenceKind::Changed } else { DifferenceKind::NotWritten };
        let (said, read) = (count(calls.len()), count(reading.calls.len()));
        found.push(FieldDifference { field: "tool_calls".into(), kind, said, read });
        return found;
    }
    for (at, (said, read)) in calls.iter().zip(&reading.calls).enumerate() {
        compare_calls(at, said, read, &is_written, &mut found);
    }
    found
}

fn compare_calls(
    at: usize,
    said: &Call<'_>,
    read: &ParsedCall,
    is_written: &impl Fn(&str) -> bool,
    found: &mut Vec<FieldDifference>,
) {
    let mut changed = |field: &str, said: &str, read: &str| {
        let (field, said, read) = (format!("tool_calls[{at}]{field}"), said.to_owned(), read.to_owned());
        found.push(FieldDifference { field, kind: DifferenceKind::Changed, said, read });
    };
    let read_id = match (said, read) {
        (
            Call::Function { name: said_name, arguments: said_arguments, .. },
            ParsedCall::Function { id, name, arguments, .. },
        ) => {
            if said_name != name {
                changed(".function.name", said_name, name);
            }
            let same = match (said_arguments.to_object(), json::parse(arguments)) {
                (Ok(said), Ok(read)) => same_json(&Json::Object(said), &read),
                _ => false,
            };
            if !same {
                changed(".function.arguments", &text_of(*said_arguments), arguments);
            }
            id
        }
        (Call::CodeInterpreter { code: said_code, .. }, ParsedCall::Code { id, code, .. }) => {
            if said_code != code {
                changed(".code_interpreter.input", said_code, code);
            }
            id
        }
        (Call::Function { .. }, ParsedCall::Code { .. }) => return changed(".type", "function", "code_interpreter"),
        (Call::CodeInterpreter { .. }, ParsedCall::Function { .. }) => {
            return changed(".type", "code_interpreter", "function");
        }
    };
    if let Some(said) = said.id()
        && said != read_id
        && is_written(&format!("tool_calls[{at}].id"))
    {
        changed(".id", said, read_id);
    }
}

fn text_of(arguments: Arguments<'_>) -> String {
    match arguments {
        Arguments::Text(text) => text.to_owned(),
        Arguments::Value(object) => json::write(&Json::Object(object.clone()), &Layout::default()),
        Arguments::None => String::new(),
    }
}

/// Reports whether two JSON values are equal: numbers are compared by value, objects regardless of
/// key order.
///
/// ```
/// use rolecall::conversation::json::parse;
/// use rolecall::roundtrip::same_json;
/// assert!(same_json(&parse(r#"{"a": 1, "b": 2.50}"#)?, &parse(r#"{"b": 25e-1, "a": 1.0}"#)?));
/// assert!(!same_json(&parse(r#"{"a": 1}"#)?, &parse(r#"{"a": "1"}"#)?));
/// # Ok::<(), rolecall::conversation::json::ParseError>(())
/// ```
pub fn same_json(a: &Json, b: &Json) -> bool {
    match (a, b) {
        // Integers too large for a float are compared by their spelling.
        (Json::Number(a), Json::Number(b)) => {
            a.spelling() == b.spelling()
                || match (a.as_i64(), b.as_i64()) {
                    (Some(a), Some(b)) => a == b,
                    _ => a.as_f64().is_some() && a.as_f64() == b.as_f64(),
                }
        }
        (Json::Array(a), Json::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_json(a, b)),
        (Json::Object(a), Json::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, value)| b.get(key).is_some_and(|other| same_json(value, other)))
        }
        (a, b) => a == b,
    }
}
