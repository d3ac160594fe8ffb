use fastrand::Rng;
use rolecall::Stop;
use rolecall::format::Format;
use rolecall::parse::{CallsInReasoning, JsonPolicy, ParseOptions, TextAfterCalls, UnclosedReasoning, UnknownNames};

use super::message::{Taste, said};
use super::mutation::mutate;
use super::subject::Subject;

/// An output and parser options that reach the parser's limits: calls in reasoning, small caps,
/// every policy.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The output.
    pub text: String,
    /// The inserted words, each of which must be emitted once or reported.
    pub words: Vec<String>,
    /// The options of the parser.
    pub options: ParseOptions,
    /// The reason why the output ends.
    pub stop: Stop,
}

/// Makes the output and options of a seed, or returns why the format does not write the message.
pub fn limits(subject: &Subject, rng: &mut Rng) -> Result<Limits, String> {
    let outer = said(&subject.places, &subject.marks, Taste::Honest, rng);
    let inner = said(&subject.places, &subject.marks, Taste::Honest, rng);
    let written = subject.write(&outer)?;
    let call = subject.write(&inner)?.text();
    // A call inside the reasoning, if there is any: complete, cut off or repeated.
    let call = match rng.u8(..4) {
        0 => call[..border(&call, rng)].to_owned(),
        1 => call.repeat(rng.usize(2..5)),
        _ => call,
    };
    let mut text = written.text();
    let reasoning =
        outer.message.get("reasoning_content").and_then(rolecall::conversation::Json::as_str).unwrap_or_default();
    let at = match text.find(reasoning).filter(|_| !reasoning.is_empty()) {
        Some(start) => start + border(reasoning, rng),
        None => border(&text, rng),
    };
    text.insert_str(at, &call);
    let mut words = Vec::new();
    if rng.bool() {
        let mutated = mutate(&text, &subject.marks, rng);
        (text, words) = (mutated.text, mutated.words);
    }
    let mut options = subject.options(&outer, &written.prompt_tail);
    if rng.bool() {
        options.tools.extend(inner.tools());
    }
    if rng.u8(..4) == 0 {
        options.tools.clear();
    }
    options.cap = cap(&[text.len(), call.len(), text.len().saturating_sub(at)], rng);
    options.calls_in_reasoning = match rng.u8(..6) {
        0 => None,
        1 => Some(CallsInReasoning::Draft),
        2 => Some(CallsInReasoning::Call),
        _ => Some(CallsInReasoning::Unclosed),
    };
    options.unclosed_reasoning = [None, Some(UnclosedReasoning::Content)][rng.usize(..2)];
    options.unknown_names = if rng.bool() { UnknownNames::Text } else { UnknownNames::Pass };
    options.text_after_calls = if rng.bool() { TextAfterCalls::Report } else { TextAfterCalls::Content };
    options.json = if rng.bool() { JsonPolicy::Strict } else { JsonPolicy::Lenient };
    options.check_schema = rng.bool();
    options.max_calls = [None, None, Some(0), Some(1), Some(2)][rng.usize(..5)];
    let stop = [Stop::End, Stop::End, Stop::Length, Stop::Abort][rng.usize(..4)];
    Ok(Limits { text, words, options, stop })
}

/// Chooses a cap: small, or close to a whole fraction of one of these lengths.
fn cap(lengths: &[usize], rng: &mut Rng) -> Option<usize> {
    match rng.u8(..8) {
        0 => None,
        1..=4 => Some(rng.usize(..=64)),
        _ => {
            let length = lengths[rng.usize(..lengths.len())] / rng.usize(1..5);
            Some((length + rng.usize(..7)).saturating_sub(3))
        }
    }
}

/// Splits a text at the control tokens of a format and flags these pieces.
pub fn tokens_of<'t>(text: &'t str, format: &Format) -> Vec<(&'t str, bool)> {
    let mut pieces = Vec::new();
    let (mut from, mut at) = (0, 0);
    while let Some(next) = text[at..].chars().next() {
        let controls = format.controls.iter().map(|control| control.text.as_str()).filter(|mark| !mark.is_empty());
        let mark = controls.filter(|mark| text[at..].starts_with(mark)).max_by_key(|mark| mark.len());
        let Some(mark) = mark else {
            at += next.len_utf8();
            continue;
        };
        pieces.extend([(&text[from..at], false), (&text[at..at + mark.len()], true)]);
        at += mark.len();
        from = at;
    }
    pieces.push((&text[from..], false));
    pieces.retain(|(piece, _)| !piece.is_empty());
    pieces
}

/// Returns a random position between two characters.
fn border(text: &str, rng: &mut Rng) -> usize {
    let mut at = rng.usize(..=text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}
