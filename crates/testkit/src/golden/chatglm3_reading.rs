//! Model output as ChatGLM3's own code reads it: parts of a header line and a text, each a reply or a call.

use rolecall::json::Object;
use rolecall::roundtrip::same_json;
use rolecall::{Format, Json, Message, ParseOptions, ParsedCall, Reading, codec, json, object};

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
    let before = row.get("conversation").and_then(Json::as_array).map_or(0, <[Json]>::len);
    let parts = expected.get("history").and_then(Json::as_array).and_then(|history| history.get(before..));
    let parts: Vec<&Object> = parts.unwrap_or_default().iter().filter_map(Json::as_object).collect();
    let excuse = if expected.get("error").is_some() {
        Some("the reference evaluates calls as Python and raises on what is no call of keyword arguments")
    } else if parts.iter().any(|part| !is_blank(part) && call_of(part).is_none()) {
        Some("where no tools are offered, the reference gives unread text that is no call of literals")
    } else {
        None
    };
    if excuse.is_none() && means(expected, &parts, &read) {
        return Verdict::Passed;
    }
    match excuse {
        Some(excuse) if is_all_there(output, &read.reading, format) && has_whole_calls(&read.reading) => {
            Verdict::Excused(excuse)
        }
        _ => {
            let written = |object: &Object| json::write(&Json::Object(object.clone()), &json::Layout::default());
            let mut wanted = expected.clone();
            wanted.insert("history", Json::Array(parts.iter().map(|part| Json::Object((*part).clone())).collect()));
            let found = object! { "events" => read.transcript.to_string() };
            Verdict::Misread { expected: written(&wanted), found: written(&found), output: output.to_owned() }
        }
    }
}

fn is_blank(part: &Object) -> bool {
    text(part, "metadata").trim().is_empty()
}

/// Whether the parts are what was read: the replies' texts are the content, every other part is a call. What the reference
/// returns of the last one is compared, too.
fn means(expected: &Object, parts: &[&Object], read: &Read) -> bool {
    let replies: Vec<&str> =
        parts.iter().filter(|part| is_blank(part)).map(|part| text(part, "content").trim()).collect();
    let content = match replies.as_slice() {
        [only] => read.reading.content.trim() == *only,
        several => squeeze(&read.reading.content) == squeeze(&several.concat()),
    };
    let calls: Vec<&&Object> = parts.iter().filter(|part| !is_blank(part)).collect();
    let same_call = |(part, call): (&&&Object, &ParsedCall)| match (call_of(part), call) {
        (Some(Call::Code(said)), ParsedCall::Code { code, .. }) => said == *code,
        (Some(Call::Function(said)), ParsedCall::Function { name, arguments, .. }) => {
            let found = json::parse(arguments).unwrap_or(Json::Null);
            text(part, "metadata") == name && same_json(&Json::Object(said), &found)
        }
        _ => false,
    };
    let returned = expected.get("content").and_then(Json::as_object).and_then(|content| content.get("parameters"));
    let returned = match (returned, read.reading.calls.last()) {
        (Some(said), Some(ParsedCall::Function { arguments, .. })) => {
            json::parse(arguments).is_ok_and(|found| same_json(said, &found))
        }
        (Some(_), _) => false,
        (None, _) => true,
    };
    content
        && returned
        && calls.len() == read.reading.calls.len()
        && calls.iter().zip(&read.reading.calls).all(same_call)
}

enum Call {
    Function(Object),
    Code(String),
}

/// The call of a part, if it is one: code of the interpreter, or literal keyword arguments between the first line and the last.
fn call_of(part: &Object) -> Option<Call> {
    let raw = text(part, "content").trim();
    let inner = raw.strip_prefix("```python\n")?.strip_suffix("\n```")?;
    if text(part, "metadata") == "interpreter" {
        return Some(Call::Code(inner.to_owned()));
    }
    let arguments = inner.strip_prefix("tool_call(")?.strip_suffix(')')?;
    codec::python::read(arguments).ok().map(Call::Function)
}

/// Whether each call that is said to be whole has an object of arguments.
fn has_whole_calls(reading: &Reading) -> bool {
    reading.calls.iter().all(|call| match call {
        ParsedCall::Function { arguments, whole: true, .. } => matches!(json::parse(arguments), Ok(Json::Object(_))),
        _ => true,
    })
}

fn squeeze(text: &str) -> String {
    text.split_whitespace().collect()
}
