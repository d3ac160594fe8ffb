//! Who wrote the ids of a prompt.

use rolecall_conversation::REASONING;
use rolecall_encode::EncodedToken;
use rolecall_render::{Origin, Prompt, Segment};

use super::line::Run;
use super::{Author, SegmentPart};

/// Adds tokens of a prompt to a run. A token with any byte of the conversation is the caller's.
pub(super) fn push_tokens(run: &mut Run, prompt: &Prompt, tokens: &[EncodedToken]) {
    let Some(first) = tokens.first() else { return };
    let text = prompt.text();
    let segments: Vec<_> = prompt.segments_in(first.start..text.len()).collect();
    let turns = prompt.turns();
    let (mut at, mut turn, mut done) = (0, 0, 0);
    let before = run.ids.len();
    while let Some(token) = tokens.get(done) {
        while segments.get(at).is_some_and(|segment| segment.start + segment.text.len() <= token.start) {
            at += 1;
        }
        while turns.get(turn).is_some_and(|turn| turn.start <= token.start) {
            turn += 1;
        }
        let touching = segments[at..].iter().take_while(|segment| segment.start < token.end);
        let said = touching.map(|segment| &segment.origin).find(|origin| !origin.is_format());
        let (author, message, part) = match said {
            Some(Origin::Message { message, field }) => (Author::Caller, Some(*message), part_of(field)),
            Some(Origin::Tool { .. }) => (Author::Caller, None, SegmentPart::Tools),
            Some(Origin::Document { .. }) => (Author::Caller, None, SegmentPart::Documents),
            Some(Origin::Option { .. }) => (Author::Caller, None, SegmentPart::Field),
            _ => {
                let message = turn.checked_sub(1).and_then(|turn| turns[turn].message);
                (Author::Template, message, SegmentPart::Frame)
            }
        };
        // The tokens that begin in the same text of the conversation, or are wholly in the same text
        // of the format and in the same turn.
        let next_turn = turns.get(turn).map_or(usize::MAX, |turn| turn.start);
        let rest = &tokens[done + 1..];
        let alike = match segments.get(at).filter(|segment| segment.start < token.end) {
            None => 0,
            Some(Segment { start, text, origin, .. }) if origin.is_format() => {
                let end = start + text.len();
                let is_alike = |token: &&EncodedToken| token.end <= end && token.start < next_turn.min(end);
                if said.is_some() { 0 } else { rest.iter().take_while(is_alike).count() }
            }
            Some(Segment { start, text, .. }) => {
                let end = start + text.len();
                rest.iter().take_while(|token| token.start < end).count()
            }
        };
        let next = done + 1 + alike;
        run.label_all(before + done..before + next, author, message, part, 0.0);
        done = next;
    }
    run.ids.extend(tokens.iter().map(|token| token.id));
    // Tokens that each hold a part of a character all span it. The first one gets its text.
    let (before, mut end) = (run.bytes.len(), first.start);
    run.ends.extend(tokens.iter().map(|token| {
        end = end.max(token.end);
        (before + end - first.start) as u32
    }));
    run.bytes.extend_from_slice(&text.as_bytes()[first.start..end]);
}

/// Returns who wrote the tokens of a prompt.
pub(crate) fn segments_of(prompt: &Prompt, tokens: &[EncodedToken]) -> Vec<super::Segment> {
    let mut run = Run::default();
    push_tokens(&mut run, prompt, tokens);
    run.segments
}

/// Returns the part of a message that a field belongs to.
fn part_of(field: &str) -> SegmentPart {
    let name = field.split(['.', '[']).next().unwrap_or(field);
    match name {
        "content" | "" => SegmentPart::Content,
        key if REASONING.contains(&key) => SegmentPart::Reasoning,
        "tool_calls" | "function_call" => SegmentPart::Calls,
        "tools" => SegmentPart::Tools,
        _ => SegmentPart::Field,
    }
}
