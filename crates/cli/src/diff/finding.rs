//! Draws a single difference.

use std::ops::Range;

use rolecall::Prompt;
use rolecall::diff::{Case, Outcome, Side, View};

use super::excerpt::{Excerpt, around};
use super::words::{Names, sentence};
use crate::paint::{Paint, Style};
use crate::visible;

/// A difference, and the views that show it.
pub struct Finding<'a> {
    case: &'a Case,
    views: Vec<View>,
    outcome: &'a Outcome,
    what: String,
}

/// Collects the differences to draw. A difference that several views share appears once.
pub fn gather<'a>(found: impl Iterator<Item = (&'a Case, View, &'a Outcome)>) -> Vec<Finding<'a>> {
    let mut findings: Vec<Finding<'a>> = Vec::new();
    for (case, view, outcome) in found {
        let what = sentence(outcome, Names { names: ["A", "B"], quote: false });
        let same = |finding: &&mut Finding<'a>| {
            finding.case.telling.name == case.telling.name
                && finding.what == what
                && places(finding.outcome) == places(outcome)
        };
        match findings.iter_mut().find(same) {
            Some(finding) => finding.views.push(view),
            None => findings.push(Finding { case, views: vec![view], outcome, what }),
        }
    }
    findings
}

/// Draws a description of the difference and the two excerpts, one below the other, with a caret
/// where they diverge.
pub fn draw(finding: &Finding<'_>, formats: &[String; 2], paint: Paint) -> String {
    let views: Vec<&str> = finding.views.iter().map(|view| view.name()).collect();
    let title = format!("{} ({})", visible::escape(&finding.case.telling.name), views.join(", "));
    let mut out = format!("{}: {}\n", paint.text(Style::Strong, &title), visible::escape(&finding.what));
    let lines = finding.views.first().map_or_else(Vec::new, |view| lines(finding.case, *view, finding.outcome, paint));
    let label = |side: Side| visible::escape(&format!("{} {}", side.letter(), formats[side.index()])).into_owned();
    let width = lines.iter().map(|(side, _)| visible::width(&label(*side))).max().unwrap_or(0);
    let column = lines.iter().map(|(_, excerpt)| excerpt.column).max().unwrap_or(0);
    for (side, excerpt) in &lines {
        out.push_str("  ");
        paint.push(&mut out, Style::Frame, &visible::padded(&label(*side), width));
        // Align both places to one column, since the text before them may differ in width.
        out.push_str(&format!("  {}{}\n", " ".repeat(column - excerpt.column), excerpt.line));
    }
    if !lines.is_empty() {
        out.push_str(&" ".repeat(2 + width + 2 + column));
        paint.push(&mut out, Style::Error, "^");
        out.push('\n');
    }
    out
}

/// Returns an excerpt for each text that exists.
fn lines(case: &Case, view: View, outcome: &Outcome, paint: Paint) -> Vec<(Side, Excerpt)> {
    let texts = [Side::A, Side::B].map(|side| Some((side, text(case, view, side)?)));
    let Some(places) = places(outcome) else { return Vec::new() };
    let lines = texts.into_iter().flatten();
    lines.map(|(side, (prompt, loss))| (side, around(prompt, places[side.index()], loss, paint))).collect()
}

/// Returns the byte offsets where the two texts diverge, if both exist.
fn places(outcome: &Outcome) -> Option<[usize; 2]> {
    match outcome {
        Outcome::Text(difference) => Some(difference.spots.each_ref().map(|spot| spot.offset)),
        Outcome::Loss(loss) => Some(loss.spans.each_ref().map(|span| span.start)),
        Outcome::Opening(_) => Some([0, 0]),
        _ => None,
    }
}

/// Returns the text that a format writes in a view, and the parts that carry loss.
fn text(case: &Case, view: View, side: Side) -> Option<(&Prompt, Option<&[Range<usize>]>)> {
    let written = &case.written[side.index()];
    let trains = match view {
        View::Chat => return Some((written.chat.as_ref().ok()?, None)),
        View::Training => true,
        View::Serving => side == Side::A,
        View::ServingBack => side == Side::B,
    };
    if trains {
        let lesson = written.lesson.as_ref()?.as_ref().ok()?;
        return Some((&lesson.prompt, Some(&lesson.loss)));
    }
    Some((written.question.as_ref()?.as_ref().ok()?, None))
}
