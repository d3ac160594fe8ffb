//! Model output, parsed with layouts that are inferred from the model's template alone: whole,
//! character by character, and in random chunks.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use rolecall::Reading;
use rolecall::conversation::json::{Layout, Object};
use rolecall::conversation::{Conversation, Json, REASONING, Tool, json, object};
use rolecall::infer::infer;
use rolecall::parse::{ParseOptions, ParsedCall, Reply};
use rolecall::render::Writer;
use rolecall::roundtrip::same_json;
use rolecall::template::{ChatTemplate, DateTime, TemplateOptions};

use super::reading::read_by;
use super::text;
use crate::Verdict;

const ALIKE: &str =
    "the template writes the expected and the parsed message with the same bytes, so no parser can tell them apart";

/// The inferred replies by the template's file and special tokens, or the reason why there is none.
#[derive(Default)]
pub(super) struct Replies(HashMap<(String, String, String), Result<Arc<Known>, String>>);

/// A template and the inferred reply.
struct Known {
    template: ChatTemplate,
    reply: Arc<Reply>,
}

impl Replies {
    fn of(&mut self, row: &Object, folder: &Path) -> Result<Arc<Known>, String> {
        let [file, bos, eos] = ["template", "bos_token", "eos_token"].map(|key| text(row, key).to_owned());
        let read = || {
            let source = fs::read_to_string(folder.join(&file)).map_err(|error| error.to_string())?;
            let tokens = [("bos_token", &bos), ("eos_token", &eos)].map(|(name, text)| (name.to_owned(), text.clone()));
            let template = ChatTemplate::compile(&source, tokens.to_vec()).map_err(|error| error.to_string())?;
            let reply = Arc::new(Reply::new(&infer(&template).format));
            Ok(Arc::new(Known { template, reply }))
        };
        self.0.entry((file.clone(), bos.clone(), eos.clone())).or_insert_with(read).clone()
    }
}

pub(super) fn run(row: &Object, replies: &mut Replies, folder: Option<&Path>) -> Verdict {
    let Some(folder) = folder else { return Verdict::cannot_run("no folder of templates (--templates)") };
    let known = match replies.of(row, folder) {
        Ok(known) => known,
        Err(why) => return Verdict::Failed { expected: "a template".into(), found: why },
    };
    let Some(Json::Object(expected)) = row.get("expected") else {
        return Verdict::cannot_run("the row has no `expected` object");
    };
    let asked = row.get("options").and_then(Json::as_object).cloned().unwrap_or_default();
    let tools = row.get("tools").and_then(Json::as_array).unwrap_or_default();
    let options = ParseOptions {
        tools: tools.iter().filter_map(|tool| Tool::from_json(tool.clone()).ok()).collect(),
        prompt_tail: text(&asked, "prompt").to_owned(),
        ..ParseOptions::default()
    };
    let alike = |found: &Object| are_written_alike(&known.template, row, expected, found);
    judge(&known.reply, &options, text(&asked, "output"), expected, alike)
}

/// Checks that an output is parsed as the expected message, and equally however it is split.
/// `alike` reports whether the template writes another message exactly as the expected one.
fn judge(
    reply: &Arc<Reply>,
    options: &ParseOptions,
    output: &str,
    expected: &Object,
    alike: impl Fn(&Object) -> bool,
) -> Verdict {
    let read = match read_by(reply, options, output) {
        Ok(read) => read,
        Err(verdict) => return verdict,
    };
    let found = of_reading(&read.reading);
    let misread = |expected: String, found: String| Verdict::Misread { expected, found, output: output.to_owned() };
    if !means(expected, &found) {
        if has_the_calls(expected, &found) && alike(&found) {
            return Verdict::Excused(ALIKE);
        }
        let facts = object! { "message" => found, "events" => read.transcript.to_string() };
        return misread(written(&Json::Object(expected.clone())), written(&Json::Object(facts)));
    }
    match read.reading.malformed.is_empty() {
        true => Verdict::Passed,
        false => misread("no malformed spans".into(), read.transcript.to_string()),
    }
}

/// Reports whether the parsed calls are all the expected ones, so that only content and reasoning
/// differ. A parser that leaves a call in the content renders to the same bytes and must not be
/// excused for it.
fn has_the_calls(expected: &Object, found: &Object) -> bool {
    let calls = |message: &Object| message.get("tool_calls").filter(|calls| !calls.is_null()).cloned();
    let none = Json::Array(Vec::new());
    same_json(&calls(expected).unwrap_or_else(|| none.clone()), &calls(found).unwrap_or(none))
}

