use std::sync::Arc;

use rolecall::conversation::{Json, Message};
use rolecall::encode::Decoder;
use rolecall::parse::Within;
use rolecall::session::Finish;
use rolecall::{Event, Reading, Stop, answer};

use crate::Fault;
use crate::engine::{End, Generating, Piece, broken};
use crate::gateway::Gateway;
use crate::reader::Reader;
use crate::sampling::Sampling;
use crate::sessions::Finished;
use crate::sessions::record::{self, Record};
use crate::stop_texts::StopTexts;
use crate::store::{Owner, StoreFault};
use crate::token_odds::TokenOdds;
use crate::turn::{Awaited, Turn};
use crate::usage::Usage;
use crate::wanted::Wanted;
use crate::writer::Said;

/// What a piece of a reply gives.
pub enum Step<'a> {
    /// How likely the next token was.
    Odds(TokenOdds),
    Event(Event<'a>),
}

/// A reply while the engine samples it.
pub struct Reply {
    pub generating: Generating,
    /// `None` once the reply is over.
    reader: Option<Reader>,
    /// The ids that end it, each with whether the parser must get it.
    stop_ids: Vec<(u32, bool)>,
    stops: StopTexts,
    /// The ids so far, unless the engine does not tell all of them.
    sampled: Option<Vec<u32>>,
    count: u64,
    /// The most ids that it may have.
    most: u64,
    reasoning: u64,
    cached: Option<u64>,
    finish: Finish,
    pub said: Said,
    decoder: Arc<Decoder>,
    awaited: Option<Awaited>,
}

impl Reply {
    pub fn new(turn: &Turn, generating: Generating, sampling: &Sampling, decoder: Arc<Decoder>) -> Reply {
        Reply {
            generating,
            reader: Some(turn.reader.clone()),
            stop_ids: turn.stops.clone(),
            stops: StopTexts::new(sampling.stop.clone()),
            sampled: Some(Vec::new()),
            count: 0,
            most: sampling.max_tokens.unwrap_or(u64::MAX),
            reasoning: 0,
            cached: None,
            finish: Finish::Stop,
            said: Said::default(),
            decoder,
            awaited: turn.awaited.clone(),
        }
    }

    /// Returns the number of ids so far.
    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn is_over(&self) -> bool {
        self.reader.is_none()
    }

    /// Returns the number of ids with those of a piece.
    pub fn count_with(&self, piece: &Piece) -> u64 {
        self.count + piece.count() as u64
    }

