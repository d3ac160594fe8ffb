//! Runs every case of `fixtures/jinja`: a template and its context, with the expected text or error
//! and, in some cases, the pieces with their origins. Cases with a section `analysis` are analyzed
//! instead of rendered.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::collections::HashMap;

use crate::common::{JsonInputs, paths};
use rolecall_conversation::json::{self, Json, Layout};
use rolecall_fixture::Fixture;
use rolecall_jinja::{
    Analysis, Constant, Context, DateTime, Environment, Error, Limits, Origin, Output, Spot, Tag, Template,
};

#[test]
fn every_case_comes_out_as_it_is_written() {
    for case in Fixture::of_folder("jinja") {
        check(case);
    }
}

fn check(mut case: Fixture) {
    let context = json::parse(case.section("context").unwrap_or("{}")).unwrap();
    let paths = paths("", &context);
    // A template that ends with a line break or contains invisible characters is given as a JSON
    // string.
    let source = match case.section("template as JSON") {
        Some(quoted) => json::parse(quoted).unwrap().as_str().unwrap().to_owned(),
        None => case.section("template").unwrap().to_owned(),
    };
    if case.section("analysis").is_some() {
        let analysis = Template::compile(&source, &Limits::default()).and_then(|t| t.analyze(&Limits::default()));
        return case.expect("analysis", &analysis.map_or_else(|error| told(&error), |analysis| described(&analysis)));
    }
    match render(&source, &context) {
        Ok(output) => {
            if case.section("output as JSON").is_some() {
                let quoted = json::write(&Json::String(output.text().to_owned()), &Layout::default());
                case.expect("output as JSON", &quoted);
            } else {
                case.expect("output", output.text());
            }
            if case.section("pieces").is_some() {
                case.expect("pieces", &shown(&output, &paths));
            }
            if case.section("generations").is_some() {
                case.expect("generations", &format!("{:?}", output.generation_spans()));
            }
        }
        Err(error) => case.expect("error", &told(&error)),
    }
}

fn render(source: &str, context: &Json) -> Result<Output, Error> {
    let now = DateTime { year: 2026, month: 11, day: 21, hour: 12, minute: 34, second: 56, microsecond: 0 };
    let environment = Environment { clock: Some(&now), ..Environment::default() };
    let mut variables = Context::reading(&JsonInputs);
    if let Json::Object(object) = context {
        for (name, value) in object.iter() {
            variables.set(name, value);
        }
    }
    Template::compile(source, &Limits::default())?.render(&variables, &environment)
}

/// Returns one line for each finding of an analysis.
fn described(analysis: &Analysis) -> String {
    let at = |spot: &Spot| format!("{}:{}", spot.line, spot.column);
    let reads = analysis.reads.iter().map(|read| {
        let uses: Vec<String> =
            read.uses.iter().map(|(how, spot)| format!("{how:?} {}", at(spot)).to_lowercase()).collect();
        format!("reads {}: {}", read.path, uses.join(", "))
    });
    let asks = analysis.comparisons.iter().map(|asked| format!("{} tests {asked}", at(&asked.spot)));
    let calls = analysis.calls.iter().map(|call| {
        let argument: Vec<String> = call.argument.iter().map(Constant::to_string).collect();
        format!("{} calls {}({})", at(&call.spot), call.name, argument.join(" or "))
    });
    let sets = analysis.assigned.iter().map(|(name, spot)| format!("{} sets {name}", at(spot)));
    reads.chain(asks).chain(calls).chain(sets).collect::<Vec<_>>().join("\n")
}

fn told(error: &Error) -> String {
    let place = error.place();
    let mut text =
        format!("{}: {}\n{}:{}: {}", error.kind().code(), error.message(), place.line, place.column, place.source_line);
    for call in error.calls() {
        text.push_str(&format!("\nin {} from {}:{}", call.name, call.place.line, call.place.column));
    }
    text
}

/// Returns one line for each piece, with its text, its origin and the loop passes that wrote it.
fn shown(output: &Output, paths: &HashMap<Tag, String>) -> String {
    let path = |tag: Tag| paths.get(&tag).map_or("?", |path| path.as_str());
    let lines: Vec<String> = output
        .pieces()
        .map(|piece| {
            let text = json::write(&Json::String(piece.text.to_owned()), &Layout::default());
            let origin = match piece.origin {
                Origin::Literal { id, offset } => {
                    let place = output.literal(id).unwrap().place();
                    format!("literal {}:{} at {offset:?}", place.line, place.column)
                }
                Origin::Input { tag, offset } => format!("{} at {offset:?}", path(tag)),
                Origin::Engine => "engine".to_owned(),
            };
            let passes: Vec<String> = output.marks(piece.mark).map(|mark| path(mark.item).to_owned()).collect();
            let marks = if passes.is_empty() { String::new() } else { format!(" in {}", passes.join(" in ")) };
            format!("{text} <- {origin}{marks}")
        })
        .collect();
    lines.join("\n")
}
