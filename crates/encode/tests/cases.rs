//! Runs every case of `fixtures/encode/`: a request, and the runs that the tokenizer sees of its
//! prompt, in the safe way and in the reference's way. The tokenizer is the toy one.

use std::fmt::Write;
use std::sync::Arc;

#[path = "common/toy.rs"]
#[allow(dead_code, reason = "the laws across crates use more of it")]
mod toy;

use rolecall_conversation::Json;
use rolecall_conversation::json::{self, Layout, Object};
use rolecall_encode::{Encoded, Encoder, Error, Protection};
use rolecall_fixture::Fixture;
use rolecall_format::{Format, Registry, builtin};
use rolecall_openai::Request;
use rolecall_render::{Bos, ChatTemplate, Options, Prompt, RuleMode, TemplateOptions, Writer};
use toy::Toy;

#[test]
fn every_case_encodes_as_it_says() {
    let registry = builtin();
    Fixture::check_all("encode", |case| check(case, &registry));
}

fn check(case: &mut Fixture, registry: &Registry) {
    let place = case.path.display().to_string();
    let request = Request::from_text(case.needed("request")).unwrap_or_else(|error| panic!("{place}: {error}"));
    let name = request.format.as_deref().unwrap_or_default();
    let nameless = Format::new("template");
    let template =
        case.section("template").map(|source| template(source).unwrap_or_else(|why| panic!("{place}: {why}")));
    let format = match &template {
        Some(_) => &nameless,
        None => registry.get(name).unwrap_or_else(|| panic!("{place}: no format `{name}`")),
    };
    let options = case.section("options").map(options).unwrap_or_default();
    let toy = case.section("tokenizer").map_or_else(|| Toy::of(format), |changes| toy(format, changes)).marking_calls();
    let prompt = match &template {
        Some(template) => Writer::template(template.clone(), TemplateOptions::default()).render(&request.conversation),
        None => Writer::format(format.clone(), options.clone()).render(&request.conversation),
    };
    let prompt = prompt.unwrap_or_else(|error| panic!("{place}: {error}"));
    let protection = match &template {
        Some(template) => Protection::default().with_template("template", template),
        None => Protection::default().with_format(format),
    };
    let encoder = match Encoder::new(&protection, Arc::new(toy.clone())) {
        Ok(encoder) => encoder,
        Err(error) => return case.expect("error", &told(&error)),
    };
    let safe = match encoder.encode(&prompt) {
        Ok(safe) => safe,
        Err(error) => return case.expect("error", &told(&error)),
    };
    let reference = encoder.encode_reference(&prompt).unwrap_or_else(|error| panic!("{place}: {error}"));
    case.expect("encoded", &shown(&safe, &prompt, &toy));
    // If the reference does the same, the case has no section for it.
    let differs = safe.ids() != reference.ids();
    if differs || case.section("reference").is_some() {
        case.expect("reference", &shown(&reference, &prompt, &toy));
    }
}

fn told(error: &Error) -> String {
    let help = error.help();
    format!("code: {}\nmessage: {error}\nhelp: {help}", error.code())
}

fn template(source: &str) -> Result<ChatTemplate, String> {
    ChatTemplate::compile(source, Vec::new()).map_err(|error| error.to_string())
}

/// Reads options from `{"bos"?: "leave", "rules"?: "reference", "options"?: {..}}`.
fn options(text: &str) -> Options {
    let object = object(text);
    let word = |key: &str| object.get(key).and_then(Json::as_str).unwrap_or_default().to_owned();
    let choices = object.get("options").and_then(Json::as_object).into_iter().flat_map(Object::iter);
    Options {
        bos: if word("bos") == "leave" { Bos::LeaveToTokenizer } else { Bos::Write },
        rules: if word("rules") == "reference" { RuleMode::Reference } else { RuleMode::Enforce },
        choices: choices
            .map(|(name, value)| (name.to_owned(), value.as_str().unwrap_or_default().to_owned()))
            .collect(),
    }
}

/// Makes a toy from `{"with"?, "without"?, "ids"?, "lstrip"?, "rstrip"?, "single_word"?}`, where
/// `ids` is `{TEXT: ID}` and the others are `[TEXT..]`.
fn toy(format: &Format, text: &str) -> Toy {
    let mut toy = Toy::of(format);
    for (key, value) in object(text).iter() {
        if let ("ids", Json::Object(ids)) = (key, value) {
            for (text, id) in ids.iter() {
                let Json::Number(id) = id else { panic!("{text} has no id") };
                toy = toy.with_id(text, id.as_i64().and_then(|id| u32::try_from(id).ok()).expect("an id"));
            }
            continue;
        }
        for text in value.as_array().into_iter().flatten().filter_map(Json::as_str) {
            toy = match key {
                "with" => toy.with(text),
                "without" => toy.without(text),
                "lstrip" => toy.changed(text, |token| token.lstrip = true),
                "rstrip" => toy.changed(text, |token| token.rstrip = true),
                "single_word" => toy.changed(text, |token| token.single_word = true),
                other => panic!("unknown: {other}"),
            };
        }
    }
    toy
}

fn object(text: &str) -> Object {
    match json::parse(text) {
        Ok(Json::Object(object)) => object,
        other => panic!("not an object: {other:?}"),
    }
}

/// Writes one line for each control token, `ID<tab>TEXT`, and one for each call of the tokenizer,
/// `text<tab>TEXT`.
fn shown(encoded: &Encoded, prompt: &Prompt, toy: &Toy) -> String {
    let quoted = |text: &str| json::write(&Json::from(text), &Layout::default());
    let mut lines = String::new();
    let mut call: Vec<u32> = Vec::new();
    let finish = |call: &mut Vec<u32>, lines: &mut String| {
        if !call.is_empty() {
            let _ = writeln!(lines, "text\t{}", quoted(&toy.written(call)));
            call.clear();
        }
    };
    for token in &encoded.tokens {
        let text = prompt.text().get(token.start..token.end).expect("a span lies on character borders");
        if token.control {
            finish(&mut call, &mut lines);
            let _ = writeln!(lines, "{}\t{}", token.id, quoted(text));
            continue;
        }
        if token.id == Toy::CALL {
            finish(&mut call, &mut lines);
        }
        call.push(token.id);
    }
    finish(&mut call, &mut lines);
    lines.pop();
    lines
}
