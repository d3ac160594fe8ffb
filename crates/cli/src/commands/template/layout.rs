//! `rolecall template --layout`: how a template writes an assistant's turn, as a format file, and how sure that is.

use std::ops::Range;

use rolecall::format::write_reply;
use rolecall::infer::{Outcome, Report, infer};
use rolecall::template::ChatTemplate;
use rolecall::template::{ModelTemplates, NamedTemplate};

use crate::args::Template;
use crate::diagnostic::{Diagnostic, Place, Severity};
use crate::failure::Failure;
use crate::job::refused as in_nothing;
use crate::output::Output;
use crate::source::Source;
use crate::template::{as_source, refused};
use crate::visible::escape;

/// Prints the layouts of one template; what was found out of them goes to standard error.
pub fn print(args: &Template, model: &ModelTemplates, output: &Output) -> Result<(), Failure> {
    let chosen = model.choose(args.template_name.as_deref(), false);
    let named = chosen.map_err(|why| Failure::NoTemplate { path: args.path().display().to_string(), why })?;
    let compiled = ChatTemplate::compile(&named.source, model.tokens.clone());
    let nothing = Source { name: String::new(), text: String::new() };
    let template = compiled.map_err(|error| in_nothing(refused(named, error), &nothing))?;
    let inferred = infer(&template).complete().map_err(|error| in_nothing(refused(named, error), &nothing))?;
    let source = as_source(named);
    let place = || Place::Named(source.name.clone());
    let message = summary(&inferred.report);
    output.show(&Diagnostic { severity: Severity::Note, code: "inferred", message, place: place(), help: Vec::new() });
    for (part, outcome) in &inferred.report.parts {
        if let Some(message) = doubt(outcome) {
            let (severity, code) = (Severity::Warning, part.name());
            output.show(&Diagnostic { severity, code, message, place: place(), help: Vec::new() });
        }
    }
    for note in &inferred.report.notes {
        let place = match note.line.and_then(|line| line_of(&source, line)) {
            Some(span) => Place::Span(&source, span),
            None => place(),
        };
        let (severity, code, message) = (Severity::Note, note.part.name(), note.words.clone());
        output.show(&Diagnostic { severity, code, message, place, help: Vec::new() });
    }
    output.write(&format!("{}{}", head(named), write_reply(&inferred.format)))
}

/// A line of a text, without its indentation.
fn line_of(source: &Source, number: u32) -> Option<Range<usize>> {
    let before = usize::try_from(number).ok()?.checked_sub(1)?;
    let line = source.text.split('\n').nth(before)?;
    let start: usize = source.text.split('\n').take(before).map(|line| line.len() + 1).sum();
    Some(start + line.len() - line.trim_start().len()..start + line.trim_end().len())
}

/// Where it comes from, as a comment.
fn head(named: &NamedTemplate) -> String {
    format!("# Inferred from {}. Correct what its model writes otherwise.\n", escape(&named.place()))
}

/// The parts that were verified, and those that there are not.
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
        said("verified by so many probes", verified.join(", ")),
        said("not written by the template", absent.join(", ")),
        Some(format!("{} conversations rendered", report.renders)),
    ];
    said.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// What is not sure of a part.
fn doubt(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::ReadOnly(why) => Some(format!("read, but written otherwise: {why}")),
        Outcome::WriteOnly(why) => Some(format!("written, but not read back: {why}")),
        Outcome::Missing(why) => Some(format!("not found out: {why}")),
        _ => None,
    }
}
