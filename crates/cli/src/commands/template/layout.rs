//! `rolecall template --layout`: infers the layouts of a template's assistant turn, and prints them
//! as a format file with the confidence of the result.

use std::ops::Range;

use rolecall::format::write_reply;
use rolecall::infer::{Outcome, Report};
use rolecall::template::{ModelTemplates, NamedTemplate, infer_layouts};

use crate::args::TemplateArgs;
use crate::diagnostic::{Diagnostic, DiagnosticPlace, Severity};
use crate::failure::Failure;
use crate::job::refused as in_nothing;
use crate::output::Output;
use crate::source::Source;
use crate::template::refused;
use crate::visible::escape;

/// Prints the layouts of one template. The report on the inference goes to standard error.
/// `tokens` are the texts of the model's control tokens.
pub fn print(args: &TemplateArgs, model: &ModelTemplates, tokens: Vec<String>, output: &Output) -> Result<(), Failure> {
    let chosen = model.choose(args.template_name.as_deref(), false);
    let named = chosen.map_err(|why| Failure::NoTemplate { path: args.path().display().to_string(), why })?;
    let compiled = named.compile(&model.tokens);
    let nothing = Source { name: String::new(), text: String::new() };
    let template = compiled.map_err(|error| in_nothing(refused(named, error), &nothing))?;
    let layouts = infer_layouts(&template, || tokens).map_err(|error| in_nothing(refused(named, error), &nothing))?;
    let source = Source::of_template(named);
    let place = || DiagnosticPlace::Named(source.name.clone());
    let message = summary(&layouts.report);
    output.show(&Diagnostic { severity: Severity::Note, code: "inferred", message, place: place(), help: Vec::new() });
    for (part, outcome) in &layouts.report.parts {
        if let Some(message) = doubt(outcome) {
            let (severity, code) = (Severity::Warning, part.name());
            output.show(&Diagnostic { severity, code, message, place: place(), help: Vec::new() });
        }
    }
    for note in &layouts.report.notes {
        let place = match note.line.and_then(|line| line_of(&source, line)) {
            Some(span) => DiagnosticPlace::Span(&source, span),
            None => place(),
        };
        let (severity, code, message) = (Severity::Note, note.part.name(), note.words.clone());
        output.show(&Diagnostic { severity, code, message, place, help: Vec::new() });
    }
    for name in layouts.corrections {
        let message = format!("corrected by `{name}`: the models deviate from the template");
        let (severity, code) = (Severity::Note, "corrected");
        output.show(&Diagnostic { severity, code, message, place: place(), help: Vec::new() });
    }
    output.write(&format!("{}{}", head(named), write_reply(&layouts.format)))
}

/// Returns the span of a line without its indentation.
fn line_of(source: &Source, number: u32) -> Option<Range<usize>> {
    let before = usize::try_from(number).ok()?.checked_sub(1)?;
    let line = source.text.split('\n').nth(before)?;
    let start: usize = source.text.split('\n').take(before).map(|line| line.len() + 1).sum();
    Some(start + line.len() - line.trim_start().len()..start + line.trim_end().len())
}

/// Returns a comment that names the source of the layouts.
fn head(named: &NamedTemplate) -> String {
    format!("# Inferred from {}. Correct it where the model's output differs.\n", escape(&named.place()))
}

/// Summarizes which parts were verified and which are absent.
fn summary(report: &Report) -> String {
    let mut verified = Vec::new();
    let mut absent = Vec::new();
    for (part, outcome) in &report.parts {
        match outcome {
            Outcome::Verified { probes } => verified.push(format!("{} {probes}", part.name())),
            Outcome::Absent => absent.push(part.name()),
            _ => {}
        }
    }
    let said = |what: &str, parts: String| (!parts.is_empty()).then(|| format!("{what}: {parts}"));
    let said = [
        said("verified (number of probes)", verified.join(", ")),
        said("not written by the template", absent.join(", ")),
        Some(format!("{} conversations rendered", report.renders)),
    ];
    said.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// Describes why a part is uncertain.
fn doubt(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::ReadOnly(why) => Some(format!("parsed, but written differently: {why}")),
        Outcome::WriteOnly(why) => Some(format!("written, but not parsed back: {why}")),
        Outcome::Missing(why) => Some(format!("not inferred: {why}")),
        _ => None,
    }
}
