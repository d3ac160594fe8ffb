use std::ops::Range;

use rolecall_format::Format;

use crate::loss::by_format::written_in;
use crate::{Prompt, Trust, Turn};

/// What determines where replies end.
#[derive(Clone, Copy, Debug)]
pub struct ReplyRule<'a> {
    /// The format that wrote the prompt, unless a chat template did. Its rule for what carries loss
    /// determines the end.
    pub format: Option<&'a Format>,
    /// The texts of the tokens that may stop the model.
    pub stops: &'a [String],
}

/// Where a reply ends in a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplyEnd {
    /// The end of the last text of the message.
    pub body: usize,
    /// The token that stops the model: the first one in the prompt's own text after the message, or
    /// the one that the format's rule names.
    pub stop: Option<Range<usize>>,
    /// The end of what the prompt itself writes for the message after that, without white space:
    /// what closes a call, for example.
    pub own: usize,
    /// Whether that token belongs to the message's own turn, not to the opening of the next one.
    pub is_own: bool,
    /// The end of what the model writes if it writes the reply as the prompt does. A token that
    /// stops it is included.
    pub end: usize,
}

/// Finds where the reply of a message ends. The reply begins at `from`.
///
/// For a format, the reply ends where its rule for what carries loss ends it. For a chat template,
/// only the prompt's own text after the message's last byte, and before any text of a later
/// message, is searched, so what messages spell does not matter.
pub fn reply_end(prompt: &Prompt, message: usize, from: usize, rule: ReplyRule<'_>) -> ReplyEnd {
    let end = end_by_stops(prompt, message, from, rule.stops);
    let is_reply = |turn: &Turn| turn.is_reply() && turn.message == Some(message);
    let turn = prompt.turns().iter().rposition(is_reply).filter(|at| prompt.turn_span(*at).end > from);
    let (Some(format), Some(turn)) = (rule.format, turn) else { return end };
    let written = written_in(prompt, format, turn);
    let turn = prompt.turn_span(turn);
    // A stop word need not be a control token.
    let stop = written.stop.or(end.stop);
    let is_own = stop.as_ref().is_none_or(|stop| stop.end <= turn.end);
    ReplyEnd { stop, is_own, end: written.range.end, ..end }
}

/// Finds where the reply of a message ends, if the prompt contains it.
pub fn reply_end_of(prompt: &Prompt, message: usize, rule: ReplyRule<'_>) -> Option<ReplyEnd> {
    let turn = prompt.turns().iter().rfind(|turn| turn.message == Some(message)).map(|turn| turn.start);
    Some(reply_end(prompt, message, turn.or_else(|| prompt.message_start(message))?, rule))
}

/// Finds where a reply ends by the texts of the tokens that may stop the model.
fn end_by_stops(prompt: &Prompt, message: usize, from: usize, stops: &[String]) -> ReplyEnd {
    let length = prompt.text().len();
    let from = from.min(length);
    let turns = prompt.turns();
    // A later turn may repeat text of the message, such as the name of the function that it called.
    let own = (0..turns.len()).rfind(|at| turns[*at].message == Some(message) && prompt.turn_span(*at).end > from);
    let own_end = own.map_or(length, |at| prompt.turn_span(at).end);
    let (mut body, mut next) = (from, length);
    for piece in prompt.text.pieces_in(from..length).filter(|piece| !piece.text.is_empty()) {
        match prompt.message_of(piece.source) {
            Some(said) if said == message && piece.start < own_end => body = piece.start + piece.text.len(),
            Some(said) if said > message => {
                next = piece.start;
                break;
            }
            _ => {}
        }
    }
    let stop = stop_after(prompt, body..next.max(body), own, stops);
    let own_text = prompt.text().get(body..if own.is_some() { own_end } else { body }).unwrap_or_default();
    let own_text = body + own_text.trim_end().len();
    let turn_end = if own.is_some() { own_end } else { next };
    let is_own = stop.as_ref().is_none_or(|stop| stop.end <= turn_end);
    let end = stop.as_ref().map_or(own_text, |stop| stop.end);
    ReplyEnd { body, own: own_text, stop, is_own, end }
}

/// Returns the token that stops the model after the last text of a message: the one that ends first in `rest`,
/// which reaches to the next text of another. `turn` is the message's own turn. In the turn of the next
/// message, only the first token stops the model.
pub(crate) fn stop_after(
    prompt: &Prompt,
    rest: Range<usize>,
    turn: Option<usize>,
    stops: &[String],
) -> Option<Range<usize>> {
    let stop = first_stop(prompt, rest.clone(), stops)?;
    let turn_end = turn.map_or(rest.end, |turn| prompt.turn_span(turn).end).max(rest.start);
    let is_next = turn.and_then(|turn| prompt.turns().get(turn + 1)).is_some_and(|turn| turn.message.is_some());
    if !is_next || stop.end <= turn_end {
        return Some(stop);
    }
    let text = prompt.text();
    let is_first = text.get(turn_end..stop.start).is_none_or(|between| between.trim().is_empty());
    (is_first && text[stop.clone()].matches(['<', '[']).count() <= 1).then_some(stop)
}

/// Returns the stop token that ends first in text that the template itself wrote.
pub(crate) fn first_stop(prompt: &Prompt, range: Range<usize>, stops: &[String]) -> Option<Range<usize>> {
    let text = prompt.text().get(range.clone())?;
    let is_written =
        |found: &Range<usize>| prompt.stretches(found.clone()).iter().all(|(_, trust)| *trust == Trust::Written);
    let each = stops.iter().filter(|stop| !stop.is_empty()).filter_map(|stop| {
        let found = text.match_indices(stop.as_str());
        let mut found = found.map(|(at, _)| range.start + at..range.start + at + stop.len());
        found.find(is_written)
    });
    each.min_by_key(|found| (found.end, std::cmp::Reverse(found.start)))
}
