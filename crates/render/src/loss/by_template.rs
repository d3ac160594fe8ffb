//! The replies in a prompt that a chat template wrote.
//!
//! A reply begins where the generation prompt ends, and ends with the first stop token after the
//! last text of the message. Both are found in the template's own text next to the message, by the
//! origins of that text.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use rolecall_conversation::{Conversation, Role};
use rolecall_text::common_prefix;

use super::openings::Openings;
use super::speech::{QuestionKind, Speech, speeches};
use super::{LossNote, ModelText};
use crate::growth::{first_stop, stop_after};
use crate::origin::Speaker;
use crate::{ChatTemplate, Origin, Prompt, TemplateOptions};

/// Returns the text that the model writes.
pub(super) fn replies(
    prompt: &Prompt,
    conversation: &Conversation,
    template: &ChatTemplate,
    options: &TemplateOptions,
    stops: &[String],
) -> (Vec<ModelText>, Vec<LossNote>) {
    let speeches = speeches(prompt);
    let mut found = ReplySearch {
        prompt,
        conversation,
        stops,
        openings: Openings::new(conversation, template, options),
        said: HashMap::new(),
        last: HashMap::new(),
        replies: Vec::with_capacity(speeches.len() / 2 + 1),
        notes: Vec::new(),
    };
    let mut places = vec![0u32; conversation.messages.len()];
    for speech in &speeches {
        if let Speaker::Message(index) = speech.speaker
            && let Some(places) = places.get_mut(index)
        {
            *places += 1;
        }
    }
    for (at, speech) in speeches.iter().enumerate() {
        if let Speaker::Message(index) = speech.speaker
            && places.get(index).is_some_and(|places| *places > 1)
        {
            let own = prompt.turns().get(speech.turn).is_some_and(|turn| turn.message == Some(index));
            let said = origins(prompt, speech.start..speech.end);
            found.last.extend(said.into_iter().filter(|_| own).map(|origin| (origin, at)));
        }
    }
    for at in 0..speeches.len() {
        let Speaker::Message(message) = speeches[at].speaker else { continue };
        let is_reply = conversation.messages.get(message).is_some_and(|said| *said.role() == Role::Assistant);
        if !is_reply {
            continue;
        }
        // Text in several places belongs to the reply only where the template is at its message.
        let own = prompt.turns().get(speeches[at].turn).is_some_and(|turn| turn.message == Some(message));
        if places[message] > 1 && found.is_repeated(message, &speeches[at]) {
            continue;
        }
        if places[message] > 1 && !own {
            let range = speeches[at].start..speeches[at].end;
            found.notes.push(LossNote::Undetermined { message, range });
            continue;
        }
        found.add(message, &speeches, at);
    }
    (found.replies, found.notes)
}

/// Where a reply begins, whether that could be determined, and whether text of the generation
/// prompt precedes it.
struct Start {
    at: usize,
    is_found: bool,
    is_opened: bool,
}

struct ReplySearch<'a> {
    prompt: &'a Prompt,
    conversation: &'a Conversation,
    stops: &'a [String],
    openings: Openings<'a>,
    /// What each message that speaks in several places has said so far.
    said: HashMap<usize, HashSet<Origin>>,
    /// The index of the last speech that contains a text, for messages that speak in several
    /// places.
    last: HashMap<Origin, usize>,
    replies: Vec<ModelText>,
    notes: Vec<LossNote>,
}

