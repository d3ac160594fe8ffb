//! Taking the ids that a model sampled.

use std::borrow::Cow;
use std::sync::Arc;

use rolecall_encode::Decoder;
use rolecall_parse::{Reading, Why, Within};

use super::line::Run;
use super::reply::messages_of;
use super::{Author, Finish, Part, Reply, Session, SessionError, SessionNote};
use crate::Error;
use crate::parse::IdParser;

impl Session {
    /// Takes the ids that the model sampled, unchanged, and parses them.
    ///
    /// Ids outside the vocabulary are refused.
    pub fn accept(&mut self, ids: &[u32], finish: Finish) -> Result<Arc<Reply>, Error> {
        let Some(sent) = self.sent.as_ref().filter(|_| self.is_open) else { return Err(SessionError::NotOpen.into()) };
        let setup = &self.setup;
        let message = self.line.messages();
        let mut run = Run { stock: sent.end(), reply: Some(message), ..Run::with_capacity(ids.len()) };
        for id in ids {
            setup.decoder.append(*id, &mut run.bytes)?;
            run.ends.push(run.bytes.len() as u32);
        }
        run.ids.extend_from_slice(ids);
        let tail = sent.tail();
        let mut reader = setup.reader(tail, message);
        let mut reading = Reading::default();
        let mut stop = None;
        // The flaws before the stop token, if the layouts read it.
        let mut flaws = None;
        let mut last = reader.within();
        // Up to here, ids are ordinary, and the model cannot stop with them.
        let mut ordinary = 0;
        // Up to here, the text of the ids is parsed.
        let mut parsed = 0;
        for (at, id) in ids.iter().enumerate() {
            let text = run.text_of(at);
            if stop.is_some() {
                run.label(at, Author::Sampled, Some(message), Part::AfterStop, 0.0);
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
                run.label(at, Author::Sampled, Some(message), Part::Calls, 1.0);
                continue;
            }
            let is_marker = setup.decoder.is_marker(*id);
            let can_stop = setup.can_stop(*id);
            // The model may stop with a token that no file names.
            let is_stop = can_stop || (is_marker && at + 1 == ids.len() && finish == Finish::Stop);
            let mut part = Part::Stop;
            if is_stop && !setup.reads(*id) {
                stop = Some(at);
            } else {
                let before = reading.malformed.len();
                let rest = &run.bytes[text.start.max(parsed)..text.end];
                reader.push_bytes(rest, is_marker, &mut |event| reading.add(&event));
                let within = reader.within();
                // Some templates write such a token between the parts of a reply.
                let goes_on =
                    at + 1 < ids.len() && matches!(within, Within::AfterCall | Within::Opening | Within::Call);
                if within == Within::Ended || (can_stop && !goes_on) {
                    stop = Some(at);
                    flaws = can_stop.then_some(before);
                } else {
                    part = part_between(last, within);
                    last = within;
                }
            }
            run.label(at, Author::Sampled, Some(message), part, 1.0);
        }
        let end = if stop.is_some() { Finish::Stop } else { finish };
        reader.finish(end.as_stop(), &mut |event| reading.add(&event));
        let text_end = stop.map_or(run.bytes.len(), |at| run.text_of(at).start);
        // Layouts that do not end with the stop token take it for text.
        if let Some(at) = stop
            && flaws.is_some_and(|flaws| reading.malformed.len() > flaws)
        {
            let without = read(setup.reader(tail, message), &run, &ids[..at], &setup.decoder);
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
            let is_cut = end != Finish::Stop || reading.malformed.iter().any(|flaw| flaw.why == Why::Unfinished);
            notes.push(if is_cut { SessionNote::CutCall } else { SessionNote::BrokenCall });
        }
        let said = Arc::new(said);
        run.messages.push(Arc::clone(&said));
        let reply = Arc::new(Reply {
            message,
            said,
            reading,
            stop: stop.map(|at| ids[at]),
            is_unfinished: stop.is_none() && (finish != Finish::Stop || in_reasoning || cut.is_some()),
            in_reasoning,
            notes,
            finish,
            text: run.bytes[..text_end].to_vec(),
            stop_text: stop.map(|at| run.bytes[run.text_of(at)].to_vec()).unwrap_or_default(),
            after: stop.map(|at| ids[at + 1..].to_vec()).unwrap_or_default(),
            is_closed: false,
            with_cut_calls: cut.map(Arc::new),
        });
        self.line.push(run);
        self.is_open = false;
        self.reply = Some(Arc::clone(&reply));
        self.record(self.len(), &reply.notes);
        Ok(reply)
    }
}

/// Returns bytes as text. Most are valid UTF-8, which this finds out faster than the library.
fn lossy(bytes: &[u8]) -> Cow<'_, str> {
    str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
}

/// Parses the first ids of a run as a whole reply.
fn read(mut reader: IdParser, run: &Run, ids: &[u32], decoder: &Decoder) -> Reading {
    let mut reading = Reading::default();
    for (at, id) in ids.iter().enumerate() {
        reader.push_bytes(&run.bytes[run.text_of(at)], decoder.is_marker(*id), &mut |event| reading.add(&event));
    }
    reader.finish(Finish::Stop.as_stop(), &mut |event| reading.add(&event));
    reading
}

/// Returns the part of a reply that an id belongs to, by where the output was before and after it.
fn part_between(before: Within, after: Within) -> Part {
    let is = |within: Within| before == within || after == within;
    if is(Within::Reasoning) {
        Part::Reasoning
    } else if is(Within::Call) || is(Within::AfterCall) {
        Part::Calls
    } else if is(Within::Content) {
        Part::Content
    } else {
        Part::Frame
    }
}
