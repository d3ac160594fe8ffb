use rolecall_render::{Origin, Prompt};

use super::{Learned, Opening, Outcome, Spot, opening};

/// Where two texts part for the first time, behind the tokens that open them.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// How they open, if they do not open alike.
    pub opening: Option<Opening>,
    /// Where they part, in each of them.
    pub spots: [Spot; 2],
    /// What is learned of each, where both are to be learned from.
    pub learned: Option<Learned>,
}

impl Difference {
    pub(super) fn swapped(self) -> Difference {
        let [a, b] = self.spots;
        Difference {
            opening: self.opening.map(Opening::swapped),
            spots: [b, a],
            learned: self.learned.map(Learned::swapped),
        }
    }
}

/// How two prompts compare.
pub(super) fn compare(a: &Prompt, b: &Prompt) -> Outcome {
    match parting(a, b) {
        Some(at) => Outcome::Text(Box::new(difference(a, b, at))),
        None => Opening::between(a, b).map_or(Outcome::Same, Outcome::Opening),
    }
}

/// The first difference of two prompts that part at these bytes.
pub(super) fn difference(a: &Prompt, b: &Prompt, at: [usize; 2]) -> Difference {
    let at = whole_marks(a, b, at);
    Difference { opening: Opening::between(a, b), spots: [Spot::at(a, at[0]), Spot::at(b, at[1])], learned: None }
}

/// The byte of each prompt where they part, if they do so behind their openings.
pub(super) fn parting(a: &Prompt, b: &Prompt) -> Option<[usize; 2]> {
    let same = common(a, b);
    let (from_a, from_b) = (opening::length(a), opening::length(b));
    (from_a + same < a.text().len() || from_b + same < b.text().len()).then_some([from_a + same, from_b + same])
}

/// How many bytes behind their openings are the same; no control token is cut.
pub(super) fn common(a: &Prompt, b: &Prompt) -> usize {
    let (from_a, from_b) = (opening::length(a), opening::length(b));
    let characters = a.text()[from_a..].chars().zip(b.text()[from_b..].chars());
    let mut same: usize = characters.take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum();
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

/// Where to show that two prompts part: before a mark of literal text that they part within.
fn whole_marks(a: &Prompt, b: &Prompt, at: [usize; 2]) -> [usize; 2] {
    let mark = open_mark(&a.text()[..at[0]]);
    let literal =
        |prompt: &Prompt, at: usize| at.checked_sub(mark).and_then(|at| prompt.origin_at(at)) == Some(Origin::Format);
    if mark > 0 && literal(a, at[0]) && literal(b, at[1]) { at.map(|at| at - mark) } else { at }
}

/// How many bytes at a text's end open a mark, `<|us` or `[IN`, without closing it.
fn open_mark(text: &str) -> usize {
    const LONGEST: usize = 24;
    let inside = |character: char| character.is_ascii_alphanumeric() || "|_/-".contains(character);
    let tail = text.len() - text.trim_end_matches(inside).len();
    let opens = text[..text.len() - tail].ends_with(['<', '[']);
    if opens && tail < LONGEST { tail + 1 } else { 0 }
}

/// Where the control token begins that a byte lies within.
fn control_around(prompt: &Prompt, offset: usize) -> Option<usize> {
    let inside = |start: usize, length: usize| start < offset && offset < start + length;
    let mut controls = prompt.segments().filter(|segment| matches!(segment.origin, Origin::Control(_)));
    controls.find(|segment| inside(segment.start, segment.text.len())).map(|segment| segment.start)
}
