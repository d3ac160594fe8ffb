//! Who wrote the ids of a prompt.

use rolecall_encode::EncodedToken;
use rolecall_render::{Origin, Prompt};

use super::line::Run;
use super::{Author, Part};

/// Adds tokens of a prompt to a run. A token with any byte of the conversation is the caller's.
pub(super) fn push_tokens(run: &mut Run, prompt: &Prompt, tokens: &[EncodedToken]) {
    let Some(first) = tokens.first() else { return };
    let text = prompt.text();
    run.reserve(tokens.len());
    let segments: Vec<_> = prompt.segments_in(first.start..text.len()).collect();
    let turns = prompt.turns();
    let mut at = 0;
    // Tokens that each hold a part of a character all span it. The first one gets its text.
    let mut end = first.start;
    for token in tokens {
        while segments.get(at).is_some_and(|segment| segment.start + segment.text.len() <= token.start) {
            at += 1;
        }
        let touching = segments[at..].iter().take_while(|segment| segment.start < token.end);
        let said = touching.map(|segment| &segment.origin).find(|origin| !origin.is_format());
        let (author, message, part) = match said {
            Some(Origin::Message { message, field }) => (Author::Caller, Some(*message), part_of(field)),
            Some(Origin::Tool { .. }) => (Author::Caller, None, Part::Tools),
            Some(Origin::Document { .. }) => (Author::Caller, None, Part::Documents),
            Some(Origin::Option { .. }) => (Author::Caller, None, Part::Field),
            _ => {
                let turn = turns.partition_point(|turn| turn.start <= token.start);
                let message = turn.checked_sub(1).and_then(|turn| turns[turn].message);
                (Author::Template, message, Part::Frame)
            }
        };
        let text = &text.as_bytes()[end..token.end.max(end)];
        run.push(token.id, text, author, message, part, 0.0);
        end = end.max(token.end);
    }
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
