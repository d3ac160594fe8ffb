//! Every real template with every conversation, beside what transformers gave for it.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

mod common;

use std::collections::BTreeMap;
use std::fs;

use common::{JsonInputs, shared};
use rolecall_conversation::json::{self, Json, Object};
use rolecall_jinja::{Context, DateTime, Environment, ErrorKind, Limits, Output, Template};

/// A conversation as the reference holds it.
struct Case {
    variables: Vec<(String, Json)>,
    is_continued: bool,
}

#[test]
fn every_template_renders_as_in_transformers() {
    let (Some(golden), Some(templates)) = (shared("golden/hf_jinja.jsonl"), shared("templates")) else { return };
    let index = json::parse(&fs::read_to_string(templates.join("index.json")).unwrap()).unwrap();
    let entries = index.as_object().unwrap().get("templates").and_then(Json::as_array).unwrap();
    let tokens: BTreeMap<&str, &Object> = entries
        .iter()
        .filter_map(Json::as_object)
        .map(|entry| (entry.get("file").and_then(Json::as_str).unwrap(), entry))
        .collect();
    let mut cases: BTreeMap<String, Case> = BTreeMap::new();
    let mut compiled: BTreeMap<String, Result<Template, rolecall_jinja::Error>> = BTreeMap::new();
    let now = DateTime { year: 2026, month: 11, day: 21, hour: 12, minute: 34, second: 56, microsecond: 0 };
    let environment = Environment { clock: Some(&now), ..Environment::default() };
    let (mut rows, mut skipped, mut same, mut refused, mut spans) = (0, 0, 0, 0, 0);
    let mut failures: Vec<String> = Vec::new();
    for line in fs::read_to_string(golden).unwrap().lines() {
        let row = json::parse(line).unwrap();
        let row = row.as_object().unwrap();
        let text = |key: &str| row.get(key).and_then(Json::as_str);
        match text("kind") {
            Some("case") => {
                cases.insert(text("id").unwrap().to_owned(), prepare(row));
                continue;
            }
            Some("golden") => {}
            _ => continue,
        }
        let (file, id) = (text("template").unwrap(), text("case").unwrap());
        let case = &cases[id];
        if case.is_continued {
            skipped += 1;
            continue;
        }
        rows += 1;
        let template = compiled.entry(file.to_owned()).or_insert_with(|| {
            Template::compile(&fs::read_to_string(templates.join(file)).unwrap(), &Limits::default())
        });
        let rendered = match template {
            Ok(template) => {
                let mut context = Context::reading(&JsonInputs);
                for (name, value) in &case.variables {
                    context.set(name, value);
                }
                for name in ["bos_token", "eos_token"] {
                    if let Some(token @ Json::String(_)) = tokens[file].get(name) {
                        context.set(name, token);
                    }
                }
                template.render(&context, &environment)
            }
            Err(error) => Err(error.clone()),
        };
        match (row.get("error").and_then(Json::as_object), rendered) {
            (None, Ok(output)) => {
                if let Some(difference) = difference(text("output").unwrap(), &output) {
                    failures.push(format!("{file} {id}: {difference}"));
                } else if let Some(wrong) = wrong_spans(row, &output) {
                    failures.push(format!("{file} {id}: {wrong}"));
                } else {
                    same += 1;
                    spans += usize::from(row.get("generation_spans").is_some());
                }
            }
            (Some(error), Err(found)) => {
                let class = error.get("class").and_then(Json::as_str).unwrap();
                let message = error.get("message").and_then(Json::as_str).unwrap();
                let expected = kind_of(class, message);
                let is_same =
                    found.kind() == expected && (expected != ErrorKind::Rejected || found.message() == message);
                if is_same {
                    refused += 1;
                } else {
                    failures.push(format!("{file} {id}: expected {class}: {message}; found {found}"));
                }
            }
            (None, Err(found)) => failures.push(format!("{file} {id}: expected a text; found {found}")),
            (Some(error), Ok(output)) => {
                failures.push(format!("{file} {id}: expected {error:?}; found {:?}", output.text()));
            }
        }
    }
    println!(
        "{rows} rows: {same} texts the same ({spans} with their generation spans), {refused} refused alike, {skipped} skipped (continue_final_message)"
    );
    for failure in failures.iter().take(60) {
        println!("{failure}");
    }
    assert!(failures.is_empty(), "{} of {rows} rows differ", failures.len());
}

/// The variables of a case, as transformers hands them to a template.
fn prepare(row: &Object) -> Case {
    let mut variables = Vec::new();
    let mut messages = row.get("messages").cloned().unwrap();
    if let Json::Array(messages) = &mut messages {
        for message in messages {
            let Json::Object(object) = message else { continue };
            let fields = ["reasoning_content", "thinking", "reasoning"];
            let reasoning =
                fields.iter().find_map(|key| object.get(key).filter(|value| **value != Json::Null)).cloned();
            if let Some(reasoning) = reasoning {
                let mut aliased = Object::new();
                aliased.insert("thinking", reasoning.clone());
                for (key, value) in object.iter() {
                    aliased.insert(key, value.clone());
                }
                aliased.insert("reasoning_content", reasoning);
                *object = aliased;
            }
        }
    }
    variables.push(("messages".to_owned(), messages));
    for key in ["tools", "documents", "add_generation_prompt"] {
        variables.push((key.to_owned(), row.get(key).cloned().unwrap_or(Json::Null)));
    }
    if let Some(kwargs) = row.get("kwargs").and_then(Json::as_object) {
        variables.extend(kwargs.iter().map(|(key, value)| (key.to_owned(), value.clone())));
    }
    let is_continued = row.get("continue_final_message") == Some(&Json::Bool(true));
    Case { variables, is_continued }
}

fn kind_of(class: &str, message: &str) -> ErrorKind {
    match class.rsplit('.').next().unwrap() {
        "TemplateError" => ErrorKind::Rejected,
        "UndefinedError" => ErrorKind::Undefined,
        "SecurityError" => ErrorKind::Security,
        "TemplateSyntaxError" | "TemplateAssertionError" => ErrorKind::Syntax,
        "TemplateRuntimeError" if message.starts_with("No ") => ErrorKind::Unsupported,
        "TypeError" | "TemplateRuntimeError" => ErrorKind::Type,
        _ => ErrorKind::Value,
    }
}

fn difference(expected: &str, output: &Output) -> Option<String> {
    let joined: String = output.pieces().map(|piece| piece.text).collect();
    assert_eq!(joined, output.text(), "pieces join to the text");
    if expected == output.text() {
        return None;
    }
    let common = expected.chars().zip(output.text().chars()).take_while(|(a, b)| a == b).count();
    let cut = |text: &str| text.chars().skip(common.saturating_sub(30)).take(90).collect::<String>();
    Some(format!("differs at character {common}: expected {:?}, found {:?}", cut(expected), cut(output.text())))
}

fn wrong_spans(row: &Object, output: &Output) -> Option<String> {
    let expected: Vec<(usize, usize)> = row
        .get("generation_spans")?
        .as_array()?
        .iter()
        .filter_map(Json::as_array)
        .map(|span| (usize_of(&span[0]), usize_of(&span[1])))
        .collect();
    let found: Vec<(usize, usize)> = output.generation_spans().iter().map(|span| (span.start, span.end)).collect();
    (expected != found).then(|| format!("generation spans: expected {expected:?}, found {found:?}"))
}

fn usize_of(value: &Json) -> usize {
    match value {
        Json::Number(number) => number.spelling().parse().unwrap(),
        other => panic!("expected a number, found {other:?}"),
    }
}
