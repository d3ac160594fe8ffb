//! Peers' own tests for parsing model output. A row is rendered and parsed as by a user of the
//! library: with the model's template, the layouts inferred from it and the known corrections.
//!
//! A row's verdict (the first line of the file explains them) decides how much of the peer's
//! reading must match ours. For a quirk of the peer, and for output that the template does not
//! describe, only the laws that hold for every output are checked.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use rolecall::conversation::json::{Layout, Object};
use rolecall::conversation::{Json, json, object};
use rolecall::format::Format;
use rolecall::parse::{ParseOptions, ParsedCall};
use rolecall::roundtrip::same_json;
use rolecall::{Model, Reading, Request};

use super::hf_jinja::read_index;
use super::kept_words::lost_words;
use super::reading::{read_by, read_on};
use super::text;
use crate::Verdict;

const QUIRK: &str =
    "a policy or quirk of the peer; every split gives the same events, and no word of the output is lost";
const OTHER_MARKS: &str = "the template does not describe what the test's model writes; every split gives the same events, and no word of the output is lost";
const KEPT: &str = "the peer drops text that is no marker, or joins texts with white space; ours has its text, the same calls and the dropped text";
const REOPENED: &str =
    "the model repeats the marker with which the prompt opened reasoning; the peer keeps it as reasoning";
const NOT_INFERRED: &str = "the layout inferred from the template is not enough yet";
const NO_PROMPT: &str =
    "the template refuses every conversation, as the reference does, so there is no prompt and no layout";

/// The models by template, each opened once.
#[derive(Default)]
pub(super) struct Models {
    opened: HashMap<String, Result<Model, String>>,
    /// The special tokens by template.
    tokens: Option<HashMap<String, Vec<(String, String)>>>,
}

impl Models {
    /// Returns the model of a row's template. The row's special tokens take precedence over those
    /// of the folder's index.
    fn of(&mut self, row: &Object, folder: &Path) -> Result<Model, String> {
        let file = text(row, "template");
        let known = self.tokens.get_or_insert_with(|| read_index(folder)).get(file);
        let token = |name: &str| match text(row, name) {
            "" => known?.iter().find(|(of, _)| of == name).map(|(_, token)| token.clone()),
            token => Some(token.to_owned()),
        };
        let (bos, eos) = (token("bos_token"), token("eos_token"));
        let open = || {
            let builder = Model::builder().template(folder.join(file)).bos_tokens(bos.clone());
            let builder = match &eos {
                Some(eos) => builder.eos_token(eos),
                None => builder,
            };
            builder.open().map_err(|error| error.to_string())
        };
        self.opened.entry(format!("{file} {bos:?} {eos:?}")).or_insert_with(open).clone()
    }
}

/// The end of a row's prompt.
struct Tail {
    text: String,
    /// The texts of the message that the output continues.
    content: String,
    reasoning: String,
}

pub(super) fn run(row: &Object, models: &mut Models, folder: Option<&Path>) -> Verdict {
    let Some(folder) = folder else { return Verdict::cannot_run("no folder of templates (--templates)") };
    let Some(Json::Object(expected)) = row.get("expected") else {
        return Verdict::cannot_run("the row has no `expected` object");
    };
    let model = match models.of(row, folder) {
        Ok(model) => model,
        Err(why) => return Verdict::Failed { expected: "a model".into(), found: why },
    };
    let kind = text(row, "verdict");
    let prompt = match Request::from_json(request(row).into()).map_err(rolecall::Error::from) {
        Ok(request) => model.prompt(request),
        Err(error) => Err(error),
    };
    let prompt = match prompt {
        Ok(prompt) => prompt,
        Err(_) if kind == "C" => return Verdict::Excused(NO_PROMPT),
        Err(error) => return Verdict::Failed { expected: "a prompt".into(), found: error.to_string() },
    };
    let context = prompt.reply();
    let (reply, layouts) = match context.and_then(|context| Ok((Arc::clone(context.reply()), context.layouts()?))) {
        Ok(both) => both,
        Err(_) if kind == "C" => return Verdict::Excused(NO_PROMPT),
        Err(error) => return Verdict::Failed { expected: "layouts".into(), found: error.to_string() },
    };
    let tail = tail_of(row, prompt.text());
    let options = ParseOptions { tools: prompt.tools(), prompt_tail: tail.text.clone(), ..ParseOptions::default() };
    let output = text(row, "output");
    let read = match read_by(&reply, &options, output) {
        Ok(read) => read,
        Err(verdict) => return verdict,
    };
    let found = message_of(&read_on(output, &read.reading), &tail);
    let misread = |expected: String| Verdict::Misread {
        expected,
        found: written(&object! { "message" => found.clone(), "events" => read.transcript.to_string() }),
        output: output.to_owned(),
    };
    let lost = lost_words(output, &read.reading, &layouts);
    if !lost.is_empty() {
        return misread(format!("these words somewhere: {lost:?}"));
    }
    let mut expected = expected.clone();
    // The reasoning before continued content belongs to the conversation, not to the reply. Whether
    // the peer repeats it depends on its own knowledge of the model.
    if continuation(row) == "content" && read.reading.reasoning.is_none() {
        expected.insert("reasoning_content", Json::Null);
    }
    match (means(&expected, &found, kind == "ok"), kind) {
        (true, _) => Verdict::Passed,
        (false, "B") => Verdict::Excused(QUIRK),
        (false, "C") => Verdict::Excused(OTHER_MARKS),
        (false, "A") if keeps_more(&expected, &found, &control_marks(&layouts)) => Verdict::Excused(KEPT),
        (false, "D") => Verdict::Pending(NOT_INFERRED),
        (false, _) if means(&without_repeated(&expected, output, &tail), &found, false) => Verdict::Excused(REOPENED),
        (false, _) => misread(written(&expected)),
    }
}

