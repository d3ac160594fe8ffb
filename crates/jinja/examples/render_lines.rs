//! Renders lines of JSON from standard input, `{"template": "..", "context": {..}}`, and prints one
//! line for each: `{"text": ".."}` or `{"error": "kind", "message": ".."}`. The differential fuzzer
//! runs it.

use std::io::{BufRead, Write};

use rolecall_conversation::json::{self, Json};
use rolecall_jinja::{Context, DateTime, Environment, Limits, Template};

#[path = "../tests/common/mod.rs"]
mod common;

fn main() {
    let now = DateTime { year: 2026, month: 11, day: 21, hour: 12, minute: 34, second: 56, microsecond: 789 };
    let environment = Environment { clock: Some(&now), ..Environment::default() };
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let Ok(Json::Object(row)) = json::parse(&line) else { continue };
        let source = row.get("template").and_then(Json::as_str).unwrap_or_default();
        let mut context = Context::reading(&common::JsonInputs);
        if let Some(variables) = row.get("context").and_then(Json::as_object) {
            for (name, value) in variables.iter() {
                context.set(name, value);
            }
        }
        let rendered =
            Template::compile(source, &Limits::default()).and_then(|template| template.render(&context, &environment));
        let mut shown = String::new();
        let quote = |text: &str| json::write(&Json::String(text.to_owned()), &json::Layout::default());
        match rendered {
            Ok(output) => {
                let joined: String = output.pieces().map(|piece| piece.text).collect();
                assert_eq!(joined, output.text(), "the pieces must join to the text");
                shown.push_str(&format!("{{\"text\": {}}}", quote(output.text())));
            }
            Err(error) => {
                shown.push_str(&format!(
                    "{{\"error\": \"{}\", \"message\": {}}}",
                    error.kind().code(),
                    quote(error.message())
                ));
            }
        }
        if writeln!(out, "{shown}").and_then(|()| out.flush()).is_err() {
            return;
        }
    }
}
