//! A prompt of what a template wrote.

use std::sync::Arc;

use rolecall_conversation::{Conversation, Role};
use rolecall_format::{Generation, Slot, sources};
use rolecall_jinja as jinja;
use rolecall_text::{Source, Text};

use super::prepare::Inputs;
use crate::origin::Origins;
use crate::{Prompt, Turn};

pub(super) fn prompt(conversation: &Conversation, inputs: &Inputs<'_>, output: jinja::Output, end: usize) -> Prompt {
    let mut origins = Origins::with_capacity(conversation.messages.len() * 2 + 8);
    let mut ends: Vec<(usize, Source)> = Vec::with_capacity(output.pieces().size_hint().0);
    let mut turns: Vec<Turn> = Vec::with_capacity(conversation.messages.len() + 2);
    // Neighbouring pieces of one input are one.
    let mut last: Option<(jinja::Tag, Source, Option<usize>)> = None;
    // Neighbouring pieces have one mark.
    let mut pass: (jinja::MarkId, Option<usize>) = Default::default();
    for piece in output.pieces().take_while(|piece| piece.start < end) {
        if piece.mark != pass.0 {
            pass = (piece.mark, output.marks(piece.mark).find_map(|mark| inputs.message_of(mark.item)));
        }
        let mut message = pass.1;
        let source = match piece.origin {
            jinja::Origin::Input { tag, .. } => match last {
                Some((same, source, said_by)) if same == tag => {
                    message = message.or(said_by);
                    source
                }
                _ => match inputs.add_origin(tag, &mut origins) {
                    Some((number, said_by)) => {
                        message = message.or(said_by);
                        let source = sources::beyond(0, number);
                        last = Some((tag, source, said_by));
                        source
                    }
                    None => sources::FORMAT,
                },
            },
            jinja::Origin::Literal { offset, .. } if offset.get().is_some() => sources::FORMAT,
            // A literal that a filter changed is no longer what the template says.
            jinja::Origin::Literal { .. } | jinja::Origin::Engine => sources::MADE,
        };
        if turns.last().is_none_or(|turn| turn.message != message) {
            if message.is_some() && turns.len() > 1 && turns.last().is_some_and(|turn| turn.message.is_none()) {
                // Text of no message between two of them closes the first.
                turns.pop();
            }
            if turns.last().is_none_or(|turn| turn.message != message) {
                let slot = slot(conversation, message, turns.is_empty());
                turns.push(Turn { start: piece.start, slot, message });
            }
        }
        let piece_end = (piece.start + piece.text.len()).min(end);
        match ends.last_mut() {
            Some(last) if last.1 == source => last.0 = piece_end,
            _ if piece.text.is_empty() => {}
            _ => ends.push((piece_end, source)),
        }
    }
    let generated = generated(&output, end);
    let mut characters = output.into_string();
    characters.truncate(end);
    let text = Text::from_ends(characters, ends).expect("the pieces of an output join to its text");
    Prompt {
        template: None,
        text,
        origins,
        controls: Arc::from([]),
        turns,
        generation: Arc::new(Generation::default()),
        dropped: Vec::new(),
        calls_as_wanted: false,
        unusual: Vec::new(),
        open: inputs.generates || conversation.continue_final_message,
        generated,
    }
}

/// Which kind of turn a message has, or what stands at no message.
fn slot(conversation: &Conversation, message: Option<usize>, is_first: bool) -> Slot {
    match message.and_then(|index| conversation.messages.get(index)).map(|message| message.role()) {
        Some(Role::System) => Slot::System,
        Some(Role::User) => Slot::User,
        Some(Role::Tool) => Slot::Tool,
        Some(_) => Slot::Assistant,
        None if is_first => Slot::Begin,
        None => Slot::Generate,
    }
}

/// What the template marks as the model's own words, up to the end.
fn generated(output: &jinja::Output, end: usize) -> Vec<std::ops::Range<usize>> {
    let border = |at: usize| (0..=at.min(end)).rev().find(|at| output.text().is_char_boundary(*at)).unwrap_or(0);
    output.generations().iter().map(|span| border(span.start)..border(span.start + span.bytes)).collect()
}
