use std::sync::Arc;

use rolecall::conversation::{Json, Message};
use rolecall::encode::Decoder;
use rolecall::parse::{Why, Within};
use rolecall::session::Finish;
use rolecall::{Event, Reading, Stop, answer};

use crate::Fault;
use crate::engine::{End, EnginePiece, EngineStream, Odds, broken};
use crate::gateway::Gateway;
use crate::reply::pending_logprobs::PendingLogprobs;
use crate::reply::reader::ReplyReader;
use crate::reply::stop_texts::StopTexts;
use crate::reply::token_odds::{TokenOdds, bytes_of};
use crate::reply::usage::Usage;
use crate::reply::writer::WholeReply;
use crate::request::chat_request::ChatRequest;
use crate::request::sampling::Sampling;
use crate::store::Owner;
use crate::turn::sessions::FinishedTurn;
use crate::turn::sessions::record::{self, Record};
use crate::turn::sessions::size::Size;
use crate::turn::{OpenTurn, Turn};

/// What a piece of a reply gives.
pub enum ReplyStep<'a> {
    /// How likely the next token was.
    Odds(TokenOdds),
    /// How likely the tokens of the text of the next event were, each with the number of characters of that
    /// text before it.
    TextOdds(Vec<(usize, TokenOdds)>),
    Event(Event<'a>),
}

/// A reply while the engine samples it.
pub struct LiveReply {
    pub generating: EngineStream,
    /// `None` once the reply is over.
    reader: Option<ReplyReader>,
    /// The last id, with its odds, if it is a marker that was not read yet.
    held: Option<(u32, Option<Odds>)>,
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
    pub said: WholeReply,
    /// The tokens that were not passed on yet, if their odds were asked for.
    unsaid: Option<PendingLogprobs>,
    decoder: Arc<Decoder>,
    awaited: Option<OpenTurn>,
}

