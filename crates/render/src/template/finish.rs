//! A prompt of what a template wrote.

use std::sync::Arc;

use rolecall_conversation::{Conversation, Role};
use rolecall_format::{Generation, Slot, sources};
use rolecall_jinja as jinja;
use rolecall_text::{Source, Text};

use super::prepare::Inputs;
use crate::origin::Origins;
use crate::{Prompt, Turn};

pub(super) fn prompt(conversation: &Conversation, inputs: &Inputs<'_>, output: &jinja::Output, end: usize) -> Prompt {
    let mut origins = Origins::with_capacity(conversation.messages.len() * 2 + 8);
    let mut text = Text::with_capacity(end, output.pieces().size_hint().0);
    let mut turns: Vec<Turn> = Vec::new();
    // Neighbouring pieces of one input are one.
    let mut last: Option<(jinja::Tag, Source)> = None;
    for piece in output.pieces().take_while(|piece| piece.start < end) {
        let characters = &piece.text[..piece.text.len().min(end - piece.start)];
        let mut message = output.marks(piece.mark).find_map(|mark| inputs.message_of(mark.item));
        let source = match piece.origin {
            jinja::Origin::Input { tag, .. } => match (inputs.origin(tag), last) {
                (_, Some((same, source))) if same == tag => source,
                (Some(origin), _) => {
                    message = message.or(origin.message());
                    let source = sources::beyond(0, origins.add(origin.clone()));
                    last = Some((tag, source));
                    source
                }
                (None, _) => sources::FORMAT,
            },
            jinja::Origin::Literal { .. } | jinja::Origin::Engine => sources::FORMAT,
        };
        if message.is_some() && turns.len() > 1 && turns.last().is_some_and(|turn| turn.message.is_none()) {
            // Text of no message between two of them closes the first.
            turns.pop();
        }
        if turns.last().is_none_or(|turn| turn.message != message) {
            let slot = match message.and_then(|index| conversation.messages.get(index)).map(|message| message.role()) {
                Some(Role::System) => Slot::System,
                Some(Role::User) => Slot::User,
                Some(Role::Tool) => Slot::Tool,
                Some(_) => Slot::Assistant,
                None if turns.is_empty() => Slot::Begin,
                None => Slot::Generate,
            };
            turns.push(Turn { start: piece.start, slot, message });
        }
        text.push(characters, source);
    }
    Prompt {
        text,
        origins,
        controls: Arc::from([]),
        turns,
        generation: Arc::new(Generation::default()),
        dropped: Vec::new(),
        generated: generated(output, end),
    }
}

/// What the template marks as the model's own words, up to the end.
fn generated(output: &jinja::Output, end: usize) -> Vec<std::ops::Range<usize>> {
    let border = |at: usize| (0..=at.min(end)).rev().find(|at| output.text().is_char_boundary(*at)).unwrap_or(0);
    output.generations().iter().map(|span| border(span.start)..border(span.start + span.bytes)).collect()
}
