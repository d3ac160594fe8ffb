//! Which bytes of a prompt a training loss may touch: computed from turns and origins, never searched for.

use std::ops::Range;

use rolecall_conversation::{Conversation, Json, Message};
use rolecall_format::{Format, Layout, LossRule, Op, Slot};

use crate::{Error, Origin, Prompt, Turn};

/// Whose text is learned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LossPolicy {
    /// Every assistant message.
    #[default]
    Assistant,
    /// The last assistant message.
    Last,
    /// Everything.
    All,
}

/// The bytes that carry loss, in order. Of an assistant's turn that is what the model writes: everything behind the
/// generation prompt up to and with the token that ends the turn (which some families only write as the next turn's
/// first). A message that says `"weight": 0` or `"loss": false` carries none, whatever the policy. No loss at all is an
/// error: a trainer would learn nothing and not be told.
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
        // The template says itself what the model's own words are.
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
            // A shifted mask leaves out nothing but what others say.
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

/// What the template marks as the model's own words: of the last reply alone, where that is asked for, and not of messages
/// that carry no loss.
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

/// Whether a turn is a message's that carries no loss.
fn is_silent(turn: &Turn, conversation: &Conversation) -> bool {
    let message = turn.message.and_then(|index| conversation.messages.get(index));
    message.is_some_and(|message| !carries_loss(message))
}

/// Of an assistant's turn: what stands behind the generation prompt, up to and with the token that ends the turn.
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

/// A turn without its first control token, and with the control token that follows it.
pub(crate) fn shifted(prompt: &Prompt, turn: Range<usize>) -> Range<usize> {
    let control = |range: Range<usize>| {
        let first = prompt.segments_in(range).next();
        first.filter(|first| matches!(first.origin, Origin::Control(_))).map(|first| first.text.len())
    };
    let start = turn.start + control(turn.clone()).unwrap_or_default();
    let end = turn.end + control(turn.end..prompt.text().len()).unwrap_or_default();
    start..end
}

/// How many bytes of an assistant's turn the generation prompt gives. A turn that makes calls may open otherwise than
/// the generation prompt ends (a family writes nothing where text would stand): then as much of it as is the same.
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
            // Whichever way the token is spelled here.
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

/// What a message says of itself: `weight` as OpenAI's fine-tuning has it, `loss` as others do.
fn carries_loss(message: &Message) -> bool {
    let object = message.as_object();
    let weightless = match object.get("weight") {
        Some(Json::Number(number)) => number.as_f64() == Some(0.0),
        _ => false,
    };
    let lossless = match object.get("loss") {
        Some(Json::Bool(loss)) => !loss,
        // XTuner: a text says yes as `true` or `1` and no otherwise, letter case aside.
        Some(Json::String(loss)) => !(loss.eq_ignore_ascii_case("true") || loss == "1"),
        _ => false,
    };
    !weightless && !lossless
}