impl LiveReply {
    pub fn new(
        turn: &Turn,
        generating: EngineStream,
        sampling: &Sampling,
        stop_texts: &[String],
        decoder: Arc<Decoder>,
        unsaid: Option<PendingLogprobs>,
    ) -> LiveReply {
        let reader = turn.reader.clone();
        LiveReply {
            generating,
            reader: Some(if unsaid.is_some() { reader.with_places() } else { reader }),
            held: None,
            stop_ids: turn.stops.clone(),
            stops: StopTexts::new(sampling.stop.clone(), stop_texts),
            sampled: Some(Vec::new()),
            count: 0,
            most: sampling.max_tokens.unwrap_or(u64::MAX),
            reasoning: 0,
            cached: None,
            finish: Finish::Stop,
            said: WholeReply::default(),
            unsaid,
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

    /// Reports whether the reply ended before the model ended it.
    pub fn is_cut(&self) -> bool {
        self.finish != Finish::Stop
    }

    /// Returns the number of ids with those of a piece.
    pub fn count_with(&self, piece: &EnginePiece) -> u64 {
        self.count + piece.count() as u64
    }

    /// Reads a piece, and passes its events on, except that of the end: before it, the turn is stored.
    pub fn take(&mut self, piece: &EnginePiece, sink: &mut (dyn FnMut(ReplyStep<'_>) + Send)) -> Result<(), Fault> {
        let LiveReply { reader: Some(reader), stops, said, unsaid, sampled, decoder, held, .. } = self else {
            return Ok(());
        };
        self.cached = piece.cached.or(self.cached);
        let mut passing = Passing { stops, said, unsaid: unsaid.as_mut(), sink };
        let mut end = piece.end;
        let earlier = held.take();
        let earlier = earlier.as_ref().map(|(id, odds)| (*id, odds.as_ref(), true));
        let new = piece.ids.iter().enumerate().map(|(at, id)| (*id, piece.odds.get(at), false));
        let mut ids = earlier.into_iter().chain(new).peekable();
        while let Some((id, odds, was_held)) = ids.next() {
            // Some engines ignore the limit, or go a little beyond it.
            if !was_held && self.count >= self.most {
                end = Some(End::Length);
                break;
            }
            if !was_held {
                self.count += 1;
                if let Some(sampled) = sampled {
                    sampled.push(id);
                }
            }
            let stop = self.stop_ids.iter().find(|(known, _)| *known == id);
            let is_last = ids.peek().is_none() && piece.spoken.is_none() && piece.text.is_empty();
            // The engine may stop at a marker of its own, and says so only after it.
            if stop.is_none() && is_last && decoder.is_marker(id) {
                match piece.end {
                    None => {
                        *held = Some((id, odds.cloned()));
                        break;
                    }
                    Some(End::Stop) if reader.writes_only_text(id, decoder) => {
                        if let Some(sampled) = sampled {
                            sampled.pop();
                        }
                        break;
                    }
                    Some(_) => {}
                }
            }
            if stop.is_none_or(|(_, is_read)| *is_read) {
                if let Some(unsaid) = &mut passing.unsaid {
                    let odds = odds.filter(|_| stop.is_none());
                    match reader.skips(id) {
                        true => unsaid.end_character(),
                        false => unsaid.push(&bytes_of(id, decoder), odds.map(|odds| TokenOdds::new(odds, decoder))),
                    }
                }
                let taken = reader.push(id, &mut |event| passing.event(event));
                taken.map_err(|error| broken(&error.to_string()))?;
            }
            if reader.within() == Within::Reasoning {
                self.reasoning += 1;
            }
            // What comes after it is not wanted. The engine stops when the connection closes.
            if stop.is_some() || passing.stops.is_over() {
                end = Some(End::Stop);
                break;
            }
        }
        if let (Some(spoken), None) = (&piece.spoken, end.filter(|_| piece.end.is_none())) {
            self.count += spoken.count as u64;
            *sampled = None;
            if let Some(unsaid) = &mut passing.unsaid {
                unsaid.push(spoken.text.as_bytes(), None);
            }
            reader.push_text(&spoken.text, &mut |event| passing.event(event));
            if passing.stops.is_over() {
                end = Some(End::Stop);
            }
        }
        if !piece.text.is_empty() {
            *sampled = None;
            // Until the engine counts them.
            self.count += 1;
            reader.push_spelled(&piece.text, &mut |event| passing.event(event));
            if reader.within() == Within::Reasoning {
                self.reasoning += 1;
            }
            if passing.stops.is_over() {
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
        if let Some(unsaid) = &mut passing.unsaid {
            unsaid.end_character();
        }
        if let Some(reader) = self.reader.take() {
            reader.finish(stop, &mut |event| passing.event(event));
        }
        passing.end();
        self.said.stop_text = self.stops.found().map(str::to_owned);
        Ok(())
    }

    /// Waits for what the engine says after a stop token, if it says more, and gives the connection back if
    /// the engine is done.
    pub async fn end(&mut self) {
        if !self.generating.has_ended() && !self.stops.is_over() {
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
        wanted: &ChatRequest,
        response: Option<Json>,
    ) -> Result<(), Fault> {
        let Some(OpenTurn { ids: sent, mut session, base, saved, past, new, on, kept, chain, setup, instructions }) =
            self.awaited.take()
        else {
            return Ok(());
        };
        let ids = self.sampled.take().filter(|_| !self.stops.is_over());
        let accepted = match &ids {
            Some(ids) => Some(session.accept(ids, self.finish)?),
            None => None,
        };
        let said = match (answer::to_message(&self.said.reading), &accepted) {
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
        // The client has the text of a call that was cut off. The session does not, and would lose it when the template
        // writes the reply again.
        let lacks_text = !self.said.reading.malformed.is_empty()
            && accepted.is_some_and(|accepted| accepted.said.content() != said.content());
        let ids = ids.filter(|_| !lacks_text);
        let mut record = Record {
            model: wanted.served.name.clone(),
            setup,
            instructions,
            saved,
            before: Vec::new(),
            new,
            on,
            call_seed: session.call_seed(),
            reply: record::RecordReply::Message,
            said,
            kept,
            sum: String::new(),
            response,
        };
        if let Some(ids) = ids {
            record.reply = record::RecordReply::Ids(ids, self.finish);
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
        let size = past.as_ref().map_or_else(Size::default, |found| found.past.size);
        let size = size.after(session.len().saturating_sub(record.kept), record.new.iter().chain([&record.said]));
        let is_stored = wanted.is_stored;
        let finished =
            FinishedTurn { parent, record, session, base, sent, before, chain: whole, names, is_stored, size };
        // Without the store, it goes on in this process: the client has the whole conversation. With a name, the
        // client gets an error and may send the turn again, which must not be there twice.
        gateway.sessions.keep(owner, finished, !wanted.names.is_empty()).await
    }
}

/// Passes the events of a reader on.
struct Passing<'a> {
    stops: &'a mut StopTexts,
    said: &'a mut WholeReply,
    unsaid: Option<&'a mut PendingLogprobs>,
    sink: &'a mut (dyn FnMut(ReplyStep<'_>) + Send),
}

impl Passing<'_> {
    /// Takes an event of the reader.
    fn event(&mut self, event: Event<'_>) {
        if let Some(unsaid) = &mut self.unsaid {
            match event {
                Event::Place(place) => return unsaid.place(place.end),
                Event::Content(text) | Event::Reasoning(text) => unsaid.hold(text.len()),
                _ => {}
            }
        }
        let Passing { stops, said, unsaid, sink } = self;
        before_stops(stops, event, &mut |event| pass_on(said, unsaid.as_deref_mut(), event, sink));
    }

    /// Ends the reply. The tokens of a stop text are not counted.
    fn end(&mut self) {
        if self.stops.is_over() {
            self.said.reading.add(&Event::Stop(Stop::End));
        }
        if let Some(unsaid) = &mut self.unsaid {
            count(self.said, unsaid.count(), self.sink);
        }
    }
}

/// Adds an event to what is said, and passes it on with its tokens, unless it is that of the end.
fn pass_on(
    said: &mut WholeReply,
    unsaid: Option<&mut PendingLogprobs>,
    event: Event<'_>,
    sink: &mut (dyn FnMut(ReplyStep<'_>) + Send),
) {
    said.reading.add(&event);
    if let Event::Stop(_) = event {
        return;
    }
    if let Some(unsaid) = unsaid {
        match event {
            Event::Content(text) | Event::Reasoning(text) => {
                let text_odds = unsaid.take(text);
                count(said, unsaid.count_said(), sink);
                sink(ReplyStep::TextOdds(text_odds));
            }
            // Its text comes later.
            Event::Malformed(_) => {}
            _ => count(said, unsaid.count(), sink),
        }
    }
    sink(ReplyStep::Event(event));
}

/// Passes tokens on, and adds them to those of the reply.
fn count(said: &mut WholeReply, odds: impl Iterator<Item = TokenOdds>, sink: &mut (dyn FnMut(ReplyStep<'_>) + Send)) {
    for odds in odds {
        said.odds.push(odds.clone());
        sink(ReplyStep::Odds(odds));
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
    if let Event::Malformed(malformed) = &event {
        // The parser takes a stop text of the format for the end, and what follows for more of the answer.
        if malformed.why == Why::AfterEnd && stops.end_at_those_of_model() {
            let held = stops.finish();
            if !held.is_empty() {
                sink(Event::Content(&held));
            }
            return;
        }
        // Its text is content, too.
        return sink(event);
    }
    let held = stops.finish();
    if !held.is_empty() {
        sink(Event::Content(&held));
    }
    sink(event);
}
