use rolecall_format::Slot;
use rolecall_render::{Origin, Prompt};

/// The number of characters that are kept on each side of a place.
const SHOWN: usize = 60;

/// A place in a prompt, with the text around it.
#[derive(Clone, Debug, PartialEq)]
pub struct Spot {
    /// The byte offset.
    pub offset: usize,
    /// The origin of the byte. `None` at the end of the prompt.
    pub origin: Option<Origin>,
    /// The layout that wrote its turn.
    pub slot: Option<Slot>,
    /// The position relative to the messages of the conversation.
    pub stand: Stand,
    /// The last characters before the place.
    pub before: String,
    /// The first characters at the place.
    pub text: String,
}

/// A position relative to the messages of the conversation. Messages are numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stand {
    /// Before the text of all messages.
    Start,
    /// Before a message's text, in its turn.
    Before(usize),
    /// In a message's text.
    Within(usize),
    /// After a message's text.
    Behind(usize),
    /// In the generation prompt.
    Generate,
}

impl Spot {
    pub(super) fn at(prompt: &Prompt, offset: usize) -> Spot {
        let text = prompt.text();
        let turn = prompt.turns().iter().rfind(|turn| turn.start <= offset);
        let before = text[..offset].char_indices().rev().nth(SHOWN - 1).map_or(0, |(at, _)| at);
        Spot {
            offset,
            origin: prompt.origin_at(offset),
            slot: turn.map(|turn| turn.slot),
            stand: stand(prompt, offset),
            before: text[before..offset].to_owned(),
            text: text[offset..].chars().take(SHOWN).collect(),
        }
    }
}

fn stand(prompt: &Prompt, offset: usize) -> Stand {
    let said =
        || prompt.segments().filter_map(|segment| Some((segment.origin.message()?, segment.start, segment.text.len())));
    let turn = prompt.turns().iter().rposition(|turn| turn.start <= offset);
    let end = turn.map_or(prompt.text().len(), |at| prompt.turn_span(at).end);
    let turn = turn.map(|at| prompt.turns()[at]);
    if turn.is_some_and(|turn| turn.slot == Slot::Generate) {
        return Stand::Generate;
    }
    let last = said().take_while(|(_, start, _)| *start < offset).last();
    match last {
        Some((message, start, length)) if offset < start + length => return Stand::Within(message),
        // After a text of the same turn.
        Some((message, start, _)) if turn.is_none_or(|turn| turn.start <= start) => return Stand::Behind(message),
        _ => {}
    }
    let next = said().find(|(_, start, _)| *start >= offset).filter(|(_, start, _)| *start < end);
    match (next, turn.and_then(|turn| turn.message), last) {
        (Some((message, ..)), ..) | (None, Some(message), _) => Stand::Before(message),
        (None, None, Some((message, ..))) => Stand::Behind(message),
        (None, None, None) => Stand::Start,
    }
}
