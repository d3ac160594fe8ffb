//! Renders every real template with every conversation and compares the results with those of
//! transformers.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::collections::BTreeMap;
use std::fs;

use crate::common::{JsonInputs, reference};
use rolecall_conversation::json::{self, Json, Object};
use rolecall_jinja::{Context, DateTime, Environment, ErrorKind, Limits, Origin, Output, Tag, Template};

/// A conversation in the reference file.
struct Case {
    variables: Vec<(String, Json)>,
    is_continued: bool,
}

#[test]
fn every_template_renders_as_in_transformers() {
    let what = "no template was rendered with the engine alone";
    let (Some(golden), Some(templates)) = (reference("golden/hf_jinja.jsonl", what), reference("templates", what))
    else {
        return;
    };
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
        "{rows} rows: {same} texts identical ({spans} with their generation spans), {refused} failed alike, {skipped} skipped (continue_final_message)"
    );
    for failure in failures.iter().take(60) {
        println!("{failure}");
    }
    assert!(failures.is_empty(), "{} of {rows} rows differ", failures.len());
    assert!(same > refused && spans > 0, "expected most rows to be texts, and some to have generation spans");
    assert!(rows > 20 * skipped, "{skipped} of {rows} rows skipped");
}

/// Renders all templates with all conversations, where each text contains a unique marker. Checks
/// that each piece attributed to an input or literal is a part of it, and that each marker appears
/// only in pieces of its own input.
#[test]
fn every_piece_is_what_it_says() {
    let what = "no piece of a real template's output was checked";
    let (Some(golden), Some(folder)) = (reference("golden/hf_jinja.jsonl", what), reference("templates", what)) else {
        return;
    };
    let mut cases = Vec::new();
    for line in fs::read_to_string(golden).unwrap().lines() {
        let row = json::parse(line).unwrap();
        let row = row.as_object().unwrap();
        if row.get("kind").and_then(Json::as_str) == Some("case") {
            let mut variables = prepare(row).variables;
            let mut count = 0;
            variables.iter_mut().for_each(|(_, value)| mark_texts(value, "", &mut count));
            cases.push(variables);
        }
    }
    let now = DateTime { year: 2026, month: 11, day: 21, hour: 12, minute: 34, second: 56, microsecond: 0 };
    let environment = Environment { clock: Some(&now), ..Environment::default() };
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().filter_map(Result::ok).map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "jinja"));
    let (mut pieces, mut marks) = (0, 0);
    for path in &paths {
        let Ok(template) = Template::compile(&fs::read_to_string(path).unwrap(), &Limits::default()) else { continue };
        for variables in &cases {
            let mut context = Context::reading(&JsonInputs);
            for (name, value) in variables {
                context.set(name, value);
            }
            let Ok(output) = template.render(&context, &environment) else { continue };
            let mut texts = BTreeMap::new();
            variables.iter().for_each(|(_, value)| texts_of(value, &mut texts));
            for piece in output.pieces() {
                pieces += 1;
                let (whole, offset) = match piece.origin {
                    Origin::Input { tag, offset } => (texts.get(&tag).copied(), offset),
                    Origin::Literal { id, offset } => (output.literal(id).map(|literal| literal.text), offset),
                    Origin::Engine => continue,
                };
                let whole = whole.unwrap_or_else(|| panic!("{path:?}: {piece:?} has an unknown origin"));
                if let Some(start) = offset.get() {
                    assert_eq!(whole.get(start..start + piece.text.len()), Some(piece.text), "{path:?}: {piece:?}");
                }
            }
            for (tag, text) in &texts {
                let Some(mark) = mark_in(text) else { continue };
                for (start, _) in output.text().match_indices(mark) {
                    marks += 1;
                    let overlaps = |piece: &rolecall_jinja::Piece<'_>| {
                        piece.start < start + mark.len() && piece.start + piece.text.len() > start
                    };
                    for piece in output.pieces().filter(overlaps) {
                        let is_own = matches!(piece.origin, Origin::Input { tag: found, .. } if found == *tag);
                        assert!(is_own, "{path:?}: {mark} was attributed to {piece:?}");
                    }
                }
            }
        }
    }
    println!("{pieces} pieces and {marks} marks of {} templates checked", paths.len());
    assert!(!paths.is_empty() && pieces > marks && marks > 20 * paths.len(), "too few pieces or markers were checked");
}

/// Adds a marker to every text, except those that templates make decisions on.
fn mark_texts(value: &mut Json, key: &str, count: &mut usize) {
    match value {
        Json::String(text) if !matches!(key, "role" | "type" | "name" | "required" | "enum") => {
            *count += 1;
            text.push_str(&format!("ꙮ{count}ꚛ"));
        }
        Json::Array(items) => items.iter_mut().for_each(|item| mark_texts(item, key, count)),
        Json::Object(object) => {
            let keys: Vec<String> = object.iter().map(|(key, _)| key.to_owned()).collect();
            for key in keys {
                if let Some(value) = object.get_mut(&key) {
                    mark_texts(value, &key, count);
                }
            }
        }
        _ => {}
    }
}

fn mark_in(text: &str) -> Option<&str> {
    text.find('ꙮ').map(|at| &text[at..])
}

/// Collects every text below a value by its tag.
fn texts_of<'v>(value: &'v Json, texts: &mut BTreeMap<Tag, &'v str>) {
    match value {
        Json::String(text) => {
            texts.insert(Tag::of(value), text);
        }
        Json::Array(items) => items.iter().for_each(|item| texts_of(item, texts)),
        Json::Object(object) => {
            for (key, item) in object.iter() {
                texts.insert(Tag(Tag::of(item).0 + 1), key);
                texts_of(item, texts);
            }
        }
        _ => {}
    }
}

/// Returns the variables of a case as transformers passes them to a template.
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
    assert_eq!(joined, output.text(), "the pieces must join to the text");
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
