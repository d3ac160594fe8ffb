use super::Subject;
use super::draft::Draft;
use super::property::{Outcome, check};
use super::twin::twin_beside;
use crate::generate;

/// The maximum number of attempts to shorten a text.
const TRIES: usize = 2_000;

/// Returns the smallest conversation that still fails: everything unnecessary is removed and each
/// text is as short as possible.
pub fn shrink(subject: &Subject, failing: &Draft) -> Draft {
    let fails = |draft: &Draft| matches!(check(subject, draft), Outcome::Failed(_));
    let mut smallest = failing.clone();
    smallest.request =
        generate::shrink(&failing.request, |request| fails(&Draft { request: request.clone(), ..failing.clone() }));
    let mut tries = TRIES;
    for number in 0..smallest.words.len() {
        let mut length = smallest.words[number].hostile.chars().count();
        while length > 0 && tries > 0 {
            let mut from = 0;
            while from < smallest.words[number].hostile.chars().count() && tries > 0 {
                tries -= 1;
                let mut candidate = smallest.clone();
                let text = without(&candidate.words[number].hostile, from, length);
                let others = candidate.words.iter().enumerate().filter(|(at, _)| *at != number);
                let others = others.map(|(_, words)| (words.hostile.as_str(), words.twin.as_str()));
                let twin = twin_beside(&text, others, &subject.marks.plain, &mut fastrand::Rng::with_seed(0));
                (candidate.words[number].hostile, candidate.words[number].twin) = (text, twin);
                match fails(&candidate) {
                    true => smallest = candidate,
                    false => from += length,
                }
            }
            length /= 2;
        }
    }
    smallest
}

/// Removes `length` characters from a text, starting at `from`.
fn without(text: &str, from: usize, length: usize) -> String {
    text.chars().enumerate().filter(|(at, _)| !(from..from + length).contains(at)).map(|(_, c)| c).collect()
}
