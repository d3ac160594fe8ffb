//! Draws a page about one format.

use std::sync::Arc;

use rolecall::answer;
use rolecall::conversation::json;
use rolecall::format::{Format, Setting, rules_of, settings_of};

use crate::example::draw_example;
use crate::paint::{Paint, Style};
use crate::table;
use crate::visible;

type CardRow = Vec<String>;

/// Draws the page: the contents of the format file by heading, and an example.
pub fn draw(format: &Arc<Format>, paint: Paint, width: Option<usize>) -> String {
    let mut out = format!("{}  {}\n", paint.text(Style::Strong, &format.name), visible::escape(&format.title));
    let sections = [
        ("aliases", format.aliases.iter().map(|alias| vec![alias.clone()]).collect()),
        ("models", format.models.iter().map(|pattern| vec![pattern.as_str().to_owned()]).collect()),
        ("base models", format.base_models.iter().map(|pattern| vec![pattern.as_str().to_owned()]).collect()),
        ("control tokens", controls(format)),
        ("rules", rules(format)),
        ("options", settings_of(format).into_iter().map(setting).collect()),
        ("fields", named(&format.fields)),
        ("generation", generation(format)),
        ("sources", named(&format.sources)),
    ];
    for (heading, rows) in sections {
        push_section(&mut out, paint, heading, rows);
    }
    out.push_str(&format!("\n{}\n", paint.text(Style::Strong, "example")));
    match draw_example(format, paint, width) {
        Ok(example) => out.push_str(&example),
        Err(error) => out.push_str(&format!("  none: {}\n", visible::escape(&error.to_string()))),
    }
    out
}

fn controls(format: &Format) -> Vec<CardRow> {
    let each = format.controls.iter().map(|control| {
        let mut notes: Vec<String> = Vec::new();
        notes.extend(control.bos.then(|| "opens the prompt".to_owned()));
        notes.extend(control.ends_turn.then(|| "ends the turn".to_owned()));
        notes.extend(control.spelled.iter().map(|(name, text)| format!("`{text}` in the spelling {name}")));
        vec![control.text.clone(), control.id.map(|id| id.to_string()).unwrap_or_default(), notes.join(", ")]
    });
    each.collect()
}

/// Returns the rules that differ from the default.
fn rules(format: &Format) -> Vec<CardRow> {
    let usual = rules_of(&Format::default());
    let own = rules_of(format).into_iter().filter(|rule| !usual.contains(rule));
    let own: Vec<CardRow> = own.map(|(name, value)| vec![name.to_owned(), value]).collect();
    match own.is_empty() {
        true => vec![vec!["none: messages may come in any order".to_owned()]],
        false => own,
    }
}

fn setting(Setting { name, default, help, values }: Setting) -> CardRow {
    let values = if values.is_empty() { String::new() } else { format!("one of {}", values.join(", ")) };
    let about: Vec<String> = [help, values].into_iter().filter(|text| !text.is_empty()).collect();
    vec![name, default, about.join("; ")]
}

fn generation(format: &Format) -> Vec<CardRow> {
    let stop: Vec<String> = format.stops().iter().map(|text| format!("`{text}`")).collect();
    let mut rows: Vec<CardRow> = Vec::new();
    if !stop.is_empty() {
        rows.push(vec!["stop".to_owned(), stop.join(", ")]);
    }
    let sampling = answer::of_generation(&format.generation);
    let sampling = sampling.as_object().into_iter().flat_map(|object| object.iter());
    rows.extend(sampling.map(|(name, value)| vec![name.to_owned(), json::write(value, &json::Layout::default())]));
    rows
}

fn named(pairs: &[(String, String)]) -> Vec<CardRow> {
    pairs.iter().map(|(name, text)| vec![name.clone(), text.clone()]).collect()
}

/// Appends a heading and rows in columns, or nothing if there are no rows.
fn push_section(out: &mut String, paint: Paint, heading: &str, rows: Vec<CardRow>) {
    if rows.is_empty() {
        return;
    }
    out.push_str(&format!("\n{}\n", paint.text(Style::Strong, heading)));
    let plain = |row: CardRow| row.into_iter().map(|cell| (Style::Plain, cell)).collect::<Vec<_>>();
    table::push(out, paint, "  ", &rows.into_iter().map(plain).collect::<Vec<_>>());
}
