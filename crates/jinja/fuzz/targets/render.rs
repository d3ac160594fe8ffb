//! Any bytes as a template and its context: nothing may panic, the pieces join to the text, and the limits hold.
//!
//! The input is the template, and behind a line `---` the context as JSON.

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
    // Short, so that many inputs are tried; the bounds are of the same kinds.
    limits.instructions = 100_000;
    limits.output_bytes = 1 << 16;
    limits.live_bytes = 1 << 20;
    let environment = Environment { limits: limits.clone(), clock: Some(&now), ..Environment::default() };
    let Ok(template) = Template::compile(source, &limits) else { return };
    let Ok(output) = template.render(&variables, &environment) else { return };
    assert!(output.text().len() <= limits.output_bytes, "more output than the limit");
    let mut end = 0;
    for piece in output.pieces() {
        assert_eq!(piece.start, end, "pieces lie side by side");
        assert_eq!(output.text().get(end..end + piece.text.len()), Some(piece.text), "pieces are parts of the text");
        end += piece.text.len();
    }
    assert_eq!(end, output.text().len(), "pieces join to the text");
    for span in output.generation_spans() {
        assert!(output.text().chars().count() >= span.end, "a generation lies in the text");
    }
});
