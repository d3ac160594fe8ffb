//! The replies in a prompt that a format wrote, found from its turns and its generation prompt.

use std::ops::Range;

use rolecall_format::{Format, Layout, LossRule, Op, Slot};
use rolecall_text::common_prefix;

use super::{LossNote, ModelText};
use crate::growth::first_stop;
use crate::{Origin, Prompt};

/// Returns the text that the model writes, by the format's rule.
pub(super) fn replies(prompt: &Prompt, format: &Format) -> (Vec<ModelText>, Vec<LossNote>) {
    let turns = prompt.turns().iter().enumerate();
    // A shifted mask leaves out only what others say.
    let is_shifted = |slot: Slot| format.rules.loss == LossRule::Shifted && slot == Slot::Tool;
    let turns = turns.filter(|(_, turn)| turn.is_reply() || is_shifted(turn.slot));
    let replies = turns.map(|(at, _)| written_in(prompt, format, at)).filter(|written| !written.range.is_empty());
    (replies.collect(), Vec::new())
}

/// Returns what the model writes in a turn, by the format's rule. `at` is the index of the turn.
pub(crate) fn written_in(prompt: &Prompt, format: &Format, at: usize) -> ModelText {
    let turn = prompt.turn_span(at);
    let (range, stop) = match format.rules.loss {
        LossRule::Turn => (turn, None),
        LossRule::Reply => written_by_model(prompt, format, turn),
        LossRule::Shifted => (shifted(prompt, turn), None),
    };
    let stop = stop.or_else(|| stop_in(prompt, format, range.clone()));
    ModelText { message: prompt.turns().get(at).and_then(|turn| turn.message), range, stop }
}

/// Returns what stops the model in a range: the last token that ends a turn, or else a stop word.
fn stop_in(prompt: &Prompt, format: &Format, range: Range<usize>) -> Option<Range<usize>> {
    last_stop(prompt, format, range.clone()).or_else(|| stop_word(prompt, format, range))
}

/// Returns the token at the end of a range that ends a turn.
fn last_stop(prompt: &Prompt, format: &Format, range: Range<usize>) -> Option<Range<usize>> {
    let stops = prompt.segments_in(range).filter(|segment| is_stop(&segment.origin, format));
    stops.last().map(|segment| segment.start..segment.start + segment.text.len())
}

/// Returns the stop word, which is no control token, that follows the last text of a message in a range.
fn stop_word(prompt: &Prompt, format: &Format, range: Range<usize>) -> Option<Range<usize>> {
    let said = prompt.text.pieces_in(range.clone()).filter(|piece| prompt.message_of(piece.source).is_some());
    let body = said.last().map_or(range.start, |piece| piece.start + piece.text.len());
    first_stop(prompt, body..range.end, &format.generation.stop)
}

fn is_stop(origin: &Origin, format: &Format) -> bool {
    matches!(origin, Origin::Control(id) if format.control(*id).ends_turn)
}

/// Returns the part of an assistant's turn after the generation prompt, up to and including the
/// token that ends the turn, and that token.
fn written_by_model(prompt: &Prompt, format: &Format, turn: Range<usize>) -> (Range<usize>, Option<Range<usize>>) {
    let start = turn.start + opening(prompt, format, &turn);
    if let Some(stop) = stop_in(prompt, format, start..turn.end) {
        return (start..stop.end, Some(stop));
    }
    // The model writes the next turn's first token, which tells the engine to stop.
    let next = prompt.segments_in(turn.end..prompt.text().len()).next();
    let stop = next.filter(|next| is_stop(&next.origin, format));
    let stop = stop.map(|next| next.start..next.start + next.text.len());
    (start..stop.as_ref().map_or(turn.end, |stop| stop.end), stop)
}

/// Returns the turn without its first control token, extended by the control token that follows it.
fn shifted(prompt: &Prompt, turn: Range<usize>) -> Range<usize> {
    let control = |range: Range<usize>| {
        let first = prompt.segments_in(range).next();
        first.filter(|first| matches!(first.origin, Origin::Control(_))).map(|first| first.text.len())
    };
    let start = turn.start + control(turn.clone()).unwrap_or_default();
    let end = turn.end + control(turn.end..prompt.text().len()).unwrap_or_default();
    start..end
}

/// Returns the number of bytes at the start of an assistant's turn that the generation prompt
/// already provides. A turn with calls may open differently from the end of the generation prompt,
/// because some families write nothing in place of the text. In that case, only the common prefix
/// counts.
fn opening(prompt: &Prompt, format: &Format, turn: &Range<usize>) -> usize {
    let text = &prompt.text()[turn.clone()];
    let mut given = 0;
    for op in format.layout(Slot::Generate).map_or(&[][..], Layout::ops) {
        let rest = &text[given..];
        let (same, whole) = match op {
            Op::Literal(literal) => {
                let same = common_prefix(rest, literal);
                (same, same == literal.len())
            }
            // The prompt may use any spelling of the token.
            Op::Control(id) => match format.control(*id).texts().find(|text| rest.starts_with(text)) {
                Some(text) => (text.len(), true),
                None => (0, false),
            },
            Op::Seam | Op::Own(_) => (0, true),
            Op::Hole { .. } | Op::Group(_) => (0, false),
        };
        given += same;
        if !whole {
            break;
        }
    }
    given
}
