use rolecall::render::Error;
use rolecall::stability::{Case, KeptLength, Report, Stability};

use super::{Sources, changes};
use crate::paint::{Paint, Style};
use crate::table::{self, Cell};
use crate::visible;

/// Draws a report, with every change if `all` is set, else with one of each kind.
pub fn draw(report: &Report, sources: Sources<'_>, all: bool, paint: Paint) -> String {
    let mut out = String::new();
    push_table(&mut out, report, paint);
    for group in changes::gather(report, all) {
        out.push('\n');
        group.push(&mut out, sources, paint);
    }
    push_refusals(&mut out, report, paint);
    out
}

/// Appends a line for each conversation.
fn push_table(out: &mut String, report: &Report, paint: Paint) {
    let has_ids = report.cases.iter().any(|(_, found)| has_ids(found));
    let mut heading = vec!["CONVERSATION", "STEPS", "HISTORY", "GENERATION PROMPT"];
    heading.extend(has_ids.then_some("IDS LOST"));
    let mut rows: Vec<Vec<Cell>> = vec![heading.into_iter().map(|name| (Style::Strong, name.to_owned())).collect()];
    rows.extend(report.cases.iter().map(|(case, found)| row(case, found, has_ids)));
    table::push(out, paint, "", &rows);
}

fn has_ids(found: &Stability) -> bool {
    found.steps.iter().any(|step| step.history.as_ref().is_ok_and(|kept| kept.ids.is_some()))
}

fn row(case: &Case, found: &Stability, has_ids: bool) -> Vec<Cell> {
    let histories: Vec<&PageComparison> = found.steps.iter().map(|step| &step.history).collect();
    let generations: Vec<&PageComparison> = found.steps.iter().filter_map(|step| step.generation.as_ref()).collect();
    let plain = |text: String| (Style::Plain, text);
    let mut row = vec![plain(case.name.clone()), plain(found.steps.len().to_string())];
    row.extend([verdict(&histories), verdict(&generations)]);
    row.extend(has_ids.then(|| plain(found.lost_ids().map_or("-".to_owned(), |lost| lost.to_string()))));
    row
}

/// The comparison of two prompts.
type PageComparison = Result<KeptLength, Error>;

fn verdict(compared: &[&PageComparison]) -> Cell {
    let refused = compared.iter().filter(|kept| kept.is_err()).count();
    let changes = compared.iter().filter(|kept| kept.as_ref().is_ok_and(|kept| !kept.is_stable())).count();
    let mut parts = Vec::new();
    match changes {
        0 if compared.len() > refused => parts.push("stable".to_owned()),
        0 => {}
        1 => parts.push("1 change".to_owned()),
        many => parts.push(format!("{many} changes")),
    }
    if refused > 0 {
        parts.push(format!("{refused} refused"));
    }
    let style = if changes > 0 { Style::Warning } else { Style::Plain };
    (style, if parts.is_empty() { "-".to_owned() } else { parts.join(", ") })
}

/// Appends the errors of refused steps, each with the conversations that it refuses.
fn push_refusals(out: &mut String, report: &Report, paint: Paint) {
    let mut refusals: Vec<(String, Vec<&str>)> = Vec::new();
    for (case, found) in &report.cases {
        for (_, error) in found.refusals() {
            let words = error.to_string();
            let known = refusals.iter_mut().find(|(known, _)| *known == words);
            match known {
                Some((_, names)) if names.contains(&case.name.as_str()) => {}
                Some((_, names)) => names.push(&case.name),
                None => refusals.push((words, vec![&case.name])),
            }
        }
    }
    if !refusals.is_empty() {
        out.push_str(&format!("\n{}\n", paint.text(Style::Strong, "refused")));
    }
    for (words, names) in refusals {
        out.push_str(&format!("  {}: {}\n", visible::escape(&names.join(", ")), visible::escape(&words)));
    }
}
