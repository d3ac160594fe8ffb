//! Taking the ids that a model sampled.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use rolecall_conversation::Role;
use rolecall_encode::Decoder;
use rolecall_parse::{Malformed, Reading, Why, Within};

use super::line::Run;
use super::reply::messages_of;
use super::stock::Stock;
use super::{Author, Finish, Reply, Segment, SegmentPart, Session, SessionNote};
use crate::Error;
use crate::parse::IdParser;

impl Session {
    /// Takes the ids that the model sampled, unchanged, and parses them.
    ///
    /// Ids outside the vocabulary are refused.
    pub fn accept(&mut self, ids: &[u32], finish: Finish) -> Result<Arc<Reply>, Error> {
        let sent = &self.state.awaited()?.stock;
        let (run, reply) = self.read_sampled(ids, finish, &self.tail(sent), sent.end())?;
        let reply = Arc::new(reply);
        self.line.push(run);
        self.state.reply_with(Arc::clone(&reply));
        self.record(self.len(), &reply.notes);
        Ok(reply)
    }

    /// Returns the end of the prompt, from the opening of the assistant's turn on. That is mostly the
    /// generation prompt. After a tool's result, a reply may continue the turn that called the tool, and
    /// needs what was sent before.
    pub(super) fn tail<'a>(&self, sent: &'a Stock) -> Cow<'a, str> {
        let continues = || self.line.last_messages(1).last().is_some_and(|message| *message.role() == Role::Tool);
        if self.setup.opens_turn(sent.tail()) || !continues() {
            return Cow::Borrowed(sent.tail());
        }
        let bytes = self.bytes_of(self.len().saturating_sub(LONGEST_TAIL)..self.len());
        Cow::Owned(lossy(&bytes).into_owned())
    }

    /// Parses the ids of a reply to another prompt of the same model, tools and switches. Neither
    /// the session nor its state matter otherwise. The segments count the reply's ids from 0.
    ///
    /// `prompt` has the ids of that prompt, or none if it is not known.
    pub fn parse(&self, ids: &[u32], finish: Finish, prompt: &[u32]) -> Result<(Reply, Vec<Segment>), Error> {
        let mut tail = Vec::new();
        for id in &prompt[prompt.len().saturating_sub(LONGEST_TAIL)..] {
            self.setup.decoder.append(*id, &mut tail)?;
        }
        let (run, mut reply) = self.read_sampled(ids, finish, &lossy(&tail), 0)?;
        // Some models write several calls with a token after each that could stop them.
        if !reply.after.is_empty() {
            let setup = &self.setup;
            let is_end = |id: &u32| setup.can_stop(*id) || (setup.decoder.is_marker(*id) && !setup.reads(*id));
            let ends = ids.last().is_some_and(is_end);
            let end = if ends && self.finish_of(ids) == Finish::Stop { ids.len() - 1 } else { ids.len() };
            let reader = self.parser(&lossy(&tail));
            let whole = read_again(reader, &run, &ids[..end], &self.setup.decoder);
            let flaws = |reading: &Reading| reading.malformed.iter().filter(|flaw| is_misread(flaw)).count();
            let is_better = flaws(&whole) <= flaws(&reply.reading);
            if is_better && whole.calls.len() > reply.reading.calls.len() {
                reply.reading = whole;
            }
        }
        Ok((reply, run.segments))
    }

    /// Returns why an engine ended a reply, as far as its ids tell: `Stop` if one of them stops the
    /// model, or if the last one is a control token that neither the layouts of a reply read nor the
    /// speaker writes. Otherwise the reply was cut off.
    pub fn finish_of(&self, ids: &[u32]) -> Finish {
        let setup = &self.setup;
        let is_written = |id: u32| setup.encoder.tokenizer().token_text(id).is_some_and(|text| setup.writes(&text));
        let is_other = |id: u32| setup.decoder.is_marker(id) && !setup.reads(id) && !is_written(id);
        let is_end = |id: &u32| setup.can_stop(*id) || is_other(*id);
        match ids.last().is_some_and(is_end) || ids.iter().any(|id| setup.can_stop(*id)) {
            true => Finish::Stop,
            false => Finish::Length,
        }
    }

    /// Parses a reply. `tail` is the end of the prompt, and `stock` the byte of the whole prompt at
    /// which the reply begins.
    fn read_sampled(&self, ids: &[u32], finish: Finish, tail: &str, stock: usize) -> Result<(Run, Reply), Error> {
        let setup = &self.setup;
        let message = self.line.messages();
        let mut run = Run { stock, reply: Some(message), ..Run::with_capacity(ids.len()) };
        for id in ids {
            setup.decoder.append(*id, &mut run.bytes)?;
            run.ends.push(run.bytes.len() as u32);
        }
        run.ids.extend_from_slice(ids);
        let mut reader = self.parser(tail);
        let mut reading = Reading::default();
        let mut stop = None;
        // The flaws before the stop token, if the layouts read it.
        let mut flaws = None;
        let mut last = reader.within();
        let mut calls = CallSpans::default();
        // Up to here, ids are ordinary, and the model cannot stop with them.
        let mut ordinary = 0;
        // Up to here, the text of the ids is parsed.
        let mut parsed = 0;
        for (at, id) in ids.iter().enumerate() {
            let text = run.text_of(at);
            if stop.is_some() {
                run.label(at, Author::Sampled, Some(message), SegmentPart::AfterStop, 0.0);
                continue;
            }
            // Most ids of a call only continue it, and are parsed together.
            if last == Within::Call && parsed <= text.start {
                if ordinary <= at {
                    let is_other = |id: &u32| setup.can_stop(*id) || setup.decoder.is_marker(*id);
                    ordinary = ids[at..].iter().position(is_other).map_or(ids.len(), |others| at + others);
                }
                let ahead = run.text_of_ids(at..ordinary);
                parsed = text.start + reader.push_in_call(ahead, &mut |event| reading.add(&event));
            }
            if at < ordinary && text.end <= parsed {
                run.label(at, Author::Sampled, Some(message), SegmentPart::Calls, 1.0);
                calls.add(at..at, true, reading.calls.len());
                continue;
            }
            let is_marker = setup.decoder.is_marker(*id);
            let can_stop = setup.can_stop(*id);
            // The model may stop with a token that no file names.
            let is_stop = can_stop || (is_marker && at + 1 == ids.len() && finish == Finish::Stop);
            let mut part = SegmentPart::Stop;
            if is_stop && !setup.reads(*id) {
                stop = Some(at);
            } else {
                let (before, count) = (reading.malformed.len(), reading.calls.len());
                let rest = &run.bytes[text.start.max(parsed)..text.end];
                let held = text.start.saturating_sub(reader.pending_bytes());
                reader.push_bytes(rest, is_marker, &mut |event| reading.add(&event));
                let within = reader.within();
                // Some templates write such a token between the parts of a reply.
                let goes_on =
                    at + 1 < ids.len() && matches!(within, Within::AfterCall | Within::Opening | Within::Call);
                if within == Within::Ended || (can_stop && !goes_on) {
                    stop = Some(at);
                    flaws = can_stop.then_some(before);
                    // Only the end of the turn shows that a call in open reasoning is one.
                    if reading.calls.len() > count {
                        run.become_call(held, at);
                    }
                } else {
                    part = part_between(last, within);
                    if part == SegmentPart::Calls {
                        // The ids before it have the beginning of the call's marker.
                        let begun = match last {
                            Within::Call | Within::AfterCall => at,
                            _ => run.become_call(held, at),
                        };
                        calls.add(begun..at, last == Within::Call, reading.calls.len());
                    }
                    last = within;
                }
            }
            run.label(at, Author::Sampled, Some(message), part, 1.0);
        }
        let end = if stop.is_some() { Finish::Stop } else { finish };
        let text_end = stop.map_or(run.bytes.len(), |at| run.text_of(at).start);
        let (held, count) = (text_end.saturating_sub(reader.pending_bytes()), reading.calls.len());
        reader.finish(end.as_stop(), &mut |event| reading.add(&event));
        if reading.calls.len() > count {
            run.become_call(held, stop.unwrap_or(ids.len()));
        }
        // Layouts that do not end with the stop token take it for text.
        if let Some(at) = stop
            && flaws.is_some_and(|flaws| reading.malformed.len() > flaws)
        {
            let without = read_again(self.parser(tail), &run, &ids[..at], &setup.decoder);
            if reading.malformed.len() > without.malformed.len() {
                reading = without;
            }
        }
        let in_reasoning = last == Within::Reasoning;
        let space = if end == Finish::Stop { &*setup.turn_space } else { "" };
        let (said, cut) = messages_of(&reading, &lossy(&run.bytes[..text_end]), space);
        let mut notes = Vec::new();
        if in_reasoning && stop.is_some() {
            notes.push(SessionNote::StopInReasoning);
        }
        if cut.is_some() {
            let is_cut_off = end != Finish::Stop || reading.malformed.iter().any(is_cut);
            notes.push(if is_cut_off { SessionNote::CutCall } else { SessionNote::BrokenCall });
        }
        let said = Arc::new(said);
        run.messages.push(Arc::clone(&said));
        let reply = Reply {
            message,
            said,
            reading,
            stop: stop.map(|at| ids[at]),
            is_unfinished: stop.is_none() && (finish != Finish::Stop || in_reasoning || cut.is_some()),
            in_reasoning,
            notes,
            call_texts: calls.spans.iter().map(|ids| run.range_of(ids)).collect(),
            calls: calls.spans,
            finish,
            text: run.bytes[..text_end].to_vec(),
            stop_text: stop.map(|at| run.bytes[run.text_of(at)].to_vec()).unwrap_or_default(),
            after: stop.map(|at| ids[at + 1..].to_vec()).unwrap_or_default(),
            is_closed: false,
            with_cut_calls: cut.map(Arc::new),
        };
        Ok((run, reply))
    }
}

