//! The bytes of a prompt that carry loss in training, computed from turns and origins without
//! searching the text.

use std::ops::Range;

use rolecall_conversation::{Conversation, Json, Message};
use rolecall_format::{Format, Layout, LossRule, Op, Slot};

use crate::{Error, Origin, Prompt, Turn};

/// Which text carries loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LossPolicy {
    /// Every assistant message.
    #[default]
    Assistant,
    /// The last assistant message.
    Last,
    /// The whole prompt.
    All,
}

/// Returns the byte ranges that carry loss, in order.
///
/// In an assistant's turn, these are the bytes that the model writes: everything after the
/// generation prompt up to and including the token that ends the turn. Some families write that
/// token only as the first token of the next turn. A message with `"weight": 0` or `"loss": false`
/// carries no loss under any policy. If no bytes carry loss, this is an error, because a trainer
/// would otherwise silently learn nothing.
///
/// ```
/// use rolecall_conversation::{Conversation, Message};
/// use rolecall_format::builtin;
/// use rolecall_render::{LossPolicy, Options, loss_spans, render};
///
/// let registry = builtin();
/// let format = registry.get("chatml").expect("built in");
/// let conversation = Conversation::new(vec![Message::user("2+2?"), Message::assistant("4")]);
/// let prompt = render(&conversation, format, &Options::default())?;
/// let spans = loss_spans(&prompt, &conversation, format, LossPolicy::Assistant)?;
/// assert_eq!(spans.iter().map(|span| &prompt.text()[span.clone()]).collect::<Vec<_>>(), ["4<|im_end|>"]);
/// # Ok::<(), rolecall_render::Error>(())
/// ```
pub fn loss_spans(
    prompt: &Prompt,
    conversation: &Conversation,
    format: &Format,
    policy: LossPolicy,
) -> Result<Vec<Range<usize>>, Error> {
    let spans = find_spans(prompt, conversation, format, policy);
    match spans.is_empty() {
        true => Err(Error::NoLoss),
        false => Ok(spans),
    }
}

fn find_spans(prompt: &Prompt, conversation: &Conversation, format: &Format, policy: LossPolicy) -> Vec<Range<usize>> {
    if policy != LossPolicy::All && !prompt.generated.is_empty() {
        // The template itself marks the text that the model generates.
        return generated_with_loss(prompt, conversation, policy);
    }
    if policy == LossPolicy::All && conversation.messages.iter().all(carries_loss) {
        return std::iter::once(0..prompt.text().len()).filter(|whole| !whole.is_empty()).collect();
    }
    let turns = prompt.turns();
    let last = turns.iter().rposition(Turn::is_reply);
    let mut spans: Vec<Range<usize>> = Vec::new();
    for (at, turn) in turns.iter().enumerate() {
        let learned = match policy {
            // A shifted mask leaves out only what others say.
            LossPolicy::Assistant if format.rules.loss == LossRule::Shifted => {
                turn.is_reply() || turn.slot == Slot::Tool
            }
            LossPolicy::Assistant => turn.is_reply(),
            LossPolicy::Last => Some(at) == last,
            LossPolicy::All => true,
        };
        if !learned || is_silent(turn, conversation) {
            continue;
        }
        let whole = prompt.turn_span(at);
        let span = match policy {
            LossPolicy::All => whole,
            _ => match format.rules.loss {
                LossRule::Turn => whole,
                LossRule::Reply => written_by_model(prompt, format, whole),
                LossRule::Shifted => shifted(prompt, whole),
            },
        };
        match spans.last_mut() {
            _ if span.is_empty() => {}
            Some(before) if before.end >= span.start => before.end = span.end,
            _ => spans.push(span),
        }
    }
    spans
}

/// Returns the text that the template marks as generated, except in messages that carry no loss. If
/// the policy is `Last`, returns only that of the last reply.
fn generated_with_loss(prompt: &Prompt, conversation: &Conversation, policy: LossPolicy) -> Vec<Range<usize>> {
    let turns = prompt.turns();
    let last = turns.iter().rposition(Turn::is_reply).filter(|_| policy == LossPolicy::Last);
    let is_out = |at: usize, turn: &Turn| is_silent(turn, conversation) || last.is_some_and(|last| last != at);
    let silent: Vec<Range<usize>> =
        turns.iter().enumerate().filter(|(at, turn)| is_out(*at, turn)).map(|(at, _)| prompt.turn_span(at)).collect();
    let mut spans: Vec<Range<usize>> = Vec::new();
    for generated in &prompt.generated {
        let mut start = generated.start;
        let first = silent.partition_point(|turn| turn.end <= generated.start);
        for turn in silent[first..].iter().take_while(|turn| turn.start < generated.end) {
            if start < turn.start {
                spans.push(start..turn.start);
            }
            start = start.max(turn.end);
        }
        if start < generated.end {
            spans.push(start..generated.end);
        }
    }
    spans
}

/// Reports whether a turn belongs to a message that carries no loss.
fn is_silent(turn: &Turn, conversation: &Conversation) -> bool {
    let message = turn.message.and_then(|index| conversation.messages.get(index));
    message.is_some_and(|message| !carries_loss(message))
}

/// Returns the part of an assistant's turn after the generation prompt, up to and including the
/// token that ends the turn.
pub(crate) fn written_by_model(prompt: &Prompt, format: &Format, turn: Range<usize>) -> Range<usize> {
    let start = turn.start + opening(prompt, format, &turn);
    let ends = |range: Range<usize>| {
        let controls = prompt.segments_in(range).filter_map(|segment| match segment.origin {
            Origin::Control(id) if format.control(id).ends_turn => Some(segment.start + segment.text.len()),
            _ => None,
        });
        controls.last()
    };
    if let Some(end) = ends(start..turn.end) {
        return start..end;
    }
    // The model writes the next turn's first token, which tells the engine to stop.
    let next = prompt.segments_in(turn.end..prompt.text().len()).next();
    let closing = next.filter(|next| matches!(next.origin, Origin::Control(id) if format.control(id).ends_turn));
    start..closing.map_or(turn.end, |closing| closing.start + closing.text.len())
}

/// Returns the turn without its first control token, extended by the control token that follows it.
pub(crate) fn shifted(prompt: &Prompt, turn: Range<usize>) -> Range<usize> {
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
                let same =
                    rest.chars().zip(literal.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum();
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

/// Reads the message's own setting: `weight` as in OpenAI's fine-tuning, or `loss` as in other
/// formats.
fn carries_loss(message: &Message) -> bool {
    let object = message.as_object();
    let weightless = match object.get("weight") {
        Some(Json::Number(number)) => number.as_f64() == Some(0.0),
        _ => false,
    };
    let lossless = match object.get("loss") {
        Some(Json::Bool(loss)) => !loss,
        // XTuner: a string means true only if it is `true` (ignoring case) or `1`.
        Some(Json::String(loss)) => !(loss.eq_ignore_ascii_case("true") || loss == "1"),
        _ => false,
    };
    !weightless && !lossless
}
