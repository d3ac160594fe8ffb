use rolecall_render::{Origin, Prompt};
use rolecall_text::common_prefix;

use super::opening::Pair;
use super::{LearnedComparison, Opening, Outcome, Spot};

/// The first place where two texts differ, after their opening tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// How the texts open, if they open differently.
    pub opening: Option<Opening>,
    /// The place in each text.
    pub spots: [Spot; 2],
    /// How their learned parts compare, if both are training texts.
    pub learned: Option<LearnedComparison>,
}

impl Difference {
    pub(super) fn swapped(self) -> Difference {
        let [a, b] = self.spots;
        Difference {
            opening: self.opening.map(Opening::swapped),
            spots: [b, a],
            learned: self.learned.map(LearnedComparison::swapped),
        }
    }
}

/// Compares two prompts.
pub(super) fn compare(pair: Pair<'_>) -> Outcome {
    match parting(pair) {
        Some(at) => Outcome::Text(Box::new(difference(pair, at))),
        None => pair.opening().map_or(Outcome::Same, Outcome::Opening),
    }
}

/// Returns the difference of two prompts that first differ at these offsets.
pub(super) fn difference(pair: Pair<'_>, at: [usize; 2]) -> Difference {
    let [a, b] = pair.prompts;
    let at = whole_marks(a, b, at);
    Difference { opening: pair.opening(), spots: [Spot::at(a, at[0]), Spot::at(b, at[1])], learned: None }
}

/// Returns the offset in each prompt where they first differ after their openings.
pub(super) fn parting(pair: Pair<'_>) -> Option<[usize; 2]> {
    let same = common(pair);
    let at = pair.from.map(|from| from + same);
    (0..2).any(|side| at[side] < pair.prompts[side].text().len()).then_some(at)
}

/// Returns the number of equal bytes after the openings. Control tokens are not cut.
pub(super) fn common(pair: Pair<'_>) -> usize {
    let ([a, b], [from_a, from_b]) = (pair.prompts, pair.from);
    let mut same = common_prefix(&a.text()[from_a..], &b.text()[from_b..]);
    loop {
        let before = same;
        for (prompt, from) in [(a, from_a), (b, from_b)] {
            same = control_around(prompt, from + same).map_or(same, |start| start.saturating_sub(from));
        }
        if same == before {
            return same;
        }
    }
}

/// Returns where to show a difference. If it is within a marker in literal text, this is the start
/// of the marker.
fn whole_marks(a: &Prompt, b: &Prompt, at: [usize; 2]) -> [usize; 2] {
    let mark = open_mark(&a.text()[..at[0]]);
    let literal =
        |prompt: &Prompt, at: usize| at.checked_sub(mark).and_then(|at| prompt.origin_at(at)) == Some(Origin::Format);
    if mark > 0 && literal(a, at[0]) && literal(b, at[1]) { at.map(|at| at - mark) } else { at }
}

/// Returns the length of an open marker, such as `<|us` or `[IN`, at the end of a text.
fn open_mark(text: &str) -> usize {
    const LONGEST: usize = 24;
    let inside = |character: char| character.is_ascii_alphanumeric() || "|_/-".contains(character);
    let tail = text.len() - text.trim_end_matches(inside).len();
    let opens = text[..text.len() - tail].ends_with(['<', '[']);
    if opens && tail < LONGEST { tail + 1 } else { 0 }
}

/// Returns the start of the control token that contains an offset.
fn control_around(prompt: &Prompt, offset: usize) -> Option<usize> {
    let inside = |start: usize, length: usize| start < offset && offset < start + length;
    let mut controls = prompt.segments().filter(|segment| matches!(segment.origin, Origin::Control(_)));
    controls.find(|segment| inside(segment.start, segment.text.len())).map(|segment| segment.start)
}