/// Reports whether the template writes two messages after a row's conversation as the same text,
/// which proves that no parser can tell them apart.
fn are_written_alike(template: &ChatTemplate, row: &Object, one: &Object, other: &Object) -> bool {
    let written = |message: &Object| {
        let mut messages = row.get("conversation").and_then(Json::as_array).unwrap_or_default().to_vec();
        messages.push(Json::Object(as_message(message)));
        let tools = row.get("tools").cloned().unwrap_or(Json::Null);
        let request = object! { "messages" => messages, "tools" => tools, "add_generation_prompt" => false };
        let conversation = Conversation::from_json(request.into()).ok()?;
        let options = TemplateOptions { now: DateTime::from_unix(0), ..TemplateOptions::default() };
        Some(Writer::template(template.clone(), options.clone()).render(&conversation).ok()?.text().to_owned())
    };
    let one = written(one);
    one.is_some() && one == written(other)
}

/// Returns a vector's message as templates take it. Templates have several names for reasoning.
fn as_message(vector: &Object) -> Object {
    let mut message = object! { "role" => "assistant", "content" => text(vector, "content") };
    let reasoning = text(vector, "reasoning_content");
    if !reasoning.is_empty() {
        for name in REASONING {
            message.insert(name, Json::from(reasoning));
        }
    }
    let calls = vector.get("tool_calls").and_then(Json::as_array).unwrap_or_default();
    if !calls.is_empty() {
        let call = |function: &Json| Json::Object(object! { "type" => "function", "function" => function.clone() });
        message.insert("tool_calls", Json::Array(calls.iter().map(call).collect()));
    }
    message
}

/// Returns the message in the shape of the vectors.
fn of_reading(reading: &Reading) -> Object {
    let call = |call: &ParsedCall| match call {
        ParsedCall::Function { name, arguments, .. } => {
            // Arguments that are not JSON equal nothing.
            let arguments = json::parse(arguments).unwrap_or_else(|_| Json::from(format!("not JSON: {arguments}")));
            Json::Object(object! { "name" => name.as_str(), "arguments" => arguments })
        }
        ParsedCall::Code { code, .. } => Json::Object(object! { "code" => code.as_str() }),
    };
    object! {
        "content" => reading.content.as_str(),
        "reasoning_content" => reading.reasoning.clone().unwrap_or_default(),
        "tool_calls" => Json::Array(reading.calls.iter().map(call).collect()),
    }
}

/// Reports whether a message equals a vector's. White space at the ends of texts does not count,
/// and null matches everything.
fn means(expected: &Object, found: &Object) -> bool {
    let strip = |value: &Json| {
        value.as_str().map(|text| text.trim_matches(rolecall::format::codec::is_python_space).to_owned())
    };
    expected.iter().filter(|(_, wanted)| !wanted.is_null()).all(|(key, wanted)| {
        let found = found.get(key).unwrap_or(&Json::Null);
        match wanted {
            Json::String(_) => strip(wanted) == strip(found),
            wanted => same_json(wanted, found),
        }
    })
}

fn written(json: &Json) -> String {
    json::write(json, &Layout::default())
}

#[cfg(test)]
mod tests {
    use super::{has_the_calls, means};
    use rolecall::conversation::{Json, json};

    fn of(text: &str) -> Json {
        json::parse(text).unwrap()
    }

    #[test]
    fn white_space_at_the_ends_of_texts_and_null_do_not_count() {
        let found = of(r#"{"content": "\n a \n", "reasoning_content": "r", "tool_calls": []}"#);
        let found = found.as_object().unwrap();
        let means = |expected: &str| means(of(expected).as_object().unwrap(), found);
        assert!(means(r#"{"content": "a", "reasoning_content": null, "tool_calls": []}"#));
        assert!(!means(r#"{"content": "a", "reasoning_content": "", "tool_calls": []}"#));
        assert!(!means(r#"{"content": "b"}"#));
        assert!(!means(r#"{"tool_calls": [{"name": "f", "arguments": {}}]}"#));
    }

    #[test]
    fn only_a_reading_with_all_calls_can_be_excused() {
        let message = |text: &str| of(text).as_object().unwrap().clone();
        let called = message(r#"{"content": "a", "tool_calls": [{"name": "f", "arguments": {"x": 1}}]}"#);
        let has = |found: &str| has_the_calls(&called, &message(found));
        assert!(has(r#"{"reasoning_content": "a", "tool_calls": [{"name": "f", "arguments": {"x": 1}}]}"#));
        // Everything left in the content, an argument with another value, a second call.
        assert!(!has(r#"{"content": "a<call>f</call>", "tool_calls": []}"#));
        assert!(!has(r#"{"content": "a", "tool_calls": [{"name": "f", "arguments": {"x": 2}}]}"#));
        assert!(!has(
            r#"{"content": "a", "tool_calls": [{"name": "f", "arguments": {"x": 1}}, {"name": "f", "arguments": {}}]}"#
        ));
        assert!(has_the_calls(&message(r#"{"tool_calls": null}"#), &message(r#"{"tool_calls": []}"#)));
    }
}
