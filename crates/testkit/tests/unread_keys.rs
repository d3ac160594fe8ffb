//! A key of which the prompt has nothing is told, and no other: what an account says of it is compared with the
//! prompt without the key, for every format and every real template. The values are spelled elsewhere, too.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use rolecall::account::LeafKind;
use rolecall::model::ModelPrompt;
use rolecall::template::ModelTemplates;
use rolecall::{Model, Request};
use rolecall_testkit::FolderTemplates;

/// A conversation whose values are those of the keys, with a mark at each place of a key.
const REQUEST: &str = r#"{"messages": [
    {"role": "user", @A "content": [{"type": "text", @B "text": "It is true that 1 is good."}]},
    {"role": "assistant", @C "content": "1", "tool_calls": [{"id": "abcdefghi", "type": "function", @D
        "function": {"name": "good", @E "arguments": {"true": "good 1"}}}]},
    {"role": "tool", "tool_call_id": "abcdefghi", "name": "good", @F "content": "good"},
    {"role": "assistant", "content": "good"},
    {"role": "user", @G "content": "1"}],
    "tools": [{"type": "function", @H "function": {"name": "good", "description": "It is true that 1 is good.", @I
        "parameters": {"type": "object", "properties": {"true": {"type": "string", "enum": ["good 1"]}}}}}]}"#;

/// One that every format writes.
const PLAIN: &str = r#"{"messages": [
    {"role": "user", @A "content": [{"type": "text", @B "text": "It is true that 1 is good."}]},
    {"role": "assistant", @C "content": "1"}, {"role": "user", @F "content": "good"},
    {"role": "assistant", "content": "good"}, {"role": "user", @G "content": "1"}]}"#;

/// The marks with the places of their keys.
const PLACES: [(&str, Option<usize>, &str); 9] = [
    ("@A", Some(0), ""),
    ("@B", Some(0), "content[0]."),
    ("@C", Some(1), ""),
    ("@D", Some(1), "tool_calls[0]."),
    ("@E", Some(1), "tool_calls[0].function."),
    ("@F", Some(2), ""),
    ("@G", Some(4), ""),
    ("@H", None, "tools[0]."),
    ("@I", None, "tools[0].function."),
];

/// Keys with values that the conversation has elsewhere.
const KEYS: [(&str, &str); 5] = [
    ("mood", r#""good""#),
    ("mood", "1"),
    ("mood", "true"),
    ("mood", r#"{"true": "good"}"#),
    ("reasoning_content", r#""It is true that 1 is good.""#),
];

/// Returns a request with one key, or without any.
fn request(of: &str, with: Option<(&str, &str, &str)>) -> String {
    PLACES.iter().fold(of.to_owned(), |request, (mark, ..)| {
        let entry = with.filter(|(at, ..)| at == mark).map(|(_, key, value)| format!("\"{key}\": {value},"));
        request.replace(mark, &entry.unwrap_or_default())
    })
}

fn prompt(model: &Model, of: &str, with: Option<(&str, &str, &str)>) -> Option<ModelPrompt> {
    model.prompt(Request::from_text(&request(of, with)).unwrap()).ok()
}

/// What an account says of a place: whether it is left out, and whether it only steered or is left out by design.
fn told(prompt: &ModelPrompt, message: Option<usize>, field: &str) -> (bool, bool) {
    let leaves = prompt.account().leaves().iter().filter(|leaf| {
        let around = field.strip_prefix(&*leaf.place.field);
        let within = leaf.place.field.strip_prefix(field);
        leaf.place.message == message
            && [around, within].into_iter().flatten().any(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
            || leaf.place.message == message && message.is_some() && leaf.place.field.is_empty()
    });
    let kinds: Vec<LeafKind> = leaves.map(|leaf| leaf.kind).collect();
    (kinds.contains(&LeafKind::LeftOut), kinds.iter().any(|kind| *kind != LeafKind::LeftOut))
}

/// Compares every key at every place. Returns the numbers of comparisons and of keys that were left out.
fn compare(name: &str, model: &Model, wrong: &mut Vec<String>) -> (usize, usize) {
    let (mut compared, mut left_out) = (0, 0);
    // One without a place for calls refuses them.
    let of = [REQUEST, PLAIN].into_iter().find(|of| prompt(model, of, None).is_some());
    let Some((of, without)) = of.and_then(|of| Some((of, prompt(model, of, None)?))) else { return (0, 0) };
    for (mark, message, within) in PLACES.into_iter().filter(|(mark, ..)| of.contains(mark)) {
        for (key, value) in KEYS {
            // Anything but a message has no reasoning, and an assistant has.
            if key == "reasoning_content" && (!within.is_empty() || message == Some(1)) {
                continue;
            }
            let Some(with) = prompt(model, of, Some((mark, key, value))) else { continue };
            let is_same = with.text() == without.text();
            let (is_lost, is_read) = told(&with, message, &format!("{within}{key}"));
            compared += 1;
            left_out += usize::from(is_lost);
            if is_same && !is_lost && !is_read || !is_same && is_lost {
                wrong.push(format!(
                    "{name}: {within}{key} = {value} of {message:?}: changes nothing: {is_same}, left out: {is_lost}"
                ));
            }
        }
    }
    (compared, left_out)
}

fn assert_all(counts: (usize, usize), wrong: &[String], what: &str) {
    println!("{} keys of {what}: {} are left out", counts.0, counts.1);
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), counts.0, wrong.join("\n"));
    assert!(counts.1 > 0);
}

#[test]
fn a_key_that_a_format_does_not_write_is_told() {
    let (mut counts, mut wrong) = ((0, 0), Vec::new());
    for format in rolecall::format::registry().iter() {
        let model = Model::builder().format(&format.name).open().unwrap();
        let (compared, left_out) = compare(&format.name, &model, &mut wrong);
        counts = (counts.0 + compared, counts.1 + left_out);
    }
    assert_all(counts, &wrong, "all formats");
}

#[test]
fn a_key_that_a_real_template_does_not_write_is_told() {
    let Some(shared) = rolecall_testkit::shared() else {
        return rolecall_testkit::say_skipped("the keys that real templates do not write are not checked");
    };
    let templates = FolderTemplates::read(&shared.join("templates")).unwrap().compiled;
    let (mut counts, mut wrong) = ((0, 0), Vec::new());
    for (name, template) in &templates {
        let mut own = ModelTemplates::from_json(&template.source().into()).unwrap();
        template.tokens().iter().for_each(|(name, text)| own.set_token(name, text.clone()));
        let model = Model::builder().templates(own).now("2026-11-21".parse().unwrap()).open().unwrap();
        let (compared, left_out) = compare(name, &model, &mut wrong);
        counts = (counts.0 + compared, counts.1 + left_out);
    }
    assert_all(counts, &wrong, "all templates");
}
