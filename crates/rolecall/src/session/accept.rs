//! Taking the ids that a model sampled.

use std::sync::Arc;

use rolecall_parse::{Reading, Within};

use super::line::Run;
use super::reply::messages_of;
use super::{Author, Finish, Part, Reply, Session, SessionError, SessionNote};
use crate::Error;
use crate::parse::IdParser;

impl Session {
    /// Takes the ids that the model sampled, unchanged, and parses them.
    ///
    /// Ids outside the vocabulary are refused.
    pub fn accept(&mut self, ids: &[u32], finish: Finish) -> Result<Reply, Error> {
        let Some(sent) = self.sent.as_ref().filter(|_| self.is_open) else { return Err(SessionError::NotOpen.into()) };
        let setup = &self.setup;
        let message = self.line.messages();
        let mut run = Run { stock: sent.end(), reply: Some(message), ..Run::default() };
        let mut reader = setup.reader(sent.tail(), message);
        let mut reading = Reading::default();
        let mut stop = None;
        let mut last = reader.within();
        let mut bytes = Vec::new();
        for (at, id) in ids.iter().enumerate() {
            bytes.clear();
            setup.decoder.append(*id, &mut bytes)?;
            if stop.is_some() {
                run.push(*id, &bytes, Author::Sampled, Some(message), Part::AfterStop, 0.0);
                continue;
            }
            // The model may stop with a token that no file names.
            let is_last = at + 1 == ids.len() && finish == Finish::Stop && setup.decoder.is_marker(*id);
            let is_stop = is_last || setup.stop_ids.contains(id);
            let mut part = Part::Stop;
            if is_stop && !setup.reads(*id) {
                stop = Some(at);
            } else {
                let can_stop = setup.stop_ids.contains(id);
                let before = can_stop.then(|| (reader.clone(), reading.clone()));
                reader.push_bytes(&bytes, setup.decoder.is_marker(*id), &mut |event| reading.add(&event));
                let within = reader.within();
                // Some templates write such a token between the parts of a reply.
                let goes_on =
                    at + 1 < ids.len() && matches!(within, Within::AfterCall | Within::Opening | Within::Call);
                if within == Within::Ended || (can_stop && !goes_on) {
                    stop = Some(at);
                    // Layouts that do not end with this token take it for text.
                    if let Some((reader_before, reading_before)) = before
                        && flaws(&reader, &reading) > flaws(&reader_before, &reading_before)
                    {
                        (reader, reading) = (reader_before, reading_before);
                    }
                } else {
                    part = part_between(last, within);
                    last = within;
                }
            }
            run.push(*id, &bytes, Author::Sampled, Some(message), part, 1.0);
        }
        let end = if stop.is_some() { Finish::Stop } else { finish };
        reader.finish(end.as_stop(), &mut |event| reading.add(&event));
        let in_reasoning = last == Within::Reasoning;
        let text_end = stop.map_or(run.bytes.len(), |at| run.text_of(at).start);
        let (said, cut) = messages_of(&reading, &String::from_utf8_lossy(&run.bytes[..text_end]));
        let mut notes = Vec::new();
        if in_reasoning && stop.is_some() {
            notes.push(SessionNote::StopInReasoning);
        }
        if cut.is_some() {
            notes.push(SessionNote::CutCall);
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
            finish,
            text: run.bytes[..text_end].to_vec(),
            stop_text: stop.map(|at| run.bytes[run.text_of(at)].to_vec()).unwrap_or_default(),
            after: stop.map(|at| ids[at + 1..].to_vec()).unwrap_or_default(),
            is_closed: false,
            with_cut_calls: cut.map(Arc::new),
        };
        self.line.push(run);
        self.is_open = false;
        self.reply = Some(Arc::new(reply.clone()));
        self.record(self.len(), &reply.notes);
        Ok(reply)
    }
}

/// Returns the number of things that could not be parsed if the reply ends here.
fn flaws(reader: &IdParser, reading: &Reading) -> usize {
    let mut reading = reading.clone();
    reader.clone().finish(Finish::Stop.as_stop(), &mut |event| reading.add(&event));
    reading.malformed.len()
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
