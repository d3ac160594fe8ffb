//! Parses model output as lagent's protocol does: the language before the first call, and that
//! call.

use rolecall::Reading;
use rolecall::conversation::json::Object;
use rolecall::conversation::{Json, json, object};
use rolecall::parse::ParsedCall;
use rolecall::roundtrip::same_json;

use super::reading::{Read, is_all_there, read_every_way};
use super::{Context, text};
use crate::Verdict;

pub(super) fn run(row: &Object, expected: &Object, context: &Context) -> Verdict {
    let Some(format) = context.registry.get("lagent:internlm2") else {
        return Verdict::Failed { expected: "a format".into(), found: "none".into() };
    };
    let output = row.get("options").and_then(Json::as_object).map_or("", |options| text(options, "output"));
    let read = match read_every_way(format, Default::default(), output) {
        Ok(read) => read,
        Err(verdict) => return verdict,
    };
    if means(expected, &read) {
        return Verdict::Passed;
    }
    match excuse(expected, output, &read.reading) {
        Some(excuse) if is_all_there(output, &read.reading, format) && is_read_by_the_book(output, &read.reading) => {
            Verdict::Excused(excuse)
        }
        _ => {
            let found = object! { "language" => read.before.as_str(), "events" => read.transcript.to_string() };
            let written = |object: &Object| json::write(&Json::Object(object.clone()), &json::Layout::default());
            Verdict::Misread { expected: written(expected), found: written(&found), output: output.to_owned() }
        }
    }
}

/// Reports whether the reading equals an expected step. The protocol strips white space from
/// commands and some texts.
fn means(expected: &Object, read: &Read) -> bool {
    let action = expected.get("action").unwrap_or(&Json::Null);
    let call = read.reading.calls.first();
    let same_call = match (text(expected, "name"), call) {
        ("plugin", Some(ParsedCall::Function { name, arguments, .. })) => {
            let parameters = json::parse(arguments).unwrap_or(Json::Null);
            let found = Json::Object(object! { "name" => name.as_str(), "parameters" => parameters });
            action.as_str().and_then(|raw| json::parse(raw.trim()).ok()).is_some_and(|said| same_json(&said, &found))
        }
        ("interpreter", Some(ParsedCall::Code { code, .. })) => {
            let parameters = action.as_object().and_then(|action| action.get("parameters")?.as_object());
            // The protocol sends every piece of code to the tool with this name.
            let is_its = action.as_object().is_some_and(|action| text(action, "name") == "IPythonInterpreter");
            is_its && parameters.is_some_and(|parameters| text(parameters, "command") == code.trim())
        }
        ("", None) => expected.get("error").is_none(),
        _ => false,
    };
    same_call && text(expected, "language").trim() == read.before.trim()
}

/// Returns an excuse where the protocol's own code crashes, or mistakes other text for a call.
fn excuse(expected: &Object, output: &str, reading: &Reading) -> Option<&'static str> {
    let opens = |count: usize| output.matches("<|action_start|>").count() == count;
    if expected.get("error").is_some() {
        // Two calls, or a call without its opening marker.
        if opens(1) {
            return None;
        }
        return Some("the protocol crashes on two calls, and on a call without its opening marker");
    }
    match (text(expected, "name"), reading.calls.first()) {
        ("plugin", Some(ParsedCall::Code { .. })) => {
            Some("the protocol prefers a plugin's call over an earlier call of the interpreter")
        }
        ("plugin", None) if !reading.malformed.is_empty() => {
            Some("the protocol returns a plugin's text unparsed; ours is a call or text")
        }
        ("", None) if opens(1) && output.trim_end().ends_with("<|action_start|>") => {
            Some("the protocol drops an opening marker at the end of the text")
        }
        _ => None,
    }
}

/// Reports whether each call of an output is parsed correctly and in order: code as code, an object
/// with a name and parameters as a function; any other text after a plugin marker is reported and
/// not a call. The calls are taken from the output, not from the reading. In an output without
/// calls, everything is content.
fn is_read_by_the_book(output: &str, reading: &Reading) -> bool {
    const MARKS: [&str; 2] = ["<|plugin|>", "<|interpreter|>"];
    let mut calls = reading.calls.iter();
    let mut faults = 0;
    let mut rest = output;
    let next = |rest: &str| {
        let found = MARKS.iter().filter_map(|mark| Some((rest.find(mark)?, *mark)));
        found.min_by_key(|(at, _)| *at)
    };
    if next(rest).is_none() {
        return reading.calls.is_empty() && reading.content == output;
    }
    while let Some((at, mark)) = next(rest) {
        rest = &rest[at + mark.len()..];
        let length = rest.find("<|action_end|>").unwrap_or(rest.len());
        let said = rest[..length].trim();
        rest = &rest[length..];
        if mark == MARKS[1] {
            let same = |call: &ParsedCall| matches!(call, ParsedCall::Code { code, .. } if code.trim() == said);
            if !calls.next().is_some_and(same) {
                return false;
            }
            continue;
        }
        let object = json::parse(said).ok().and_then(|said| said.as_object().cloned());
        let call = object.filter(|object| !text(object, "name").is_empty() && object.get("parameters").is_some());
        let Some(call) = call else {
            faults += 1;
            continue;
        };
        let same = |read: &ParsedCall| match read {
            ParsedCall::Function { name, arguments, .. } => {
                let found = json::parse(arguments).unwrap_or(Json::Null);
                name == text(&call, "name") && call.get("parameters").is_some_and(|said| same_json(said, &found))
            }
            ParsedCall::Code { .. } => false,
        };
        if !calls.next().is_some_and(same) {
            return false;
        }
    }
    calls.next().is_none() && reading.malformed.len() >= faults
}