/// Returns the expected message without the marker of reasoning that both the prompt ends with and the output begins
/// with.
fn without_repeated(expected: &Object, output: &str, tail: &Tail) -> Object {
    let reasoning = text(expected, "reasoning_content").trim_start();
    let marker = reasoning.split_whitespace().next().unwrap_or_default();
    let mut expected = expected.clone();
    if !marker.is_empty() && tail.text.trim_end().ends_with(marker) && output.trim_start().starts_with(marker) {
        let rest = reasoning[marker.len()..].to_owned();
        expected.insert("reasoning_content", rest.into());
    }
    expected
}

/// Returns a request for a row: its conversation, or a question, with its tools and switches.
fn request(row: &Object) -> Object {
    let question = || Json::Array(vec![Json::Object(object! { "role" => "user", "content" => "hi" })]);
    let conversation = row.get("conversation").filter(|messages| !messages.is_null()).cloned();
    let mut request = object! { "messages" => conversation.unwrap_or_else(question) };
    let tools = row.get("tools").and_then(Json::as_array).filter(|tools| !tools.is_empty());
    if let Some(tools) = tools {
        request.insert("tools", Json::Array(tools.to_vec()));
    }
    if let Some(Json::Object(options)) = row.get("options") {
        request.insert("chat_template_kwargs", Json::Object(options.clone()));
    }
    match continuation(row) {
        "content" => request.insert("continue_final_message", Json::Bool(true)),
        // The prompt is cut after the reasoning.
        "reasoning" => request.insert("add_generation_prompt", Json::Bool(false)),
        _ => request.insert("add_generation_prompt", Json::Bool(true)),
    }
    request
}

/// Returns the text of the last message that the output continues: `content`, `reasoning` or
/// `none`.
fn continuation(row: &Object) -> &str {
    row.get("setting").and_then(Json::as_object).map_or("", |setting| text(setting, "continuation"))
}

fn tail_of(row: &Object, prompt: &str) -> Tail {
    let last = row.get("conversation").and_then(Json::as_array).and_then(<[Json]>::last).and_then(Json::as_object);
    let part = |key| last.map(|last| text(last, key)).unwrap_or_default();
    let (content, reasoning) = (part("content"), part("reasoning_content"));
    let mut tail = Tail { text: prompt.to_owned(), content: String::new(), reasoning: String::new() };
    let reasoned = prompt.rfind(reasoning).filter(|_| !reasoning.is_empty()).map(|at| at + reasoning.len());
    match continuation(row) {
        "content" => content.clone_into(&mut tail.content),
        "reasoning" => tail.text.truncate(reasoned.unwrap_or(prompt.len())),
        _ => return tail,
    }
    reasoning.clone_into(&mut tail.reasoning);
    tail
}

