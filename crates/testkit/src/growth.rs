//! Checks that taking up a rendering where it stopped gives the end of the whole rendering.

use std::collections::BTreeMap;

use rolecall::Prompt;
use rolecall::conversation::{Conversation, Message};
use rolecall::render::Writer;
use rolecall::render::growth::{Grown, Growth, Longer, NotGrown};

/// What became of the attempts to grow.
#[derive(Debug, Default)]
pub struct Tally {
    /// The grown prompts.
    pub grown: usize,
    /// Those that began after the first byte.
    pub shorter: usize,
    /// The refusals by reason.
    pub reasons: BTreeMap<String, usize>,
}

/// The number of messages that are at hand.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// The first ones.
    pub head: usize,
    /// The last ones.
    pub tail: usize,
}

impl Window {
    /// All messages.
    pub const ALL: Window = Window { head: usize::MAX, tail: usize::MAX };
}

/// Returns the first messages of a conversation.
pub fn first(conversation: &Conversation, count: usize, opened: bool) -> Conversation {
    let messages = conversation.messages[..count].to_vec();
    Conversation { messages, add_generation_prompt: Some(opened), ..conversation.clone() }
}

/// Grows with the messages of a window.
pub fn grow(writer: &Writer, growth: &Growth, longer: &Conversation, window: Window) -> Result<Grown, NotGrown> {
    let messages: Vec<&Message> = longer.messages.iter().collect();
    let head = &messages[..window.head.min(messages.len())];
    let tail = &messages[messages.len().saturating_sub(window.tail)..];
    let frame = Conversation { messages: Vec::new(), ..longer.clone() };
    writer.grow(growth, &Longer { frame: &frame, count: messages.len(), head, tail })
}

/// Checks that a grown prompt is the end of the whole one, and that the text before it is that of
/// the earlier prompt.
///
/// # Panics
/// If it is not.
pub fn check_grown(what: &str, earlier: &str, whole: &Prompt, grown: &Grown) {
    let (start, prompt) = (grown.start, &grown.prompt);
    assert_eq!(whole.text().get(..start), earlier.get(..start), "{what}: the text before");
    assert_eq!(Some(prompt.text()), whole.text().get(start..), "{what}: the text");
    let end = whole.text().len();
    let own = prompt.segments().map(|segment| (segment.start + start, segment.text, segment.origin));
    let wanted = whole.segments_in(start..end).map(|segment| (segment.start, segment.text, segment.origin));
    assert!(own.eq(wanted), "{what}: the origins");
    let trust = |prompt: &Prompt, range| -> Vec<_> {
        prompt.stretches(range).iter().map(|(range, trust)| (range.len(), *trust)).collect()
    };
    assert_eq!(trust(prompt, 0..prompt.text().len()), trust(whole, start..end), "{what}: the trust");
    let generated = prompt.generated.iter().filter(|span| !span.is_empty());
    let generated: Vec<_> = generated.map(|span| span.start + start..span.end + start).collect();
    let wanted = whole.generated.iter().filter(|span| !span.is_empty() && span.end > start);
    let wanted: Vec<_> = wanted.cloned().collect();
    assert_eq!(generated, wanted, "{what}: the generated spans");
    let turns: Vec<_> = prompt.turns().iter().map(|turn| (turn.start + start, turn.slot, turn.message)).collect();
    let first = whole.turns().iter().rposition(|turn| turn.start <= start).unwrap_or(0);
    let wanted = whole.turns().iter().skip(first).filter(|turn| turn.start.max(start) < end);
    let wanted: Vec<_> = wanted.map(|turn| (turn.start.max(start), turn.slot, turn.message)).collect();
    assert_eq!(turns, wanted, "{what}: the turns");
    assert_eq!((prompt.open, prompt.template()), (whole.open, whole.template()), "{what}");
}

/// Grows from every prefix of a conversation, in steps of several sizes, with and without
/// generation prompts, with few and with all messages at hand, and through several turns.
///
/// # Panics
/// If a grown prompt is not the end of the whole one.
pub fn check_growth(name: &str, writer: &Writer, conversation: &Conversation, tally: &mut Tally) {
    let length = conversation.messages.len();
    let mut wholes = Vec::new();
    for count in 1..=length {
        wholes.push([false, true].map(|opened| writer.render(&first(conversation, count, opened)).ok()));
    }
    let whole = |count: usize, opened: bool| wholes[count - 1][usize::from(opened)].as_ref();
    for count in 1..length {
        for opened in [false, true] {
            let what = format!("{name}, {count} messages, opened {opened}");
            let found = writer.render_growing(&first(conversation, count, opened));
            assert_eq!(found.as_ref().ok().map(|(prompt, _)| prompt), whole(count, opened), "{what}");
            let Ok((prompt, Some(growth))) = found else { continue };
            let few = |step: usize| Window { head: count % 3, tail: step + 1 + count % 2 };
            for (step, more, window) in [
                (0, !opened, Window::ALL),
                (1, opened, Window::ALL),
                (1, opened, few(1)),
                (1, !opened, few(1)),
                (2, opened, few(2)),
                (3, true, few(3)),
            ] {
                let what = format!("{what}, and {step} more, opened {more}, {window:?}");
                // The whole text so far, and the state.
                let (mut text, mut growth) = (prompt.text().to_owned(), growth.clone());
                let mut end = count + step;
                while end <= length {
                    let grown = match grow(writer, &growth, &first(conversation, end, more), window) {
                        Ok(grown) => grown,
                        Err(reason) => {
                            *tally.reasons.entry(reason.code().to_owned()).or_default() += 1;
                            break;
                        }
                    };
                    let Some(whole) = whole(end, more) else { panic!("{what}, {end}: the whole is refused") };
                    check_grown(&format!("{what}, {end}"), &text, whole, &grown);
                    tally.grown += 1;
                    tally.shorter += usize::from(grown.start > 0);
                    text.truncate(grown.start);
                    text.push_str(grown.prompt.text());
                    let Some(next) = grown.growth else { break };
                    growth = next;
                    end += step.max(1);
                }
            }
        }
    }
}
