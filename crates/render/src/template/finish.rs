//! Conversion of a template's output to a prompt.

use std::sync::Arc;

use rolecall_conversation::Role;
use rolecall_format::{Generation, Slot, sources};
use rolecall_jinja as jinja;
use rolecall_text::{Source, Text};

use super::messages::Messages;
use super::prepare::{Inputs, PieceOfJoined, Trace};
use crate::account::LazyAccount;
use crate::origin::Origins;
use crate::{Prompt, Turn};

/// Builds the prompt from the output up to `end`. If it follows that of an earlier rendering,
/// `before` has the last two turns of that. If the prompt is to be accounted for, `trace` records
/// what comes from which input.
pub(super) fn prompt(
    inputs: &Inputs<'_>,
    output: jinja::Output,
    end: usize,
    before: &[Turn],
    mut trace: Option<&mut Trace>,
) -> Prompt {
    let messages = &inputs.said_by;
    // Of many messages at hand, an output that goes on from an earlier one may have only the last few.
    let pieces = output.pieces().size_hint().0;
    let mut origins = Origins::with_capacity(pieces.min(messages.at_hand() * 2 + 8));
    let mut ends: Vec<(usize, Source)> = Vec::with_capacity(pieces);
    let mut turns: Vec<Turn> = Vec::with_capacity(before.len() + pieces.min(messages.at_hand() + 4));
    turns.extend(before.iter().map(|turn| Turn { start: 0, ..*turn }));
    // Adjacent pieces of the same input share an origin.
    let mut last: Option<(jinja::Tag, Source, Option<usize>)> = None;
    // Adjacent pieces often share a mark.
    let mut pass: (jinja::MarkId, Option<usize>) = Default::default();
    for piece in output.pieces().take_while(|piece| piece.start < end) {
        if piece.mark != pass.0 {
            pass = (piece.mark, output.marks(piece.mark).find_map(|mark| inputs.message_of(mark.item)));
        }
        let mut message = pass.1;
        let source = match piece.origin {
            jinja::Origin::Input { tag, offset } => {
                let root = inputs.root(tag);
                let source = match last {
                    Some((same, source, said_by)) if same == root => {
                        message = message.or(said_by);
                        source
                    }
                    _ => match inputs.add_origin(tag, &mut origins) {
                        Some((number, said_by)) => {
                            message = message.or(said_by);
                            let source = sources::beyond(0, number);
                            last = Some((root, source, said_by));
                            source
                        }
                        None => sources::FORMAT,
                    },
                };
                if let Some(trace) = &mut trace {
                    inputs.trace(tag, &piece, offset.get(), message, trace);
                }
                source
            }
            jinja::Origin::Literal { offset, .. } if offset.get().is_some() => sources::FORMAT,
            // A literal that a filter changed is no longer the template's literal text.
            jinja::Origin::Literal { id, .. } => {
                if let Some(trace) = &mut trace {
                    trace.literal(piece.text, message, || output.literal(id).map(|literal| literal.text));
                }
                sources::MADE
            }
            jinja::Origin::Engine => {
                if let Some(trace) = &mut trace {
                    trace.engine(piece.text, message);
                }
                sources::MADE
            }
        };
        if turns.last().is_none_or(|turn| turn.message != message) {
            if message.is_some() && turns.len() > 1 && turns.last().is_some_and(|turn| turn.message.is_none()) {
                // Text that belongs to no message, between two messages, closes the first one.
                turns.pop();
            }
            if turns.last().is_none_or(|turn| turn.message != message) {
                let slot = slot(messages, message, turns.is_empty());
                turns.push(Turn { start: piece.start, slot, message });
            }
        }
        // What was joined has the origins of its parts.
        if inputs.has_joined()
            && let Some(pieces) = parts_of(inputs, &piece)
        {
            push_parts(piece.start, pieces, end, &mut origins, &mut ends);
            continue;
        }
        let piece_end = (piece.start + piece.text.len()).min(end);
        match ends.last_mut() {
            Some(last) if last.1 == source => last.0 = piece_end,
            _ if piece.text.is_empty() => {}
            _ => ends.push((piece_end, source)),
        }
    }
    if !before.is_empty() {
        // The turn before may go on.
        let first = turns.iter().rposition(|turn| turn.start == 0).unwrap_or(0);
        turns.drain(..first);
        turns.retain(|turn| turn.start < end);
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
        names_as_tokens: Vec::new(),
        account: LazyAccount::default(),
        unusual: Vec::new(),
        open: inputs.generates,
        generated,
    }
}

/// Returns the parts of a piece of an input that was joined.
#[cold]
fn parts_of(inputs: &Inputs<'_>, piece: &jinja::Piece<'_>) -> Option<Vec<PieceOfJoined>> {
    let jinja::Origin::Input { tag, offset } = piece.origin else { return None };
    let offset = offset.get()?;
    inputs.divide(inputs.root(tag), offset..offset + piece.text.len())
}

/// Adds the pieces of a text from a byte on, each with the origin of its part. A line break between them was made.
fn push_parts(
    start: usize,
    pieces: Vec<PieceOfJoined>,
    end: usize,
    origins: &mut Origins,
    ends: &mut Vec<(usize, Source)>,
) {
    let first = pieces.first().map_or(0, |(bytes, _)| bytes.start);
    for (bytes, place) in pieces {
        let piece_end = (start + bytes.end - first).min(end);
        if ends.last().is_some_and(|last| last.0 >= piece_end) {
            continue;
        }
        let source = match place {
            None => sources::MADE,
            Some((message, field)) => {
                let (number, _) = origins.add_field(|path| {
                    path.push_str(&field);
                    message
                });
                sources::beyond(0, number)
            }
        };
        ends.push((piece_end, source));
    }
}

/// Returns the slot for a message, or for text that belongs to no message.
fn slot(messages: &Messages<'_>, message: Option<usize>, is_first: bool) -> Slot {
    match message.and_then(|index| messages.message(index)).map(|message| message.role()) {
        Some(Role::System) => Slot::System,
        Some(Role::User) => Slot::User,
        Some(Role::Tool) => Slot::Tool,
        Some(_) => Slot::Assistant,
        None if is_first => Slot::Begin,
        None => Slot::Generate,
    }
}

/// Returns the text that the template marks as generated by the model, up to the end.
fn generated(output: &jinja::Output, end: usize) -> Vec<std::ops::Range<usize>> {
    let border = |at: usize| (0..=at.min(end)).rev().find(|at| output.text().is_char_boundary(*at)).unwrap_or(0);
    output.generations().iter().map(|span| border(span.start)..border(span.start + span.bytes)).collect()
}
