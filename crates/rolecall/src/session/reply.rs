use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use rolecall_conversation::{Message, object};
use rolecall_parse::{ParsedCall, Reading, Stop, Why};
use rolecall_render::growth::ReplyEnd;

use super::SessionNote;
use super::stock::Stock;
use crate::answer::to_message;
use crate::model::setup::Setup;

/// Why the engine ended a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Finish {
    /// The model stopped. The ids may or may not include the token that stopped it.
    #[default]
    Stop,
    /// The engine reached its token limit.
    Length,
    /// The caller aborted.
    Abort,
}

impl Finish {
    /// Returns the name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Finish::Stop => "stop",
            Finish::Length => "length",
            Finish::Abort => "abort",
        }
    }

    pub(super) fn as_stop(self) -> Stop {
        match self {
            Finish::Stop => Stop::End,
            Finish::Length => Stop::Length,
            Finish::Abort => Stop::Abort,
        }
    }
}

/// A reply that a session accepted.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The index of the message in the session.
    pub message: usize,
    /// The message, as the next rendering receives it.
    pub said: Arc<Message>,
    /// Everything that was parsed.
    pub reading: Reading,
    /// The id that stopped the model, if the ids include it.
    pub stop: Option<u32>,
    /// Whether the reply has no end. [`Session::close`](super::Session::close) writes one; so does
    /// the next `append` or `open`.
    pub is_unfinished: bool,
    /// Whether the reply ended inside its reasoning.
    pub in_reasoning: bool,
    /// What the caller should know.
    pub notes: Vec<SessionNote>,
    /// Where the ids of each call of the reading are among those of the reply.
    pub calls: Vec<Range<usize>>,
    /// Why the engine ended it.
    pub(super) finish: Finish,
    /// The text of the ids before the stop token.
    pub(super) text: Vec<u8>,
    /// Where the text of each call is in it.
    pub(super) call_texts: Vec<Range<usize>>,
    /// The text of the stop token.
    pub(super) stop_text: Vec<u8>,
    /// The ids after the stop token.
    pub(super) after: Vec<u32>,
    /// Whether the session closed it.
    pub(super) is_closed: bool,
    /// The message with the calls that were cut off, which results of such calls must follow.
    pub(super) with_cut_calls: Option<Arc<Message>>,
}

impl Reply {
    /// Returns the text of the ids before the stop token. It need not be valid UTF-8.
    pub fn bytes(&self) -> &[u8] {
        &self.text
    }

    /// Returns where the text of a call of the reading is among the [`bytes`](Self::bytes).
    pub fn call_bytes(&self, call: usize) -> Range<usize> {
        let all = self.text.len();
        self.call_texts.get(call).map_or(all..all, |bytes| bytes.start.min(all)..bytes.end.min(all))
    }

    /// Returns the byte of a stock prompt up to which the reply is sent. `opened` is where it
    /// begins, if the prompt opens it as the session did.
    pub(super) fn sent_until(&self, end: &ReplyEnd, stock: &Stock, opened: Option<usize>) -> usize {
        // What the prompt writes as the model did is sent, whatever it is.
        let same = opened.and_then(|opened| self.same_until(stock, opened)).unwrap_or(0);
        let until = match &end.stop {
            Some(stop) if self.stop.is_some() => {
                let text = stock.text_from(stop.start);
                let is_same = text.as_bytes().starts_with(&self.stop_text);
                if end.is_own || is_same { stop.end } else { stock.said_until(end, opened, &self.text) }
            }
            Some(stop) if self.is_closed && end.is_own => stop.end,
            Some(stop) if end.is_own => stop.start,
            // The token belongs to the next turn, and so may white space before it.
            Some(_) => stock.said_until(end, opened, &self.text),
            None => match opened.filter(|opened| stock.text_from(*opened).as_bytes().starts_with(&self.text)) {
                Some(opened) => {
                    let until = opened + self.text.len();
                    // The model may stop with text that is no stop token of the speaker.
                    let has_stop =
                        std::str::from_utf8(&self.stop_text).is_ok_and(|stop| stock.text_from(until).starts_with(stop));
                    let until = if has_stop { until + self.stop_text.len() } else { until };
                    until.max(end.body)
                }
                None => end.own,
            },
        };
        until.max(same)
    }

