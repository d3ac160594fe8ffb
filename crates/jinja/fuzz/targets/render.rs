//! Fuzzes templates and contexts with arbitrary bytes. Nothing may panic, the pieces must join to
//! the text, and the limits must hold.
//!
//! The input is a template, optionally followed by a line `---` and the context as JSON.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rolecall_conversation::json::{self, Json};
use rolecall_jinja::{Context, DateTime, Environment, Limits, Template};

#[path = "../../tests/common/mod.rs"]
mod common;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let (source, context) = text.split_once("\n---\n").unwrap_or((&text, "{}"));
    let context = json::parse(context).unwrap_or(Json::Null);
    let mut variables = Context::reading(&common::JsonInputs);
    if let Json::Object(object) = &context {
        for (name, value) in object.iter() {
            variables.set(name, value);
        }
    }
    let now = DateTime { year: 2026, month: 11, day: 21, hour: 12, minute: 34, second: 56, microsecond: 789 };
    let mut limits = Limits::default();
    // Low limits, so that many inputs can be tried. The kinds of limits are the same.
    limits.instructions = 100_000;
    limits.output_bytes = 1 << 16;
    limits.live_bytes = 1 << 20;
    let environment = Environment { limits: limits.clone(), clock: Some(&now), ..Environment::default() };
    let Ok(template) = Template::compile(source, &limits) else { return };
    let Ok(output) = template.render(&variables, &environment) else { return };
    assert!(output.text().len() <= limits.output_bytes, "the output exceeds the limit");
    let mut end = 0;
    for piece in output.pieces() {
        assert_eq!(piece.start, end, "the pieces must be contiguous");
        assert_eq!(
            output.text().get(end..end + piece.text.len()),
            Some(piece.text),
            "each piece must be a part of the text"
        );
        end += piece.text.len();
    }
    assert_eq!(end, output.text().len(), "the pieces must join to the text");
    for span in output.generation_spans() {
        assert!(output.text().chars().count() >= span.end, "each generation span must be within the text");
    }
});
