//! Who wrote the ids of a prompt.

use rolecall_encode::EncodedToken;
use rolecall_render::{Origin, Prompt, Segment};

use super::line::Run;
use super::{Author, Part};

/// Adds tokens of a prompt to a run. A token with any byte of the conversation is the caller's.
pub(super) fn push_tokens(run: &mut Run, prompt: &Prompt, tokens: &[EncodedToken]) {
    let Some(first) = tokens.first() else { return };
    let text = prompt.text();
    let segments: Vec<_> = prompt.segments_in(first.start..text.len()).collect();
    let turns = prompt.turns();
    let (mut at, mut turn) = (0, 0);
    // Who wrote the last token, if it begins in a segment of the conversation.
    let mut known = None;
    for (token, number) in tokens.iter().zip(run.ids.len()..) {
        while segments.get(at).is_some_and(|segment| segment.start + segment.text.len() <= token.start) {
            (at, known) = (at + 1, None);
        }
        while turns.get(turn).is_some_and(|turn| turn.start <= token.start) {
            turn += 1;
        }
        let touching = segments[at..].iter().take_while(|segment| segment.start < token.end);
        let (author, message, part) = known.unwrap_or_else(|| {
            let said = touching.map(|segment| &segment.origin).find(|origin| !origin.is_format());
            match said {
                Some(Origin::Message { message, field }) => (Author::Caller, Some(*message), part_of(field)),
                Some(Origin::Tool { .. }) => (Author::Caller, None, Part::Tools),
                Some(Origin::Document { .. }) => (Author::Caller, None, Part::Documents),
                Some(Origin::Option { .. }) => (Author::Caller, None, Part::Field),
                _ => {
                    let message = turn.checked_sub(1).and_then(|turn| turns[turn].message);
                    (Author::Template, message, Part::Frame)
                }
            }
        });
        let is_said = |segment: &&Segment<'_>| segment.start < token.end && !segment.origin.is_format();
        known = segments.get(at).filter(is_said).map(|_| (author, message, part));
        run.label(number, author, message, part, 0.0);
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

/// Returns the part of a message that a field belongs to.
fn part_of(field: &str) -> Part {
    let name = field.split(['.', '[']).next().unwrap_or(field);
    match name {
        "content" | "" => Part::Content,
        "reasoning_content" | "reasoning" | "thinking" => Part::Reasoning,
        "tool_calls" | "function_call" => Part::Calls,
        "tools" => Part::Tools,
        _ => Part::Field,
    }
}
