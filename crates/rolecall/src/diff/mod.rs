//! In: two formats or models, or more formats, and [`Telling`] conversations. Out: a [`Comparison`] of two or a [`Matrix`] of many.
//! Between: `written` has each format write a conversation to be answered, to be learned from and to be served;
//! `texts` finds where two prompts part, `learned` where two losses do, `served` whether one serves what the other trains on.
//! Start reading at [`compare`].

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

use rolecall_format::Format;
pub use rolecall_render::Error as Refusal;
use rolecall_render::Options;

pub use learned::{Learned, LossDifference};
pub use matrix::{Cell, Matrix};
pub use models::{SameIds, compare_models};
pub use opening::Opening;
pub use outcome::{Outcome, Side};
pub use spot::{Spot, Stand};
pub use telling::Telling;
pub use texts::Difference;
pub use view::View;
pub use written::{Lesson, Written};

/// What two formats make of some conversations.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The formats' names.
    pub formats: [String; 2],
    /// The texts that each stops at.
    pub stops: [Vec<String>; 2],
    /// One for each conversation, in their order.
    pub cases: Vec<Case>,
    /// Whether the prompts have the same ids, where that was compared.
    pub ids: Option<SameIds>,
}

/// What two formats make of one conversation.
#[derive(Clone, Debug)]
pub struct Case {
    /// The conversation.
    pub telling: Telling,
    /// What each of the formats writes.
    pub written: [Written; 2],
    /// One for each view that applies, in the order of the views.
    pub findings: Vec<(View, Outcome)>,
}

/// Compares what two formats write, view by view. An outcome's sides are the two formats in the order given.
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
pub fn compare(formats: [&Format; 2], tellings: &[Telling], views: &[View], options: &Options) -> Comparison {
    let cases = tellings.iter().map(|telling| {
        let written = formats.map(|format| Written::new(telling, format, options));
        let findings = views.iter().filter_map(|view| Some((*view, view.compare(&written[0], &written[1])?)));
        Case { findings: findings.collect(), telling: telling.clone(), written }
    });
    Comparison {
        formats: formats.map(|format| format.name.clone()),
        stops: formats.map(written::stops),
        cases: cases.collect(),
        ids: None,
    }
}

impl Comparison {
    /// Whether nothing that was compared differs.
    pub fn is_same(&self) -> bool {
        self.findings().all(|(.., outcome)| outcome.is_same()) && self.ids.iter().all(|ids| ids.same == ids.taken)
    }

    /// Whether the formats say anything at all: a pair that refuses everything cannot be compared.
    pub fn says_anything(&self) -> bool {
        self.findings().any(|(.., outcome)| !matches!(outcome, Outcome::BothRefuse(_)))
    }

    /// All outcomes in order.
    pub fn findings(&self) -> impl Iterator<Item = (&Case, View, &Outcome)> {
        self.cases.iter().flat_map(|case| case.findings.iter().map(move |(view, outcome)| (case, *view, outcome)))
    }

    /// What became of a view, conversation by conversation.
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
