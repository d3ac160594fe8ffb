//! Laws of replies to prompts that open reasoning, over all templates and the values of their switches
//! for reasoning.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::fs;
use std::path::PathBuf;

use rolecall::conversation::json;
use rolecall::model::{ReplyContext, Settings};
use rolecall::parse::{OutputParser, ParseOptions, ParsedCall, UnclosedReasoning, Within};
use rolecall::template::{Forms, ModelTemplates};
use rolecall::{Model, Reading, Request, Stop};

const TOOLS: &str = r#"[{"type": "function", "function": {"name": "get_weather", "description": "It.", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}]"#;
const CALL: &str = r#"{"role": "assistant", "content": "", "reasoning_content": "Mull.", "tool_calls": [{"id": "abcDEF123", "type": "function", "function": {"name": "get_weather", "arguments": {"city": "Oslo"}}}]}"#;

/// The settings of switches to try.
const SWITCHES: [&str; 5] = [
    "{}",
    r#"{"enable_thinking": true}"#,
    r#"{"enable_thinking": false}"#,
    r#"{"thinking": true}"#,
    r#"{"thinking": false}"#,
];

/// A template that drops reasoning from answers and always closes it in them.
const SILENT: &str = "{% for m in messages %}{% if m.role == 'user' %}{{ '<｜User｜>' + m.content }}{% elif m.tool_calls %}\
{{ '<｜Assistant｜></think>' + (m.content or '') + '<｜calls▁begin｜>' }}{% for call in m.tool_calls %}\
{{ '<｜call▁begin｜>' + call.function.name + '<｜sep｜>' + call.function.arguments + '<｜call▁end｜>' }}{% endfor %}\
{{ '<｜calls▁end｜><｜end｜>' }}{% else %}{% set said = m.content %}{% if '</think>' in said %}\
{% set said = said.split('</think>', 1)[1] %}{% endif %}{{ '<｜Assistant｜></think>' + said + '<｜end｜>' }}{% endif %}\
{% endfor %}{% if add_generation_prompt %}{{ '<｜Assistant｜>' }}{{ '<think>' if thinking else '</think>' }}{% endif %}";

/// A template with the values of its switches.
struct Subject {
    label: String,
    model: Model,
    switches: &'static str,
}

impl Subject {
    fn request(&self, messages: &str) -> Request {
        let switches = self.switches;
        Request::from_text(&format!(
            r#"{{"messages": [{{"role": "user", "content": "Ask."}}{messages}], "tools": {TOOLS}, "chat_template_kwargs": {switches}}}"#
        ))
        .unwrap()
    }

    fn context(&self, options: ParseOptions) -> Option<ReplyContext> {
        self.model.reply_context(self.request(""), options).ok()
    }

    /// Returns the text of a call after the marker that closes the reasoning, if the template writes
    /// calls there and they are parsed.
    fn call(&self, close: &str) -> Option<String> {
        let mut request = self.request(&format!(", {CALL}"));
        request.conversation.add_generation_prompt = Some(false);
        let prompt = self.model.prompt(request).ok()?;
        let text = prompt.text();
        let at = text.rfind(close)? + close.len();
        text[at..].contains("get_weather").then(|| text[at..].to_owned())
    }
}

/// Returns every template whose replies have reasoning, with each setting of its switches.
fn subjects() -> Option<Vec<Subject>> {
    let folder = rolecall_testkit::shared()?.join("templates");
    let mut paths: Vec<PathBuf> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "jinja"));
    paths.sort();
    let mut subjects = subjects_of("(reasoning that is never written)", SILENT);
    for path in paths {
        let label = path.file_name().unwrap().to_string_lossy();
        subjects.extend(subjects_of(&label, &fs::read_to_string(&path).unwrap()));
    }
    Some(subjects)
}

fn subjects_of(label: &str, source: &str) -> Vec<Subject> {
    let templates = ModelTemplates::from_json(&source.into()).unwrap();
    let builder = Model::builder().templates(templates).bos_tokens(["<s>".to_owned()]).eos_token("</s>");
    let Ok(model) = builder.open() else { return Vec::new() };
    let model = model.with_settings(Settings { forms: Forms::AsWanted, ..model.settings().clone() });
    let reads = |switches: &str| match switches {
        "{}" => true,
        switches => switches.split('"').nth(1).is_some_and(|name| source.contains(name)),
    };
    let settings = SWITCHES.into_iter().filter(|switches| reads(switches));
    let subjects =
        settings.map(|switches| Subject { label: format!("{label} {switches}"), model: model.clone(), switches });
    subjects.collect()
}

fn read(context: &ReplyContext, output: &str, stop: Stop) -> Reading {
    let mut reading = Reading::default();
    let mut parser: OutputParser = context.text_parser();
    parser.push_text(output, &mut |event| reading.add(&event));
    parser.finish(stop, &mut |event| reading.add(&event));
    reading
}

fn codes(reading: &Reading) -> Vec<&'static str> {
    reading.malformed.iter().map(|malformed| malformed.why.code()).collect()
}

