//! The replies in a prompt that a chat template wrote.
//!
//! A reply begins where the generation prompt ends, and ends with the first stop token after the
//! last text of the message. Both are found in the template's own text next to the message, by the
//! origins of that text.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use rolecall_conversation::{Conversation, Role};

use super::openings::{Openings, common_prefix};
use super::speech::{Kind, Speech, speeches};
use super::{LossNote, Written};
use crate::origin::Speaker;
use crate::{ChatTemplate, Origin, Prompt, TemplateOptions, Trust};

/// Returns the text that the model writes.
pub(super) fn replies(
    prompt: &Prompt,
    conversation: &Conversation,
    template: &ChatTemplate,
    options: &TemplateOptions,
    stops: &[String],
) -> (Vec<Written>, Vec<LossNote>) {
    let speeches = speeches(prompt);
    let mut found = Found {
        prompt,
        conversation,
        stops,
        openings: Openings::new(conversation, template, options),
        said: HashMap::new(),
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

struct Found<'a> {
    prompt: &'a Prompt,
    conversation: &'a Conversation,
    stops: &'a [String],
    openings: Openings<'a>,
    /// What each message that speaks in several places has said so far.
    said: HashMap<usize, HashSet<Origin>>,
    replies: Vec<Written>,
    notes: Vec<LossNote>,
}

impl Found<'_> {
    fn add(&mut self, message: usize, speeches: &[Speech], at: usize) {
        let speech = &speeches[at];
        let before = at.checked_sub(1).map(|before| &speeches[before]);
        let Some(start) = self.start(message, before, speech) else {
            return self.notes.push(LossNote::NoOpening { message });
        };
        let next = speeches.get(at + 1).map_or(self.prompt.text().len(), |next| next.start);
        let (body_end, next) = match self.echo(speech) {
            Some(gap) => (gap.start.max(start), gap.end),
            None => (speech.end.max(start), next),
        };
        let stop = self.stop(body_end..next.max(body_end));
        let end = match &stop {
            Some(stop) => stop.end,
            None => self.own_end(message, speech, body_end..next.max(body_end)),
        };
        self.replies.push(Written { message: Some(message), range: start..end, stop });
    }

    /// Reports whether a speech only repeats what the message already said in earlier ones.
    fn is_repeated(&mut self, message: usize, speech: &Speech) -> bool {
        let new = self.said(speech.start..speech.end);
        let said = self.said.entry(message).or_default();
        let is_repeated = new.iter().all(|origin| said.contains(origin));
        said.extend(new);
        is_repeated
    }

    /// Returns the origins of the messages' texts in a range.
    fn said(&self, range: Range<usize>) -> HashSet<Origin> {
        let segments = self.prompt.segments_in(range).map(|segment| segment.origin);
        segments.filter(|origin| origin.message().is_some()).collect()
    }

    /// Returns the template's text after which it only repeats what the message already said, such
    /// as the name of a function before its result, if that text has a stop token.
    fn echo(&self, speech: &Speech) -> Option<Range<usize>> {
        let border = speech.gaps.iter().rev().find(|gap| self.stop((*gap).clone()).is_some())?.clone();
        let before = self.said(speech.start..border.start);
        self.said(border.end..speech.end).iter().all(|origin| before.contains(origin)).then_some(border)
    }

    /// Returns where a reply begins: after the text that the engine receives as the end of the
    /// prompt.
    fn start(&mut self, message: usize, before: Option<&Speech>, speech: &Speech) -> Option<usize> {
        // The template is still at an earlier message: no probe ends here.
        if let Some(Speech { speaker: Speaker::Message(later), end, .. }) = before
            && *later > message
        {
            self.notes.push(LossNote::Undetermined { message, range: *end..speech.start });
            return Some(speech.start);
        }
        let kind = Kind::of(before, self.conversation);
        let from = before.map_or(0, |before| before.end);
        let tail = match kind {
            // Nothing precedes the reply that a probe could end with.
            Kind::Nothing => None,
            _ => self.openings.tail(&kind, message),
        };
        let text = self.prompt.text();
        let turn = self.prompt.turns().get(speech.turn).filter(|turn| turn.message == Some(message));
        let own = turn.map_or(from, |turn| turn.start.max(from));
        if let Some(tail) = tail {
            let same = shared(&text[from..], &tail);
            let is_whole = same == tail.len() && kind != Kind::Role(Role::Assistant);
            // If the template ends the message before differently in the probe, the two part
            // before the reply's own turn.
            let opened = text.get(own..from + same);
            if is_whole || opened.is_some_and(|opened| !opened.trim().is_empty()) {
                return Some(self.beyond_spaces(message, from + same, &tail[same..]));
            }
        }
        let mut added = self.openings.added(&kind, message)?;
        // An engine has to open a turn after the assistant's own, even if the template does not.
        if added.is_empty() && kind == Kind::Role(Role::Assistant) {
            added = self.openings.added(&Kind::Nothing, 0)?;
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
            return Some(speech.start);
        }
        Some(start)
    }

    /// Returns where a reply starts if its turn and the generation prompt part at `start`, and
    /// `rest` is the rest of the generation prompt. If the two differ only in white space there,
    /// the turn's opening does not count.
    fn beyond_spaces(&mut self, message: usize, start: usize, rest: &str) -> usize {
        let text = &self.prompt.text()[start..];
        let spaces = text.len() - text.trim_start().len();
        let rest = rest.trim_start();
        let opened = rest.trim_end();
        if opened.is_empty() || !text[spaces..].starts_with(opened) {
            return start;
        }
        let end = start + spaces + common_prefix(&text[spaces..], rest);
        self.notes.push(LossNote::Undetermined { message, range: start..end });
        end
    }

    /// Returns the stop token that ends first in text that the template itself wrote.
    fn stop(&self, range: Range<usize>) -> Option<Range<usize>> {
        let text = &self.prompt.text()[range.clone()];
        let is_written = |found: &Range<usize>| {
            self.prompt.stretches(found.clone()).iter().all(|(_, trust)| *trust == Trust::Written)
        };
        let each = self.stops.iter().filter(|stop| !stop.is_empty()).filter_map(|stop| {
            let found = text.match_indices(stop.as_str());
            let mut found = found.map(|(at, _)| range.start + at..range.start + at + stop.len());
            found.find(is_written)
        });
        each.min_by_key(|found| (found.end, std::cmp::Reverse(found.start)))
    }

    /// Returns the end of a reply without a stop token: that of the text that the template writes
    /// for its message, without white space.
    fn own_end(&self, message: usize, speech: &Speech, range: Range<usize>) -> usize {
        let turns = self.prompt.turns();
        let is_own = turns.get(speech.turn).is_some_and(|turn| turn.message == Some(message));
        if !is_own {
            return range.start;
        }
        let end = self.prompt.turn_span(speech.turn).end.clamp(range.start, range.end);
        range.start + self.prompt.text()[range.start..end].trim_end().len()
    }
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
