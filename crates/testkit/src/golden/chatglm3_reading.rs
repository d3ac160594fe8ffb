//! Parses model output as ChatGLM3's own code does: parts of a header line and a text, each a reply
//! or a call.

use rolecall::Reading;
use rolecall::conversation::json::Object;
use rolecall::conversation::{Json, Message, json, object};
use rolecall::format::{Format, codec};
use rolecall::parse::{ParseOptions, ParsedCall};
use rolecall::roundtrip::same_json;

use super::reading::{Read, is_all_there, read_every_way};
use super::{conversation, text};
use crate::Verdict;

pub(super) fn run(row: &Object, expected: &Object, format: &Format) -> Verdict {
    let output = row.get("options").and_then(Json::as_object).map_or("", |options| text(options, "output"));
    let tools = conversation(row, Object::new()).map(|conversation| {
        let own = conversation.messages.iter().filter_map(Message::tools).flatten().cloned();
        own.collect()
    });
    let options = ParseOptions {
        tools: tools.unwrap_or_default(),
        prompt_tail: "<|assistant|>".into(),
        ..ParseOptions::default()
    };
    let read = match read_every_way(format, options, output) {
        Ok(read) => read,
        Err(verdict) => return verdict,
    };
    let said = row.get("conversation").and_then(Json::as_array).unwrap_or_default();
    let history = expected.get("history").and_then(Json::as_array).unwrap_or_default();
    let parts: Vec<&Object> = history.iter().skip(said.len()).filter_map(Json::as_object).collect();
    let excuse = if expected.get("error").is_some() {
        Some("the reference evaluates calls as Python and raises on anything but keyword arguments")
    } else if parts
        .iter()
        .any(|part| !is_blank(part) && call_of(text(part, "metadata"), text(part, "content")).is_none())
    {
        Some("without tools, the reference returns text that is not a call of literals unparsed")
    } else {
        None
    };
    let right = match excuse {
        None => keeps(said, history) && means(expected, &parts, &read),
        Some(_) => {
            is_all_there(output, &read.reading, format)
                && has_whole_calls(&read.reading)
                && is_read_by_the_book(output, &read.reading)
                && (expected.get("error").is_some() || (keeps(said, history) && returns(expected, &parts)))
        }
    };
    match (right, excuse) {
        (true, None) => Verdict::Passed,
        (true, Some(excuse)) => Verdict::Excused(excuse),
        (false, _) => {
            let written = |object: &Object| json::write(&Json::Object(object.clone()), &json::Layout::default());
            let mut wanted = expected.clone();
            wanted.insert("history", Json::Array(parts.iter().map(|part| Json::Object((*part).clone())).collect()));
            let found = object! { "events" => read.transcript.to_string() };
            Verdict::Misread { expected: written(&wanted), found: written(&found), output: output.to_owned() }
        }
    }
}

/// Reports whether a history continues the given messages with messages of the assistant only.
fn keeps(said: &[Json], history: &[Json]) -> bool {
    let added = history.get(said.len()..).unwrap_or_default();
    let is_the_assistants = |part: &Json| part.as_object().is_some_and(|part| text(part, "role") == "assistant");
    history.starts_with(said) && !added.is_empty() && added.iter().all(is_the_assistants)
}

/// Reports whether the reference returns the last part of the history: a reply with the reference's
/// own replacement, or a call with its name and its arguments (its text if no tools are offered).
fn returns(expected: &Object, parts: &[&Object]) -> bool {
    let Some(last) = parts.last() else { return false };
    let (metadata, content) = (text(last, "metadata"), text(last, "content"));
    match expected.get("content") {
        Some(Json::String(returned)) => is_blank(last) && *returned == content.replace("[[训练时间]]", "2023年"),
        Some(Json::Object(returned)) => {
            let arguments = match (returned.get("parameters"), call_of(metadata, content)) {
                (Some(parameters), Some(Call::Function(said))) => same_json(parameters, &Json::Object(said)),
                (None, _) => text(returned, "content") == content,
                _ => false,
            };
            !is_blank(last) && text(returned, "name") == metadata.trim() && arguments && returned.len() == 2
        }
        _ => false,
    }
}

