//! Draws the analysis of a template.

use rolecall::answer::name_of_use;
use rolecall::template::jinja::{Read, Spot};
use rolecall::template::{BosUse, Support, Switch};

use super::TemplateReport;
use super::shown;
use crate::diagnostic::{Diagnostic, DiagnosticPlace, Severity};
use crate::explain::counted;
use crate::paint::{Paint, Style};
use crate::table::{self, Cell};
use crate::visible;

/// The maximum depth of the paths that are shown, since a template may read a tool's schema to any
/// depth.
const DEEPEST: usize = 5;

/// The maximum number of findings that are drawn.
const MOST_FINDINGS: usize = 50;

/// Draws what the template supports, its switches, what it reads and refuses, and the findings.
pub fn draw(analyzed: &TemplateReport, paint: Paint) -> String {
    let analysis = &analyzed.analysis;
    let name = paint.text(Style::Strong, &visible::escape(&analyzed.name));
    let lines = counted(analyzed.source.text.lines().count(), "line");
    let mut out = format!("{name}  {}, {lines}\n", visible::escape(&analyzed.source.name));
    table::push_headed(&mut out, paint, "supports", takes(analyzed));
    table::push_headed(&mut out, paint, "switches", analysis.switches.iter().map(switch).collect());
    let (near, far): (Vec<&Read>, Vec<&Read>) =
        analysis.program.reads.iter().partition(|read| read.path.steps.len() <= DEEPEST);
    let mut reads: Vec<Vec<Cell>> = near.into_iter().map(read).collect();
    if !far.is_empty() {
        reads.push(vec![plain(format!("and {} deeper paths", far.len())), plain("use --json to list them".into())]);
    }
    table::push_headed(&mut out, paint, "reads", reads);
    let refusals = analysis.program.calls.iter().filter(|call| call.name == "raise_exception");
    let refusals = refusals.map(|call| {
        let words: Vec<String> = call.argument.iter().map(ToString::to_string).collect();
        let words = if words.is_empty() { "a message composed at run time".to_owned() } else { words.join(" or ") };
        vec![plain(shown(&call.spot)), plain(words)]
    });
    table::push_headed(&mut out, paint, "refuses with", refusals.collect());
    if !analysis.findings.is_empty() {
        out.push_str(&format!("\n{}\n", paint.text(Style::Strong, "findings")));
    }
    for finding in analysis.findings.iter().take(MOST_FINDINGS) {
        let place = match finding.spot {
            Some(spot) => DiagnosticPlace::Span(&analyzed.source, spot.offset as usize..spot.offset as usize + 1),
            None => DiagnosticPlace::Named(analyzed.source.name.clone()),
        };
        let diagnostic = Diagnostic {
            severity: Severity::Warning,
            code: finding.kind.code(),
            message: finding.message.clone(),
            place,
            help: vec![finding.kind.help().to_owned()],
        };
        out.push_str(&format!("\n{}", diagnostic.draw(paint)));
    }
    if let Some(more) = analysis.findings.len().checked_sub(MOST_FINDINGS).filter(|more| *more > 0) {
        out.push_str(&format!("\nand {more} more; use --json to list them\n"));
    }
    out
}

fn takes(analyzed: &TemplateReport) -> Vec<Vec<Cell>> {
    let analysis = &analyzed.analysis;
    let mut rows: Vec<Vec<Cell>> = Vec::new();
    for (capability, support) in &analysis.support {
        let support = match support {
            Support::Yes => "yes".to_owned(),
            Support::No => "no".to_owned(),
            Support::Refused(words) => format!("refused: {words}"),
            Support::Fails(words) => format!("fails: {words}"),
            _ => "unknown".to_owned(),
        };
        rows.push(vec![plain(capability.name().replace('_', " ")), plain(support)]);
    }
    if let Some(form) = analysis.calls.arguments {
        rows.push(vec![plain("arguments as".into()), plain(form.name().into())]);
    }
    if let Some(form) = analysis.calls.ids {
        rows.push(vec![plain("call ids as".into()), plain(form.name().into())]);
    }
    let bos = match analysis.bos {
        BosUse::Written => "written by the template",
        BosUse::NotWritten => "not written by the template",
        BosUse::NoToken => "the model has none, or it is unknown",
        _ => "unknown: the template renders no plain prompt",
    };
    rows.push(vec![plain("BOS token".into()), plain(bos.into())]);
    rows
}

fn switch(switch: &Switch) -> Vec<Cell> {
    let values: Vec<String> = switch.values.iter().map(ToString::to_string).collect();
    let mut about = if values.is_empty() { String::new() } else { format!("compared with {}", values.join(", ")) };
    if let Some(default) = switch.default {
        let comma = if about.is_empty() { "" } else { "; " };
        about.push_str(&format!("{comma}defaults to {default}"));
    }
    vec![plain(switch.name.clone()), plain(shown(&switch.spot)), plain(about)]
}

/// Returns the cells of a path: each way it is used, with the first position and the number of
/// others.
fn read(read: &Read) -> Vec<Cell> {
    let mut kinds: Vec<(&'static str, usize, &Spot)> = Vec::new();
    for (how, spot) in &read.uses {
        match kinds.iter_mut().find(|(name, ..)| *name == name_of_use(*how)) {
            Some((_, count, _)) => *count += 1,
            None => kinds.push((name_of_use(*how), 1, spot)),
        }
    }
    let uses = kinds.iter().map(|(name, count, first)| match count {
        1 => format!("{name} {}", shown(first)),
        count => format!("{name} {} and {} more", shown(first), count - 1),
    });
    vec![plain(read.path.to_string()), plain(uses.collect::<Vec<_>>().join(", "))]
}

fn plain(text: String) -> Cell {
    (Style::Plain, text)
}
