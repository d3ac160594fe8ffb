//! Draws the comparison of two formats: a line for each conversation, and the first difference of
//! each view.

use rolecall::diff::{Case, Comparison, Outcome, SameIds, View};

use super::finding::{draw as draw_finding, gather};
use super::words::in_short;
use crate::paint::{Paint, Style};
use crate::table::{self, Cell};
use crate::visible;

/// Draws the comparison, with every difference if `all` is set, else with the first of each view.
pub fn draw(comparison: &Comparison, views: &[View], all: bool, paint: Paint) -> String {
    let [a, b] = &comparison.formats;
    let heading =
        |letter: &str, name: &str| format!("{} = {}", paint.text(Style::Strong, letter), visible::escape(name));
    let mut out = format!("{}   {}\n\n", heading("A", a), heading("B", b));
    push_table(&mut out, comparison, views, paint);
    for finding in gather(to_draw(comparison, views, all)) {
        out.push('\n');
        out.push_str(&draw_finding(&finding, &comparison.formats, paint));
    }
    push_stops(&mut out, comparison, paint);
    push_ids(&mut out, comparison, paint);
    push_marks(&mut out, paint);
    out
}

/// Selects the differences to draw: the first of each view, or all. If there are only refusals,
/// selects the first of them.
fn to_draw<'a>(
    comparison: &'a Comparison,
    views: &'a [View],
    all: bool,
) -> impl Iterator<Item = (&'a Case, View, &'a Outcome)> {
    let count = if all { usize::MAX } else { 1 };
    let silent = !comparison.says_anything();
    views.iter().flat_map(move |view| {
        let of_view = comparison.findings().filter(move |(_, other, _)| other == view);
        of_view.filter(move |(.., outcome)| silent || !outcome.is_same()).take(count)
    })
}

/// Appends the stop texts of both formats, if they differ.
fn push_stops(out: &mut String, comparison: &Comparison, paint: Paint) {
    let [a, b] = comparison.stops.each_ref().map(|stops| match stops.is_empty() {
        true => "no text".to_owned(),
        false => stops.iter().map(|stop| format!("`{}`", visible::escape(stop))).collect::<Vec<_>>().join(", "),
    });
    if a != b {
        out.push_str(&format!("\n{}   A at {a}; B at {b}\n", paint.text(Style::Strong, "stops")));
    }
}

/// Appends how many prompts have the same ids, if both sides have a tokenizer.
fn push_ids(out: &mut String, comparison: &Comparison, paint: Paint) {
    let Some(SameIds { same, taken, first }) = &comparison.ids else { return };
    let first = first.as_ref().map_or(String::new(), |name| format!("; `{name}` is the first that differs"));
    out.push_str(&format!("\n{}   the same in {same} of {taken} prompts{first}\n", paint.text(Style::Strong, "ids")));
}

/// Appends a table with a line for each conversation, a line with the sums, and a column for each
/// view.
fn push_table(out: &mut String, comparison: &Comparison, views: &[View], paint: Paint) {
    let strong = |text: String| (Style::Strong, text);
    let mut rows = vec![vec![strong("CONVERSATION".to_owned())]];
    rows[0].extend(views.iter().map(|view| strong(heading(*view))));
    for case in &comparison.cases {
        let mut row = vec![(Style::Plain, case.telling.name.clone())];
        row.extend(views.iter().map(|view| {
            let outcome = case.findings.iter().find(|(other, _)| other == view);
            outcome.map_or_else(|| (Style::Plain, "-".to_owned()), |(_, outcome)| outcome_cell(outcome))
        }));
        rows.push(row);
    }
    let mut sums = vec![strong(String::new())];
    sums.extend(views.iter().map(|view| {
        let cell = comparison.cell(*view);
        strong(format!("{} of {}", cell.same, cell.taken()))
    }));
    rows.push(sums);
    table::push(out, paint, "", &rows);
}

fn outcome_cell(outcome: &Outcome) -> Cell {
    let text = in_short(outcome);
    let agrees = text == in_short(&Outcome::Same) || text == "both refuse";
    (if agrees { Style::Plain } else { Style::Warning }, text)
}

fn heading(view: View) -> String {
    match view {
        View::Chat => "CHAT".into(),
        View::Training => "TRAINING".into(),
        View::Serving => "A TRAINED, B SERVED".into(),
        View::ServingBack => "B TRAINED, A SERVED".into(),
    }
}

/// Appends the meaning of the marks that occur.
fn push_marks(out: &mut String, paint: Paint) {
    let all = [
        ("⟦", "⟦ ⟧ control token"),
        ("‹", "‹ › carries loss"),
        ("⏎", "⏎ line break"),
        ("·", "· space"),
        ("→", "→ tab"),
        ("∎", "∎ the end"),
    ];
    let marks: Vec<&str> = all.into_iter().filter(|(mark, _)| out.contains(mark)).map(|(_, name)| name).collect();
    if !marks.is_empty() {
        out.push_str(&format!("\n{}   {}\n", paint.text(Style::Strong, "marks"), marks.join("   ")));
    }
}