    /// Returns the byte of a stock prompt up to which it writes the reply as the model did, with the
    /// text that stopped the model. That text may be several ids, of which the last one is the stop.
    pub(super) fn same_until(&self, stock: &Stock, opened: usize) -> Option<usize> {
        let rest = stock.text_from(opened).as_bytes().strip_prefix(&self.text[..])?;
        rest.starts_with(&self.stop_text).then(|| opened + self.text.len() + self.stop_text.len())
    }

    /// Reports whether a stock prompt writes the reply as the model did.
    pub(super) fn is_written(&self, stock: &Stock, opened: usize, end: &ReplyEnd) -> bool {
        let text = stock.text_from(opened);
        let Some(rest) = text.as_bytes().strip_prefix(&self.text[..]) else { return false };
        let until = end.stop.as_ref().map_or(end.body, |stop| stop.start);
        let rest = until.saturating_sub(opened + self.text.len()).min(rest.len());
        opened + self.text.len() >= end.body && text.as_bytes()[self.text.len()..][..rest].trim_ascii().is_empty()
    }

    /// Compares the token that stopped the model with what a stock prompt writes there. A token that
    /// the speaker never writes is not reported.
    pub(super) fn stop_note(
        &self,
        opened: Option<usize>,
        end: &ReplyEnd,
        stock: &Stock,
        from: usize,
        setup: &Setup,
    ) -> Option<SessionNote> {
        self.stop?;
        if opened.is_some_and(|opened| self.same_until(stock, opened).is_some()) {
            return None;
        }
        let found = String::from_utf8_lossy(&self.stop_text).into_owned();
        let expected = match &end.stop {
            Some(stop) => stock.text_from(stop.start).get(..stop.len())?.to_owned(),
            None if setup.writes(&found) => stock.text_from(from).chars().take(24).collect(),
            None => return None,
        };
        if found == expected {
            return None;
        }
        Some(match end.is_own && end.stop.is_some() {
            true => SessionNote::OtherStop { found, expected },
            false => SessionNote::Contradicted { found, expected },
        })
    }
}

/// Converts a reading to a message without the calls that were cut off, and to one with them, if
/// there are any. Their arguments are empty there. `space` is the white space with which the model
/// ends its turn, which is not part of the message.
pub(super) fn messages_of(reading: &Reading, output: &str, space: &str) -> (Message, Option<Message>) {
    let is_whole = |call: &ParsedCall| match call {
        ParsedCall::Function { whole, .. } | ParsedCall::Code { whole, .. } => *whole,
    };
    let begun = begun_call(reading, output);
    let is_last = reading.calls.is_empty() && output.ends_with(&reading.content) && reading.content.ends_with(space);
    let without = begun.unwrap_or(if is_last { space.len() } else { 0 });
    let mut all = Cow::Borrowed(reading);
    if without > 0 {
        all.to_mut().content.truncate(reading.content.len() - without);
    }
    let mut whole = all.clone();
    if !reading.calls.iter().all(is_whole) {
        whole.to_mut().calls.retain(is_whole);
    }
    let said = to_message(&whole).or_else(|_| {
        whole.to_mut().calls.clear();
        to_message(&whole)
    });
    let plain = || Message::from_object(object! { "role" => "assistant", "content" => all.content.as_str() });
    let said = said.or_else(|_| plain()).unwrap_or_else(|_| Message::assistant(""));
    if reading.calls.iter().all(is_whole) && begun.is_none() {
        return (said, None);
    }
    let mut all = all.into_owned();
    for call in &mut all.calls {
        if let ParsedCall::Function { arguments, whole: false, .. } = call {
            "{}".clone_into(arguments);
        }
    }
    let with_cut_calls = to_message(&all).unwrap_or_else(|_| said.clone());
    (said, Some(with_cut_calls))
}

/// Returns how many bytes at the end of the content are a call whose name was cut off.
fn begun_call(reading: &Reading, output: &str) -> Option<usize> {
    let last = reading.malformed.last().filter(|last| matches!(last.why, Why::Unfinished | Why::UnclosedCall))?;
    let start = usize::try_from(last.span.start).ok()?;
    let begun = output.get(start..)?;
    (!begun.is_empty() && reading.content.ends_with(begun)).then_some(begun.len())
}
