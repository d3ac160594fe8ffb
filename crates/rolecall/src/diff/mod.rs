//! Comparing what formats, chat templates and models write.
//!
//! [`compare`] compares two formats, [`compare_models`] two models, and [`Matrix::new`] any number
//! of formats, over a set of [`Telling`] conversations. The submodules: `written` renders a
//! conversation in each format as a prompt, as a training text and as a served prompt; `texts`
//! finds where two prompts differ, `learned` where two losses differ, and `served` whether one
//! format serves what the other trains on. Start reading at [`compare`].

mod json;
mod learned;
mod matrix;
mod models;
mod opening;
mod outcome;
mod served;
mod spot;
mod telling;
mod texts;
mod view;
mod written;

use std::sync::Arc;

use rolecall_format::Format;
pub use rolecall_render::Error as Refusal;
use rolecall_render::Options;

pub use learned::{LearnedComparison, LossDifference};
pub use matrix::{Cell, Matrix};
pub use models::{SameIds, compare_models};
pub use opening::Opening;
pub use outcome::{Outcome, Side};
pub use spot::{Spot, Stand};
pub use telling::Telling;
pub use texts::Difference;
pub use view::View;
pub use written::{DiffSide, Lesson};

/// A comparison of two formats over some conversations.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The names of the formats.
    pub formats: [String; 2],
    /// The stop texts of each format.
    pub stops: [Vec<String>; 2],
    /// One case for each conversation, in order.
    pub cases: Vec<Case>,
    /// Whether the prompts have the same ids, if that was compared.
    pub ids: Option<SameIds>,
}

/// A comparison of two formats for one conversation.
#[derive(Clone, Debug)]
pub struct Case {
    /// The conversation.
    pub telling: Telling,
    /// What each format writes.
    pub written: [DiffSide; 2],
    /// The outcome of each view that applies, in the order of the views.
    pub findings: Vec<(View, Outcome)>,
}

/// Compares what two formats write, view by view. The sides of an outcome are the two formats in
/// the given order.
///
/// ```
/// use rolecall::diff::{Outcome, Telling, View, compare};
/// use rolecall::format::registry;
/// use rolecall::render::Options;
///
/// let registry = registry();
/// let (a, b) = (registry.get("chatml").expect("built in"), registry.get("internlm2").expect("built in"));
/// let comparison = compare([a, b], &Telling::all(), &[View::Chat], &Options::default());
/// let (_, outcome) = &comparison.cases[0].findings[0];
/// assert!(matches!(outcome, Outcome::Opening(opening) if opening.texts == ["", "<s>"]));
/// assert!(!comparison.is_same());
/// ```
pub fn compare(formats: [&Arc<Format>; 2], tellings: &[Telling], views: &[View], options: &Options) -> Comparison {
    let cases = tellings.iter().map(|telling| {
        let written = formats.map(|format| DiffSide::new(telling, format, options));
        let findings = views.iter().filter_map(|view| Some((*view, view.compare(&written[0], &written[1])?)));
        Case { findings: findings.collect(), telling: telling.clone(), written }
    });
    Comparison {
        formats: formats.map(|format| format.name.clone()),
        stops: formats.map(|format| written::stops(format)),
        cases: cases.collect(),
        ids: None,
    }
}

impl Comparison {
    /// Reports whether nothing that was compared differs.
    pub fn is_same(&self) -> bool {
        self.findings().all(|(.., outcome)| outcome.is_same()) && self.ids.iter().all(|ids| ids.same == ids.taken)
    }

    /// Reports whether the formats can be compared: if both reject every conversation, the
    /// comparison says nothing.
    pub fn says_anything(&self) -> bool {
        self.findings().any(|(.., outcome)| !matches!(outcome, Outcome::BothRefuse(_)))
    }

    /// Returns all outcomes in order.
    pub fn findings(&self) -> impl Iterator<Item = (&Case, View, &Outcome)> {
        self.cases.iter().flat_map(|case| case.findings.iter().map(move |(view, outcome)| (case, *view, outcome)))
    }

    /// Returns the counts of one view over all conversations.
    pub fn cell(&self, view: View) -> Cell {
        Cell::count(
            self.findings()
                .filter(|(_, other, _)| *other == view)
                .map(|(case, _, outcome)| (case.telling.name.as_str(), outcome)),
        )
    }
}

#[cfg(test)]
mod tests;
