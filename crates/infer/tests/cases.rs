//! Checks every case in `fixtures/inference`: a chat template, the layouts inferred from it, and
//! the report on each part.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::fmt::Write;

use rolecall_fixture::Fixture;
use rolecall_format::write_reply;
use rolecall_infer::{InferredFormat, Outcome, infer};
use rolecall_render::ChatTemplate;

#[test]
fn every_case_is_inferred_as_it_says() {
    Fixture::check_all("inference", |case| {
        let tokens = vec![("bos_token".to_owned(), "<s>".to_owned()), ("eos_token".to_owned(), "</s>".to_owned())];
        let template = ChatTemplate::compile(case.needed("template"), tokens).unwrap_or_else(|error| panic!("{error}"));
        let inferred = infer(&template);
        case.expect("layouts", write_reply(&inferred.format).trim_end());
        case.expect("report", told(&inferred).trim_end());
    });
}

/// Returns a line for each part and each note.
fn told(inferred: &InferredFormat) -> String {
    let mut text = String::new();
    for (part, outcome) in &inferred.report.parts {
        let outcome = match outcome {
            Outcome::Verified { probes } => format!("verified by {probes}"),
            Outcome::ReadOnly(why) => format!("read only: {why}"),
            Outcome::WriteOnly(why) => format!("write only: {why}"),
            Outcome::Absent => "absent".to_owned(),
            Outcome::Missing(why) => format!("missing: {why}"),
            other => format!("{other:?}"),
        };
        let _ = writeln!(text, "{}: {outcome}", part.name());
    }
    for note in &inferred.report.notes {
        let line = note.line.map_or(String::new(), |line| format!(" (line {line})"));
        let _ = writeln!(text, "note on {}{line}: {}", note.part.name(), note.words);
    }
    text
}

#[test]
fn a_row_of_the_table_tells_what_is_not_so() {
    let source = "{% for m in messages %}<|{{ m.role }}|>{{ m.content | replace('a', '|') }}<|end|>{% endfor %}\
                  {% if add_generation_prompt %}<|assistant|>{% endif %}";
    let template = ChatTemplate::compile(source, Vec::new()).unwrap();
    let row = infer(&template).report.markdown_row("t.jinja");
    let row = row.trim_end();
    assert!(row.starts_with("| t.jinja |") && row.ends_with(" |") && !row.contains('\n'), "{row}");
    let words = row.split(" | ").last().unwrap();
    assert!(words.len() > 20 && words.contains("content: "), "{row}");
}
