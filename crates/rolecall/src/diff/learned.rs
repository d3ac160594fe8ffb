use std::ops::Range;

use super::opening::Pair;
use super::{Lesson, Opening, Outcome, Side, texts};

/// How the learned parts of two differing texts compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LearnedComparison {
    /// The learned parts are the same.
    Same,
    /// The first learned part that differs. One of the texts may not have it.
    Differs {
        /// The index of the part.
        number: usize,
        /// The part in each text.
        texts: [Option<String>; 2],
    },
}

/// A part of two texts that carries loss in only one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LossDifference {
    /// How the texts open, if they open differently.
    pub opening: Option<Opening>,
    /// The side on which the part carries loss.
    pub by: Side,
    /// The range of the part in each text.
    pub spans: [Range<usize>; 2],
    /// The text of the part.
    pub text: String,
}

impl LearnedComparison {
    pub(super) fn swapped(self) -> LearnedComparison {
        match self {
            LearnedComparison::Same => LearnedComparison::Same,
            LearnedComparison::Differs { number, texts: [a, b] } => {
                LearnedComparison::Differs { number, texts: [b, a] }
            }
        }
    }
}

impl LossDifference {
    pub(super) fn swapped(self) -> LossDifference {
        let [a, b] = self.spans;
        let opening = self.opening.map(Opening::swapped);
        LossDifference { opening, by: self.by.other(), spans: [b, a], text: self.text }
    }
}

/// Compares two training texts: first the texts, then which parts of them carry loss.
pub(super) fn compare(a: &Lesson, b: &Lesson) -> Outcome {
    let pair = Pair::new(&a.prompt, &b.prompt, &[]);
    if let Some(at) = texts::parting(pair) {
        let mut difference = texts::difference(pair, at);
        difference.learned = Some(compare_texts(a, b));
        return Outcome::Text(Box::new(difference));
    }
    let opening = pair.opening();
    match first_span(a, b, pair.from) {
        Some((by, spans)) => {
            let text = a.prompt.text()[spans[0].clone()].to_owned();
            Outcome::Loss(LossDifference { opening, by, spans, text })
        }
        None => opening.map_or(Outcome::Same, Outcome::Opening),
    }
}

/// Returns the first range of two equal texts that carries loss in only one of them.
fn first_span(a: &Lesson, b: &Lesson, [from_a, from_b]: [usize; 2]) -> Option<(Side, [Range<usize>; 2])> {
    let behind = |lesson: &Lesson, from: usize| -> Vec<Range<usize>> {
        let behind = lesson.loss.iter().map(|span| span.start.saturating_sub(from)..span.end.saturating_sub(from));
        behind.collect()
    };
    let (loss_a, loss_b) = (behind(a, from_a), behind(b, from_b));
    let mut borders: Vec<usize> = loss_a.iter().chain(&loss_b).flat_map(|span| [span.start, span.end]).collect();
    borders.sort_unstable();
    let learns = |loss: &[Range<usize>], at: usize| loss.iter().any(|span| span.contains(&at));
    let state = |at: usize| (learns(&loss_a, at), learns(&loss_b, at));
    let first = borders.iter().position(|at| state(*at).0 != state(*at).1)?;
    let start = borders[first];
    let end = borders[first..].iter().copied().find(|at| state(*at) != state(start))?;
    let by = if state(start).0 { Side::A } else { Side::B };
    Some((by, [start + from_a..end + from_a, start + from_b..end + from_b]))
}

/// Returns the first learned part that differs.
fn compare_texts(a: &Lesson, b: &Lesson) -> LearnedComparison {
    let text = |lesson: &Lesson, number: usize| {
        lesson.loss.get(number).map(|span| lesson.prompt.text()[span.clone()].to_owned())
    };
    let numbers = 0..a.loss.len().max(b.loss.len());
    let mut pairs = numbers.map(|number| (number, [text(a, number), text(b, number)]));
    match pairs.find(|(_, [a, b])| a != b) {
        Some((number, texts)) => LearnedComparison::Differs { number, texts },
        None => LearnedComparison::Same,
    }
}
