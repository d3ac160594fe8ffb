//! The layouts inferred from real chat templates: the page that lists them, and the properties of
//! all of them.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

use rolecall::conversation::{Json, json};
use rolecall::format::{Format, Op, Slot, load, write_reply};
use rolecall::infer::{InferredFormat, Outcome, Report, TurnPart, infer};
use rolecall::template::ChatTemplate;
use rolecall_testkit::Reviewed;

const PAGE: &str = "docs/inference.md";

const HEAD: &str = "# Layouts inferred from chat templates

`rolecall` infers the layouts of the assistant's turn from each of the reference templates by rendering
short conversations with it. This page lists the parts that were inferred and which of them were
verified. To verify a part, further conversations, which had no role in the inference, are rendered
with the template and with the layouts, compared byte for byte, and parsed back.
`rolecall template --layout` prints the layouts themselves.

- **yes (n)**: written identically and parsed back in all n conversations
- **read only**: parsed back, but the template writes some conversations differently, or not at all
- **write only**: written identically, but not parsed back
- **no**: the template refuses it, or the way it is written could not be inferred; the notes say why
- **–**: the template does not write it

A test writes this page (`crates/testkit/tests/inference.rs`, `UPDATE=1`), and checks it if the
reference templates are available.

";

#[test]
fn the_report_lists_every_template() {
    let Some(shared) = rolecall_testkit::shared() else {
        rolecall_testkit::say_skipped("no layout is inferred");
        return;
    };
    let mut counts: BTreeMap<(TurnPart, &str), usize> = BTreeMap::new();
    let mut rows = String::new();
    let mut templates = 0;
    for (file, template) in templates_of(&shared) {
        let InferredFormat { report, .. } = infer(&template);
        templates += 1;
        for (part, outcome) in &report.parts {
            *counts.entry((*part, word_of(outcome))).or_default() += 1;
        }
        rows.push_str(&report.markdown_row(&format!("`{file}`")));
    }
    let mut page = HEAD.to_owned();
    let _ = writeln!(
        page,
        "| of {templates} templates | verified | read only | write only | no |\n| --- | --- | --- | --- | --- |"
    );
    for part in TurnPart::ALL {
        let count = |word| counts.get(&(part, word)).copied().unwrap_or_default();
        let (name, verified) = (part.name(), count("verified"));
        let (read, written, not) = (count("read only"), count("write only"), count("not"));
        let _ = writeln!(page, "| {name} | {verified} | {read} | {written} | {not} |");
    }
    let _ = write!(page, "\n{}{rows}", Report::markdown_head());
    let path = rolecall_testkit::root().join(PAGE);
    if fs::read_to_string(&path).is_ok_and(|known| known == page) {
        return;
    }
    assert!(env::var_os("UPDATE").is_some(), "{PAGE} is stale; run `UPDATE=1 cargo test` to write it");
    fs::write(path, page).unwrap();
}

#[test]
fn every_part_that_is_not_verified_has_a_reviewed_reason() {
    let Some(shared) = rolecall_testkit::shared() else {
        rolecall_testkit::say_skipped("no reason is checked");
        return;
    };
    let path = rolecall_testkit::root().join("fixtures/inference.toml");
    let reviewed = Reviewed::parse(&fs::read_to_string(path).unwrap()).unwrap();
    let mut found = BTreeMap::new();
    for (file, template) in templates_of(&shared) {
        let InferredFormat { report, .. } = infer(&template);
        for (part, outcome) in &report.parts {
            // Only an error that the template raises has a line.
            let is_refused = report.notes.iter().any(|note| note.part == *part && note.line.is_some());
            let outcome = if word_of(outcome) == "not" { "no" } else { word_of(outcome) };
            found.insert((file.clone(), part.name().to_owned()), (outcome.to_owned(), is_refused));
        }
    }
    let wrong = reviewed.differences(&found);
    assert!(wrong.is_empty(), "fixtures/inference.toml:\n{}", wrong.join("\n"));
}

#[test]
fn what_is_inferred_is_a_format_file() {
    let Some(shared) = rolecall_testkit::shared() else {
        rolecall_testkit::say_skipped("no inferred layout is written");
        return;
    };
    for (file, template) in templates_of(&shared) {
        let InferredFormat { format, .. } = infer(&template);
        if format.layout(Slot::Assistant).is_none() {
            continue;
        }
        let written = write_reply(&format);
        let read = load(&written).unwrap_or_else(|error| panic!("{file}: {error}\n{written}"));
        for slot in Slot::ALL {
            let text = |format: &Format| format.layout(slot).map(|layout| literal(format, layout.ops()));
            assert_eq!(text(&read), text(&format), "{file}: {}\n{written}", slot.key());
        }
        assert_eq!(read.stops(), format.stops(), "{file}");
        assert_eq!(read.rules.call_ids, format.rules.call_ids, "{file}");
    }
}

/// Returns a layout as text, with control tokens as they are spelled.
fn literal(format: &Format, ops: &[Op]) -> String {
    let each = ops.iter().map(|op| match op {
        Op::Literal(text) => text.clone(),
        Op::Control(id) => format.control(*id).text.clone(),
        Op::Hole { field, codec, .. } => format!("{{{}:{}}}", field.name(), codec.spelling()),
        Op::Group(inner) => format!("[[{}]]", literal(format, inner)),
        other => format!("{other:?}"),
    });
    each.collect()
}

#[test]
fn damaged_templates_are_no_reason_to_panic() {
    let Some(shared) = rolecall_testkit::shared() else {
        rolecall_testkit::say_skipped("no damaged template is tried");
        return;
    };
    // A random number generator of our own: every run does the same damage.
    let mut state: u64 = 7;
    let mut next = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap_or(0) % below.max(1)
    };
    let mut compiled = 0;
    for (_, template) in templates_of(&shared) {
        let characters: Vec<char> = template.source().chars().collect();
        for _ in 0..4 {
            let (start, length) = (next(characters.len()), next(60));
            let end = (start + length).min(characters.len());
            let damaged: String = characters[..start].iter().chain(&characters[end..]).collect();
            if let Ok(damaged) = ChatTemplate::compile(&damaged, template.tokens().to_vec()) {
                compiled += 1;
                let _ = infer(&damaged);
            }
        }
    }
    assert!(compiled > 100, "only {compiled} damaged templates compile");
}

fn word_of(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Verified { .. } => "verified",
        Outcome::ReadOnly(_) => "read only",
        Outcome::WriteOnly(_) => "write only",
        Outcome::Missing(_) => "not",
        _ => "absent",
    }
}

/// Returns the reference templates sorted by name, with their special tokens.
fn templates_of(shared: &Path) -> Vec<(String, ChatTemplate)> {
    let index = fs::read_to_string(shared.join("templates/index.json")).unwrap();
    let index = json::parse(&index).unwrap();
    let entries = index.as_object().and_then(|index| index.get("templates")).and_then(Json::as_array).unwrap();
    let mut templates: Vec<(String, ChatTemplate)> = entries
        .iter()
        .filter_map(|entry| {
            let text = |key: &str| Some(entry.as_object()?.get(key)?.as_str()?.to_owned());
            let file = text("file")?;
            let source = fs::read_to_string(shared.join("templates").join(&file)).ok()?;
            let tokens = ["bos_token", "eos_token"];
            let tokens = tokens.into_iter().filter_map(|key| Some((key.to_owned(), text(key)?))).collect();
            Some((file, ChatTemplate::compile(&source, tokens).ok()?))
        })
        .collect();
    templates.sort_by(|(a, _), (b, _)| a.cmp(b));
    templates
}