#[test]
fn a_reply_has_no_text_of_its_prompt() {
    let Some(subjects) = subjects() else { return rolecall_testkit::say_skipped("no template was tried") };
    for subject in subjects {
        let Some(context) = subject.context(ParseOptions::default()) else { continue };
        for stop in [Stop::End, Stop::Length] {
            let reading = read(&context, "Paris.", stop);
            let said = reading.reasoning.unwrap_or_default() + &reading.content;
            assert_eq!(said, "Paris.", "{}", subject.label);
        }
    }
}

#[test]
fn one_rule_reads_what_follows_reasoning_that_the_prompt_opened() {
    let Some(subjects) = subjects() else { return rolecall_testkit::say_skipped("no reasoning is opened") };
    let (mut opened, mut calling) = (0, 0);
    let mut wrong = Vec::new();
    for subject in &subjects {
        let Some(context) = subject.context(ParseOptions::default()) else { continue };
        let Some((open, close)) = context.around_reasoning() else { continue };
        if context.text_parser().within() != Within::Reasoning || close.is_empty() {
            continue;
        }
        opened += 1;
        let mut check = |what: &str, is_right: bool, reading: &Reading| {
            if !is_right {
                wrong.push(format!("{}: {what}: {reading:?}", subject.label));
            }
        };
        let reasoning = |reading: &Reading| reading.reasoning.clone().unwrap_or_default().trim().to_owned();
        let reading = read(&context, &format!("Mull.{close}\n\nYes."), Stop::End);
        check("closed", reasoning(&reading) == "Mull." && reading.content.trim() == "Yes.", &reading);
        let reading = read(&context, "Paris.", Stop::End);
        let is_right = reasoning(&reading) == "Paris." && codes(&reading) == ["unclosed_reasoning"];
        check("never closed", is_right && reading.content.is_empty(), &reading);
        let reading = read(&context, "Paris.", Stop::Length);
        check("cut off", reasoning(&reading) == "Paris." && codes(&reading).is_empty(), &reading);
        let reading = read(&context, &format!("{open}\nMull.{close}\n\nYes."), Stop::End);
        check("opened again", reasoning(&reading) == "Mull." && reading.content.trim() == "Yes.", &reading);
        if let Some(call) = subject.call(close) {
            calling += 1;
            for (what, output, thought) in [
                ("a call straight away", call.clone(), ""),
                ("a call inside", format!("Mull.{call}"), "Mull."),
                ("a call after a marker", format!("{open}{call}"), ""),
            ] {
                let reading = read(&context, &output, Stop::End);
                let is_right = match reading.calls.as_slice() {
                    [ParsedCall::Function { name, arguments, whole, .. }] => {
                        let city =
                            json::parse(arguments).ok().and_then(|value| value.as_object()?.get("city").cloned());
                        name == "get_weather" && *whole && city.is_some_and(|city| city.as_str() == Some("Oslo"))
                    }
                    _ => false,
                };
                check(what, is_right && reasoning(&reading) == thought && reading.content.trim().is_empty(), &reading);
            }
        }
        let options = ParseOptions { unclosed_reasoning: Some(UnclosedReasoning::Content), ..ParseOptions::default() };
        let context = subject.context(options).unwrap();
        let reading = read(&context, "Paris.", Stop::End);
        let is_right = reading.reasoning.is_none() && reading.content == "Paris.";
        check("never closed, as content", is_right && codes(&reading) == ["unclosed_reasoning"], &reading);
        let reading = read(&context, &format!("Mull.{close}\n\nYes."), Stop::End);
        check("closed, as content", reasoning(&reading) == "Mull." && reading.content.trim() == "Yes.", &reading);
    }
    assert!(wrong.is_empty(), "{} of {opened}, {calling} with calls:\n{}", wrong.len(), wrong.join("\n"));
    assert!(opened > 40 && calling > 15, "{opened}, {calling} with calls");
}

#[test]
fn a_split_is_over_after_the_reasoning_whatever_the_switches() {
    let Some(subjects) = subjects() else { return rolecall_testkit::say_skipped("no reasoning is split off") };
    let mut tried = 0;
    let mut wrong = Vec::new();
    for subject in &subjects {
        let Some(context) = subject.context(ParseOptions::default()) else { continue };
        let Some((open, close)) =
            context.around_reasoning().filter(|(open, close)| !open.is_empty() && !close.is_empty())
        else {
            continue;
        };
        let mut split = context.reasoning_split();
        let is_open = context.text_parser().within() == Within::Reasoning;
        if split.is_over() {
            continue;
        }
        tried += 1;
        let output = if is_open { format!("Mull.{close}\n\nYes.") } else { format!("{open}{close}\n\nYes.") };
        split.push(&output, &mut |_| {});
        if !split.is_over() {
            wrong.push(format!("{}: {output:?}", subject.label));
        }
    }
    assert!(wrong.is_empty(), "of {tried}:\n{}", wrong.join("\n"));
    assert!(tried > 40, "{tried}");
}