    /// Reads a piece, and passes its events on, except that of the end: before it, the turn is stored.
    pub fn take(&mut self, piece: &Piece, sink: &mut (dyn FnMut(Step<'_>) + Send)) -> Result<(), Fault> {
        let Reply { reader: Some(reader), stops, said, sampled, decoder, .. } = self else { return Ok(()) };
        self.cached = piece.cached.or(self.cached);
        let Said { reading, odds: all_odds, .. } = said;
        let mut end = piece.end;
        for (at, id) in piece.ids.iter().enumerate() {
            // Some engines ignore the limit, or go a little beyond it.
            if self.count >= self.most {
                end = Some(End::Length);
                break;
            }
            self.count += 1;
            if let Some(sampled) = sampled {
                sampled.push(*id);
            }
            let stop = self.stop_ids.iter().find(|(known, _)| known == id);
            if stop.is_none_or(|(_, is_read)| *is_read) {
                if let Some(odds) = piece.odds.get(at).filter(|_| stop.is_none() && !reader.skips(*id)) {
                    let odds = TokenOdds::new(odds, decoder);
                    all_odds.push(odds.clone());
                    sink(Step::Odds(odds));
                }
                let mut pass = |event: Event<'_>| pass_on(reading, event, sink);
                let taken = reader.push(*id, &mut |event| before_stops(stops, event, &mut pass));
                taken.map_err(|error| broken(&error.to_string()))?;
            }
            if reader.within() == Within::Reasoning {
                self.reasoning += 1;
            }
            // What comes after it is not wanted. The engine stops when the connection closes.
            if stop.is_some() || stops.is_over() {
                end = Some(End::Stop);
                break;
            }
        }
        if let (Some(spoken), None) = (&piece.spoken, end.filter(|_| piece.end.is_none())) {
            self.count += spoken.count as u64;
            *sampled = None;
            let mut pass = |event: Event<'_>| pass_on(reading, event, sink);
            reader.push_text(&spoken.text, &mut |event| before_stops(stops, event, &mut pass));
            if stops.is_over() {
                end = Some(End::Stop);
            }
        }
        if !piece.text.is_empty() {
            *sampled = None;
            // Until the engine counts them.
            self.count += 1;
            let mut pass = |event: Event<'_>| pass_on(reading, event, sink);
            reader.push_spelled(&piece.text, &mut |event| before_stops(stops, event, &mut pass));
            if reader.within() == Within::Reasoning {
                self.reasoning += 1;
            }
            if stops.is_over() {
                end = Some(End::Stop);
            }
        }
        self.count = piece.counted.unwrap_or(self.count);
        let (stop, finish) = match end {
            None => return Ok(()),
            Some(End::Stop) => (Stop::End, Finish::Stop),
            Some(End::Length) => (Stop::Length, Finish::Length),
        };
        self.finish = finish;
        let mut pass = |event: Event<'_>| pass_on(reading, event, sink);
        if let Some(reader) = self.reader.take() {
            reader.finish(stop, &mut |event| before_stops(stops, event, &mut pass));
        }
        if stops.is_over() {
            pass(Event::Stop(Stop::End));
        }
        self.said.stop_text = self.stops.found().map(str::to_owned);
        Ok(())
    }

    /// Waits for what the engine says after a stop token, if it says more, and gives the connection back if
    /// the engine is done.
    pub async fn end(&mut self) {
        if !self.generating.has_ended() && self.said.stop_text.is_none() {
            let said = self.generating.last_word().await;
            self.cached = said.cached.or(self.cached);
            self.count = said.counted.unwrap_or(self.count);
        }
        if self.generating.has_ended() {
            self.generating.release();
        }
    }

    /// Adds the ids that the reply took.
    pub fn add_to(&self, usage: &mut Usage) {
        usage.reply += self.count;
        usage.reasoning += self.reasoning;
        usage.cached = match (usage.cached, self.cached) {
            (Some(one), Some(other)) => Some(one.max(other)),
            (one, other) => one.or(other),
        };
    }

    /// Passes the event of the end on.
    pub fn stop(&self, sink: &mut dyn FnMut(Event<'_>)) {
        if let Some(stop) = self.said.reading.stop {
            sink(Event::Stop(stop));
        }
    }

    /// Stores the finished turn, so that the conversation can go on. `response` is the answer that can be
    /// asked for later.
    pub async fn keep(
        &mut self,
        gateway: &Gateway,
        owner: Owner,
        wanted: &Wanted,
        response: Option<Json>,
    ) -> Result<(), Fault> {
        let Some(Awaited { ids: sent, mut session, base, saved, past, new, on, kept, chain, setup, instructions }) =
            self.awaited.take()
        else {
            return Ok(());
        };
        let ids = self.sampled.take().filter(|_| self.said.stop_text.is_none());
        let accepted = match &ids {
            Some(ids) => Some(session.accept(ids, self.finish)?),
            None => None,
        };
        let said = match (answer::to_message(&self.said.reading), accepted) {
            (Ok(said), _) => said,
            // A call that was cut off cannot be sent back. The session leaves it out.
            (Err(_), Some(accepted)) => Message::clone(&accepted.said),
            (Err(_), None) => {
                let Reading { content, reasoning, stop, .. } = &self.said.reading;
                let whole = Reading {
                    content: content.clone(),
                    reasoning: reasoning.clone(),
                    stop: *stop,
                    ..Reading::default()
                };
                answer::to_message(&whole).map_err(|error| broken(&error.to_string()))?
            }
        };
        let mut record = Record {
            model: wanted.served.name.clone(),
            setup,
            instructions,
            saved,
            before: Vec::new(),
            new,
            on,
            reply: record::Reply::Message,
            said,
            kept,
            sum: String::new(),
            response,
        };
        if let Some(ids) = ids {
            record.reply = record::Reply::Ids(ids, self.finish);
        } else {
            session = base.clone();
            record.kept = record.replay(&mut session)?;
        }
        record.sum = record::sum_of(&session, record.kept);
        let mut names = wanted.names.clone();
        let whole = chain.push(&record.said);
        names.extend(whole.names(chain, &record.said));
        let parent = past.as_ref().map(|found| found.turn.clone());
        let before: Vec<Arc<Message>> = past.iter().flat_map(|found| found.past.messages.iter().cloned()).collect();
        let ids = session.len().saturating_sub(record.kept);
        let is_stored = wanted.is_stored;
        let mut finished =
            Finished { parent, record, session, base, sent, before, chain: whole, names, is_stored, ids };
        let (mut turn, mut kept) = gateway.sessions.store(owner, &finished).await;
        // The turns before it were removed to make space, or were never stored.
        if let Err(StoreFault::Gone) = kept {
            finished = finished.whole()?;
            (turn, kept) = gateway.sessions.store(owner, &finished).await;
        }
        match kept {
            // The client gets an error and may send the turn again, which must not be there twice.
            Err(fault) if !wanted.names.is_empty() => return Err(fault.into()),
            // Without the store, it goes on in this process: the client has the whole conversation.
            kept => gateway.sessions.remember(owner, turn, finished, kept.unwrap_or_default()),
        }
        Ok(())
    }
}

/// Adds an event to a reading, and passes it on unless it is that of the end.
fn pass_on(reading: &mut Reading, event: Event<'_>, sink: &mut (dyn FnMut(Step<'_>) + Send)) {
    reading.add(&event);
    if !matches!(event, Event::Stop(_)) {
        sink(Step::Event(event));
    }
}

/// Passes an event on, but no content from a stop text on.
fn before_stops(stops: &mut StopTexts, event: Event<'_>, sink: &mut dyn FnMut(Event<'_>)) {
    if stops.is_over() {
        return;
    }
    if let Event::Content(text) = event {
        let kept = stops.push(text);
        if !kept.is_empty() {
            sink(Event::Content(&kept));
        }
        return;
    }
    // Its text is content, too.
    if let Event::Malformed(_) = event {
        return sink(event);
    }
    let held = stops.finish();
    if !held.is_empty() {
        sink(Event::Content(&held));
    }
    sink(event);
}