/// Reports whether each part of an output is parsed correctly: code and calls of literals as calls,
/// complete if their fence is closed; any other fenced text is reported and not a complete call.
/// The parts are taken from the output, not from the reading.
fn is_read_by_the_book(output: &str, reading: &Reading) -> bool {
    let mut calls = reading.calls.iter().peekable();
    let mut faults = 0;
    for part in output.split("<|assistant|>") {
        let (metadata, content) = part.split_once('\n').unwrap_or(("", part));
        if metadata.trim().is_empty() {
            continue;
        }
        let opened = content.trim_start().strip_prefix("```python\n");
        let closed = call_of(metadata, content);
        let open = opened.filter(|_| closed.is_none()).and_then(|code| match metadata {
            "interpreter" => Some(Call::Code(code.to_owned())),
            _ => arguments_of(code).map(Call::Function),
        });
        let is_closed = closed.is_some();
        match (closed.or(open), opened) {
            (Some(call), _) => {
                let is_right =
                    |read: &ParsedCall| is_same(metadata, &call, read) && (!is_closed || is_whole_call(read));
                if !calls.next().is_some_and(is_right) {
                    return false;
                }
            }
            (None, Some(_)) => {
                faults += 1;
                calls.next_if(|call| !is_whole_call(call));
            }
            // A header line without a fence after it is text.
            (None, None) => {}
        }
    }
    calls.next().is_none() && reading.malformed.len() >= faults
}

fn is_whole_call(call: &ParsedCall) -> bool {
    match call {
        ParsedCall::Function { whole, .. } | ParsedCall::Code { whole, .. } => *whole,
    }
}

fn is_same(metadata: &str, said: &Call, read: &ParsedCall) -> bool {
    match (said, read) {
        (Call::Code(said), ParsedCall::Code { code, .. }) => said == code,
        (Call::Function(said), ParsedCall::Function { name, arguments, .. }) => {
            let found = json::parse(arguments).unwrap_or(Json::Null);
            metadata == name && same_json(&Json::Object(said.clone()), &found)
        }
        _ => false,
    }
}

fn is_blank(part: &Object) -> bool {
    text(part, "metadata").trim().is_empty()
}

/// Reports whether the reading equals the parts: the content joins the texts of the replies, and
/// every other part is a call.
fn means(expected: &Object, parts: &[&Object], read: &Read) -> bool {
    let replies: Vec<&str> =
        parts.iter().filter(|part| is_blank(part)).map(|part| text(part, "content").trim()).collect();
    let content = match replies.as_slice() {
        [only] => read.reading.content == *only,
        several => squeeze(&read.reading.content) == squeeze(&several.concat()),
    };
    let calls: Vec<&&Object> = parts.iter().filter(|part| !is_blank(part)).collect();
    let same_call = |(part, call): (&&&Object, &ParsedCall)| {
        let said = call_of(text(part, "metadata"), text(part, "content"));
        said.is_some_and(|said| is_same(text(part, "metadata"), &said, call))
    };
    content
        && returns(expected, parts)
        && calls.len() == read.reading.calls.len()
        && calls.iter().zip(&read.reading.calls).all(same_call)
}

enum Call {
    Function(Object),
    Code(String),
}

/// Returns the call in a part, if there is one: code for the interpreter, or literal keyword
/// arguments between the first line and the last.
fn call_of(metadata: &str, content: &str) -> Option<Call> {
    let inner = content.trim().strip_prefix("```python\n")?.strip_suffix("\n```")?;
    match metadata {
        "interpreter" => Some(Call::Code(inner.to_owned())),
        _ => arguments_of(inner).map(Call::Function),
    }
}

/// Returns the arguments of a call of literals.
fn arguments_of(code: &str) -> Option<Object> {
    codec::python::read(code.strip_prefix("tool_call(")?.strip_suffix(')')?).ok()
}

/// Reports whether each call flagged as complete has an object of arguments.
fn has_whole_calls(reading: &Reading) -> bool {
    reading.calls.iter().all(|call| match call {
        ParsedCall::Function { arguments, whole: true, .. } => matches!(json::parse(arguments), Ok(Json::Object(_))),
        _ => true,
    })
}

fn squeeze(text: &str) -> String {
    text.split_whitespace().collect()
}