/// Where the ids of calls are.
#[derive(Default)]
struct CallSpans {
    spans: Vec<Range<usize>>,
    /// The first id of a call whose name is not known yet.
    begun: Option<usize>,
}

impl CallSpans {
    /// Adds an id of the calls. `from` is the id at which their marker begins, `continues` says whether a call
    /// was open before the id, and `count` is the number of calls that are known after it.
    fn add(&mut self, Range { start: from, end: at }: Range<usize>, continues: bool, count: usize) {
        if !continues {
            self.begun.get_or_insert(from);
        }
        while self.spans.len() < count {
            let start = self.begun.take().unwrap_or(at);
            self.spans.push(start..at);
        }
        if self.begun.is_none()
            && let Some(last) = self.spans.last_mut()
        {
            last.end = at + 1;
        }
    }
}

/// The number of ids of a prompt that may say how a reply begins.
const LONGEST_TAIL: usize = 4096;

/// Reports whether a call is malformed because the output ends inside it.
fn is_cut(malformed: &Malformed) -> bool {
    matches!(malformed.why, Why::Unfinished | Why::UnclosedCall)
}

/// Reports whether a flaw may come from reading ids that are no part of the reply. A last call that is
/// cut off and a call of another tool are the model's.
fn is_misread(malformed: &Malformed) -> bool {
    !is_cut(malformed) && !malformed.why.is_of_model()
}

/// Returns bytes as text. Most are valid UTF-8, which this finds out faster than the library.
fn lossy(bytes: &[u8]) -> Cow<'_, str> {
    str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
}

/// Parses the first ids of a run as a whole reply.
fn read_again(mut reader: IdParser, run: &Run, ids: &[u32], decoder: &Decoder) -> Reading {
    let mut reading = Reading::default();
    for (at, id) in ids.iter().enumerate() {
        reader.push_bytes(&run.bytes[run.text_of(at)], decoder.is_marker(*id), &mut |event| reading.add(&event));
    }
    reader.finish(Finish::Stop.as_stop(), &mut |event| reading.add(&event));
    reading
}

/// Returns the part of a reply that an id belongs to, by where the output was before and after it.
fn part_between(before: Within, after: Within) -> SegmentPart {
    let is = |within: Within| before == within || after == within;
    if is(Within::Reasoning) {
        SegmentPart::Reasoning
    } else if is(Within::Call) || is(Within::AfterCall) {
        SegmentPart::Calls
    } else if is(Within::Content) {
        SegmentPart::Content
    } else {
        SegmentPart::Frame
    }
}