/// Returns the message in the shape of the rows.
fn message_of(reading: &Reading, tail: &Tail) -> Object {
    let call = |call: &ParsedCall| match call {
        ParsedCall::Function { name, arguments, .. } => {
            Json::Object(object! { "name" => name.as_str(), "arguments" => arguments.as_str() })
        }
        ParsedCall::Code { code, .. } => Json::Object(object! { "code" => code.as_str() }),
    };
    object! {
        "content" => format!("{}{}", tail.content, reading.content),
        "reasoning_content" => format!("{}{}", tail.reasoning, reading.reasoning.as_deref().unwrap_or_default()),
        "tool_calls" => Json::Array(reading.calls.iter().map(call).collect()),
    }
}

/// Reports whether a message is the expected one. `"ANY"` and null match everything. White space at
/// the ends of texts counts only if `to_the_byte`.
fn means(expected: &Object, found: &Object, to_the_byte: bool) -> bool {
    let strip = |text: &str| match to_the_byte {
        true => text.to_owned(),
        false => text.trim_matches(rolecall::format::codec::is_python_space).to_owned(),
    };
    expected.iter().all(|(key, wanted)| match (wanted, found.get(key)) {
        (Json::Null, _) => true,
        (wanted, _) if wanted.as_str() == Some("ANY") => true,
        (Json::String(wanted), Some(Json::String(found))) => strip(wanted) == strip(found),
        (Json::Array(wanted), Some(Json::Array(found))) => {
            wanted.len() == found.len() && wanted.iter().zip(found).all(|(wanted, found)| is_same_call(wanted, found))
        }
        _ => false,
    })
}

/// Reports whether a message has the expected calls, and whether its texts are the expected ones
/// with more text inserted that contains no marker.
fn keeps_more(expected: &Object, found: &Object, marks: &[String]) -> bool {
    let has_calls = object! { "tool_calls" => expected.get("tool_calls").cloned().unwrap_or(Json::Null) };
    let has_text = |key: &str| {
        let (wanted, found) = (text(expected, key), text(found, key));
        let mut rest = found.chars();
        let is_there = wanted.chars().filter(|c| !c.is_whitespace()).all(|wanted| rest.any(|found| found == wanted));
        wanted == "ANY" || (is_there && marks.iter().all(|mark| wanted.contains(mark) || !found.contains(mark)))
    };
    means(&has_calls, found, true) && has_text("content") && has_text("reasoning_content")
}

/// Returns the control tokens of a format's layouts, and the markers that look like control tokens.
fn control_marks(format: &Format) -> Vec<String> {
    let stops = format.stops().into_iter().map(str::to_owned);
    stops.chain(format.controls.iter().map(|control| control.text.clone())).chain(format.plain_marks.clone()).collect()
}

/// Compares names, and arguments as values. Arguments that are not JSON are compared as text.
fn is_same_call(wanted: &Json, found: &Json) -> bool {
    let (Some(wanted), Some(found)) = (wanted.as_object(), found.as_object()) else { return false };
    let [wanted_arguments, found_arguments] = [wanted, found].map(|call| text(call, "arguments"));
    let is_same = match (json::parse(wanted_arguments), json::parse(found_arguments)) {
        (Ok(wanted), Ok(found)) => same_json(&wanted, &found),
        _ => wanted_arguments == found_arguments,
    };
    is_same && text(wanted, "name") == text(found, "name")
}

fn written(object: &Object) -> String {
    json::write(&Json::Object(object.clone()), &Layout::default())
}

#[cfg(test)]
mod tests {
    use super::means;
    use rolecall::conversation::json;

    #[test]
    fn any_and_null_match_everything_and_arguments_are_values() {
        let parse = |text: &str| json::parse(text).unwrap().as_object().unwrap().clone();
        let found = parse(r#"{"content": "a ", "tool_calls": [{"name": "f", "arguments": "{\"x\": 1}"}]}"#);
        let means = |expected: &str, exactly| means(&parse(expected), &found, exactly);
        assert!(means(r#"{"content": "ANY", "tool_calls": null}"#, true));
        assert!(means(r#"{"tool_calls": [{"name": "f", "arguments": "{ \"x\":1 }"}]}"#, true));
        assert!(means(r#"{"content": "a"}"#, false));
        for wrong in [
            r#"{"content": "a"}"#,
            r#"{"tool_calls": []}"#,
            r#"{"tool_calls": [{"name": "g", "arguments": "{\"x\": 1}"}]}"#,
            r#"{"tool_calls": [{"name": "f", "arguments": "{\"x\": "}]}"#,
            r#"{"tool_calls": "ANY", "other": "a"}"#,
        ] {
            assert!(!means(wrong, true), "{wrong}");
        }
    }
}
