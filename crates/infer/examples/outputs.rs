//! Parses recorded outputs with layouts inferred from chat templates:
//! `outputs FOLDER ROWS.jsonl [--why]`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::{env, fs, path::Path};

use rolecall_conversation::json::Object;
use rolecall_conversation::{Conversation, Json, Message, Tool, json, object};
use rolecall_format::Format;
use rolecall_infer::infer;
use rolecall_parse::{ParseOptions, ParsedCall, Reading, Reply, Stop, read};
use rolecall_render::{ChatTemplate, Options, RuleMode, Writer};

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [folder, rows, rest @ ..] = arguments.as_slice() else { return };
    let rows = fs::read_to_string(rows).unwrap_or_default();
    let mut known: BTreeMap<String, (Format, Arc<Reply>)> = BTreeMap::new();
    let (mut written, mut understood, mut count) = (0, 0, 0);
    for row in rows.lines().filter_map(|line| json::parse(line).ok()) {
        let Some(row) = row.as_object() else { continue };
        let text = |key: &str| row.get(key).and_then(Json::as_str).unwrap_or_default();
        let file = text("template").to_owned();
        let (format, reply) = known.entry(file.clone()).or_insert_with(|| {
            let tokens = ["bos_token", "eos_token"].map(|key| (key.to_owned(), text(key).to_owned()));
            let source = fs::read_to_string(Path::new(folder).join(&file)).unwrap_or_default();
            let format = match ChatTemplate::compile(&source, tokens.into()) {
                Ok(template) => infer(&template).format,
                Err(_) => Format::new("none"),
            };
            let reply = Arc::new(Reply::new(&format));
            (format, reply)
        });
        let options = row.get("options").and_then(Json::as_object).cloned().unwrap_or_default();
        let option = |key: &str| options.get(key).and_then(Json::as_str).unwrap_or_default();
        let expected = row.get("expected").and_then(Json::as_object).cloned().unwrap_or_default();
        let tools = row.get("tools").and_then(Json::as_array).unwrap_or_default();
        let tools: Vec<Tool> = tools.iter().filter_map(|tool| Tool::from_json(tool.clone()).ok()).collect();
        count += 1;
        let prompt = option("prompt");
        let parse = ParseOptions { tools, prompt_tail: prompt.to_owned(), ..ParseOptions::default() };
        let reading = read(reply, parse, option("output"), Stop::End);
        let wrong = misread(&reading, &expected);
        let whole = format!("{prompt}{}", option("output"));
        let wrote = rewrite(format, &expected);
        let is_written = wrote.as_ref().is_some_and(|wrote| whole.ends_with(wrote.as_str()));
        written += usize::from(is_written);
        understood += usize::from(wrong.is_none());
        if rest.iter().any(|option| option == "--why") {
            if let Some(wrong) = &wrong {
                println!("read  {} {wrong}\n      {:?}", text("id"), option("output"));
            }
            if !is_written {
                println!("write {} {:?}\n      {:?}", text("id"), wrote.unwrap_or_default(), option("output"));
            }
        }
    }
    println!("{count} rows: {written} written identically, {understood} parsed correctly");
}

fn rewrite(format: &Format, expected: &Object) -> Option<String> {
    let mut message = object! { "role" => "assistant" };
    for key in ["content", "reasoning_content"] {
        let value = expected.get(key).filter(|value| !value.is_null()).cloned().unwrap_or(Json::from(""));
        message.insert(key, value);
    }
    let calls = expected.get("tool_calls").and_then(Json::as_array).unwrap_or_default();
    let calls = calls.iter().enumerate().map(|(at, call)| {
        Json::Object(
            object! { "id" => format!("call_{}abc", at + 1), "type" => "function", "function" => call.clone() },
        )
    });
    let calls: Vec<Json> = calls.collect();
    if !calls.is_empty() {
        message.insert("tool_calls", Json::Array(calls));
    }
    let mut conversation = Conversation::new(vec![Message::from_object(message).ok()?]);
    conversation.add_generation_prompt = Some(false);
    let options = Options { rules: RuleMode::Reference, ..Options::default() };
    Writer::format(format.clone(), options.clone()).render(&conversation).ok().map(|prompt| prompt.into_text())
}

fn misread(reading: &Reading, expected: &Object) -> Option<String> {
    for (key, read) in [("content", Some(&reading.content)), ("reasoning_content", reading.reasoning.as_ref())] {
        let read = read.map(|read| read.trim()).unwrap_or_default();
        if let Some(said) = expected.get(key).and_then(Json::as_str)
            && said.trim() != read
        {
            return Some(format!("{key} is {read:?}"));
        }
    }
    let calls = expected.get("tool_calls").and_then(Json::as_array).unwrap_or_default();
    if calls.len() != reading.calls.len() {
        return Some(format!("{} calls", reading.calls.len()));
    }
    for (said, read) in calls.iter().filter_map(Json::as_object).zip(&reading.calls) {
        let ParsedCall::Function { name, arguments, .. } = read else { return Some("code".to_owned()) };
        let same = json::parse(arguments).is_ok_and(|read| said.get("arguments").is_some_and(|said| same(said, &read)));
        if said.get("name").and_then(Json::as_str) != Some(name) || !same {
            return Some(format!("a call is {name}({arguments})"));
        }
    }
    None
}

fn same(a: &Json, b: &Json) -> bool {
    match (a, b) {
        (Json::Object(a), Json::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, value)| b.get(key).is_some_and(|other| same(value, other)))
        }
        (Json::Array(a), Json::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Json::Number(a), Json::Number(b)) => a.as_f64() == b.as_f64(),
        _ => a == b,
    }
}