impl ReplySearch<'_> {
    fn add(&mut self, message: usize, speeches: &[Speech], at: usize) {
        let speech = &speeches[at];
        let before = at.checked_sub(1).map(|before| &speeches[before]);
        let Some(Start { at: start, is_found, is_opened }) = self.start(message, before, speech) else {
            return self.notes.push(LossNote::NoOpening { message });
        };
        // A summary of the conversation may precede the turns.
        if !is_opened && self.is_said_later(at, speech) {
            return self.notes.push(LossNote::Undetermined { message, range: speech.start..speech.end });
        }
        if let Some(said) = self.said.get_mut(&message) {
            said.extend(origins(self.prompt, speech.start..speech.end));
        }
        let next = speeches.get(at + 1).map_or(self.prompt.text().len(), |next| next.start);
        let (body_end, next) = match self.echo(speech) {
            Some(gap) => (gap.start.max(start), gap.end),
            None => (speech.end.max(start), next),
        };
        let rest = body_end..next.max(body_end);
        let stop = stop_after(self.prompt, rest.clone(), Some(speech.turn), self.stops);
        let end = match &stop {
            Some(stop) => stop.end,
            None => self.own_end(message, speech, rest, at + 1 < speeches.len()),
        };
        if is_found {
            self.replies.push(ModelText { message: Some(message), range: start..end, stop });
        } else {
            self.notes.push(LossNote::Undetermined { message, range: start..end });
        }
    }

    /// Reports whether a speech only repeats what the message already said in earlier ones.
    fn is_repeated(&mut self, message: usize, speech: &Speech) -> bool {
        let said = self.said.entry(message).or_default();
        origins(self.prompt, speech.start..speech.end).iter().all(|origin| said.contains(origin))
    }

    /// Reports whether the message says all of a speech again.
    fn is_said_later(&self, at: usize, speech: &Speech) -> bool {
        let said = origins(self.prompt, speech.start..speech.end);
        !said.is_empty() && said.iter().all(|origin| self.last.get(origin).is_some_and(|last| *last > at))
    }

    /// Returns the template's text after which it only repeats what the message already said, such
    /// as the name of a function before its result, if that text has a stop token.
    fn echo(&self, speech: &Speech) -> Option<Range<usize>> {
        let border =
            speech.gaps.iter().rev().find(|gap| first_stop(self.prompt, (*gap).clone(), self.stops).is_some())?.clone();
        let before = origins(self.prompt, speech.start..border.start);
        origins(self.prompt, border.end..speech.end).iter().all(|origin| before.contains(origin)).then_some(border)
    }

    /// Returns where a reply begins: after the text that the engine receives as the end of the
    /// prompt.
    fn start(&mut self, message: usize, before: Option<&Speech>, speech: &Speech) -> Option<Start> {
        // The template is still at an earlier message: no probe ends here.
        if let Some(Speech { speaker: Speaker::Message(later), end, .. }) = before
            && *later > message
        {
            self.notes.push(LossNote::Undetermined { message, range: *end..speech.start });
            return Some(Start { at: speech.start, is_found: speech.start < speech.end, is_opened: false });
        }
        let kind = QuestionKind::of(before, self.conversation);
        let from = before.map_or(0, |before| before.end);
        let tail = match kind {
            // Nothing precedes the reply that a probe could end with.
            QuestionKind::Nothing => None,
            _ => self.openings.tail(&kind, message),
        };
        let text = self.prompt.text();
        let turn = self.prompt.turns().get(speech.turn).filter(|turn| turn.message == Some(message));
        let own = turn.map_or(from, |turn| turn.start.max(from));
        if let Some(tail) = tail {
            let same = shared(&text[from..], &tail);
            let is_whole = same == tail.len() && kind != QuestionKind::Role(Role::Assistant);
            // If the template ends the message before differently in the probe, the two part
            // before the reply's own turn.
            let opened = text.get(own..from + same);
            if is_whole || opened.is_some_and(|opened| !opened.trim().is_empty()) {
                let at = self.beyond_spaces(message, from + same, &tail[same..]);
                return Some(Start { at, is_found: true, is_opened: !tail[..same].trim().is_empty() });
            }
        }
        let mut added = self.openings.added(&kind, message)?;
        // An engine has to open a turn after the assistant's own, even if the template does not.
        if added.is_empty() && kind == QuestionKind::Role(Role::Assistant) {
            added = self.openings.added(&QuestionKind::Nothing, 0)?;
        }
        let ended = self.replies.last().map_or(own, |before| before.range.end.max(from));
        let same = |from: usize| {
            let same = shared(&text[from..], &added);
            if text[from..from + same].trim().is_empty() { 0 } else { same }
        };
        let from = [own, ended].into_iter().find(|from| same(*from) > 0).unwrap_or(own);
        let same = same(from);
        let start = self.beyond_spaces(message, from + same, &added[same..]);
        if start == from && !added.trim().is_empty() && from < speech.start {
            // The turn opens in another way than its generation prompt.
            self.notes.push(LossNote::Undetermined { message, range: from..speech.start });
            return Some(Start { at: speech.start, is_found: true, is_opened: false });
        }
        // Nothing of the message shows where its text begins.
        let is_found = start > from || added.trim().is_empty() || speech.start < speech.end;
        Some(Start { at: start, is_found, is_opened: start > from })
    }

    /// Returns where a reply starts if its turn and the generation prompt part at `start`, and
    /// `rest` is the rest of the generation prompt. If the two differ only in white space or in a
    /// counter there, the turn's opening does not count.
    fn beyond_spaces(&mut self, message: usize, start: usize, rest: &str) -> usize {
        let text = &self.prompt.text()[start..];
        let digits = |text: &str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let around = start.saturating_sub(1)..start + usize::from(digits(text) > 0);
        let is_counter = digits(text) + digits(rest) > 0
            && self.prompt.text().is_char_boundary(around.start)
            && self.prompt.segments_in(around).any(|segment| segment.is_made);
        let (spaces, rest) = match is_counter {
            true => (digits(text), &rest[digits(rest)..]),
            false => (text.len() - text.trim_start().len(), rest.trim_start()),
        };
        let opened = rest.trim_end();
        if opened.is_empty() || !text[spaces..].starts_with(opened) {
            return start;
        }
        let end = start + spaces + common_prefix(&text[spaces..], rest);
        self.notes.push(LossNote::Undetermined { message, range: start..end });
        end
    }

    /// Returns the end of a reply without a stop token: that of the text that the template writes
    /// for its message, without white space.
    fn own_end(&mut self, message: usize, speech: &Speech, range: Range<usize>, is_followed: bool) -> usize {
        let turns = self.prompt.turns();
        let is_own = turns.get(speech.turn).is_some_and(|turn| turn.message == Some(message));
        if !is_own {
            return range.start;
        }
        let turn_end = self.prompt.turn_span(speech.turn).end;
        let end = turn_end.clamp(range.start, range.end);
        let end = range.start + self.prompt.text()[range.start..end].trim_end().len();
        // Another speaks in the same turn: the text between may open what it says.
        if is_followed && range.end < turn_end && range.start < end {
            self.notes.push(LossNote::Undetermined { message, range: range.start..end });
            return range.start;
        }
        end
    }
}

/// Returns the origins of the messages' texts in a range.
fn origins(prompt: &Prompt, range: Range<usize>) -> HashSet<Origin> {
    let origins = prompt.segments_in(range).map(|segment| segment.origin);
    origins.filter(|origin| origin.message().is_some()).collect()
}

/// Returns the length in bytes of the beginning that two texts share, without a part of a marker:
/// different markers may begin with the same characters, but they share no id.
fn shared(text: &str, opening: &str) -> usize {
    let same = common_prefix(text, opening);
    match opening[..same].rfind(['<', '[']) {
        Some(marker) if same < opening.len() && !opening[marker..same].contains(['>', ']']) => marker,
        _ => same,
    }
}
