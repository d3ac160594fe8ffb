//! A session from JSON, with everything checked.

use std::sync::Arc;

use rolecall_conversation::json::Object;
use rolecall_conversation::{Conversation, Json, Message, object};
use rolecall_encode::Decoder;
use rolecall_openai::Request;
use rolecall_render::DateTime;

use super::fields::{Fields, as_number};
use super::{damaged, notes};
use crate::model::clock;
use crate::model::digest::digest;
use crate::model::setup::Setup;
use crate::session::line::{Line, Run};
use crate::session::notes::Notes;
use crate::session::state::{SentPrompt, State, Waiting};
use crate::session::stock::Stock;
use crate::session::{Author, Finish, Reply, Seams, Segment, SegmentPart, Session, SessionError};
use crate::{Error, Model};

impl Session {
    pub(super) fn read(model: &Model, object: &Object) -> Result<Session, Error> {
        let saved = Fields::new(object, "");
        let clock = saved.optional("clock");
        let clock = clock.map(|saved| clock::read(saved).ok_or_else(|| damaged("clock", "expected seven numbers")));
        let clock = clock.transpose()?;
        let setup = setup(model, request(&saved.object("request")?)?, clock)?;
        let bound = saved.object("model")?;
        if let Some(part) = setup.fingerprint()?.difference(bound.object_of()) {
            return Err(SessionError::OtherModel { part }.into());
        }
        let mut session = Session::empty(setup);
        session.clock = clock.or(session.clock);
        session.seams = match saved.text("seams")? {
            "live" => Seams::Live,
            "whole" => Seams::Whole,
            _ => return Err(damaged("seams", "unknown word")),
        };
        // Most sessions have none.
        if let Some(seed) = saved.optional("call_seed") {
            let seed = seed.as_str().and_then(|seed| u64::from_str_radix(seed, 16).ok());
            session.call_seed = seed.ok_or_else(|| damaged("call_seed", "expected a hexadecimal number"))?;
        }
        let mut runs = Vec::new();
        for run in saved.objects("runs")? {
            runs.push(read_run(&run, &session.setup)?);
        }
        let pending = messages(&saved, "pending")?;
        let whole = line_of(Line::default(), runs);
        // What was rewritten may name messages that are still pending.
        let known = pending.len() + whole.messages();
        check_runs(&whole, known)?;
        let mut lines = vec![whole.clone()];
        for branch in saved.objects("branches")? {
            let (with, shared) = (branch.optional_number("with")?.unwrap_or_default(), branch.number("shared")?);
            let shared = lines.get(with).and_then(|line| line.first_runs(shared));
            let shared = shared.ok_or_else(|| damaged("shared", "there are fewer runs"))?;
            let own = branch.objects("runs")?;
            let own: Result<_, _> = own.iter().map(|run| read_run(run, &session.setup)).collect();
            let line = line_of(shared, own?);
            check_runs(&line, known)?;
            lines.push(line);
        }
        session.branches = lines.split_off(1);
        let mut list = Notes::default();
        for note in saved.objects("notes")? {
            let (at, note) = notes::read(&note)?;
            list.push(at, note);
        }
        session.notes = list;
        let later = Arc::clone(&session.setup);
        session.read_state(model, &saved, &whole, pending)?;
        (session.line, session.setup) = (whole, later);
        let all = session.messages();
        let head = saved.number("head")?;
        session.head = all.get(..head).ok_or_else(|| damaged("head", "there are fewer messages"))?.into();
        if saved.flag("is_planned")? {
            let damage = |error: &dyn std::fmt::Display| damaged("pending", &error.to_string());
            let pending = session.state.waiting().map_err(|error| damage(&error))?.messages.clone();
            let mut next = session.next(&pending).map_err(|error| damaged("pending", &error.to_string()))?;
            next.kept = saved.optional_object("kept")?.map(|kept| notes::read_rewrite(&kept)).transpose()?;
            session.state.waiting_mut()?.next = Some(Arc::new(next));
        }
        Ok(session)
    }

    /// Reads where the session stands, with the setup of what was sent last.
    fn read_state(
        &mut self,
        model: &Model,
        saved: &Fields<'_>,
        line: &Line,
        pending: Vec<Arc<Message>>,
    ) -> Result<(), Error> {
        let is_open = saved.flag("is_open")?;
        let reply = saved.optional_object("reply")?;
        let sent = match saved.optional_object("sent")? {
            Some(sent) => {
                let mut by = None;
                if let Some(earlier) = sent.optional_object("request")? {
                    self.setup = model.setup_of(self::request(&earlier)?, self.clock)?;
                    by = Some(Arc::clone(&self.setup));
                }
                let stock = self.read_sent(&sent, line, &pending, by.is_none())?;
                Some(SentPrompt { stock: Arc::new(stock), by })
            }
            None => None,
        };
        self.state = match (sent, reply) {
            (Some(_), Some(_)) if is_open => return Err(damaged("reply", "a reply is awaited")),
            (Some(_), None) if is_open && !pending.is_empty() => {
                return Err(damaged("pending", "a reply is awaited"));
            }
            (Some(sent), None) if is_open => State::Open { sent },
            (Some(sent), Some(reply)) => self.read_reply(&reply, sent, line)?,
            (sent @ Some(_), None) => State::Idle { sent, waiting: Waiting::default() },
            (None, None) if !is_open && line.len() == 0 => State::default(),
            (None, _) => return Err(damaged("sent", "it is missing")),
        };
        if let Ok(waiting) = self.state.waiting_mut() {
            waiting.messages = pending;
        }
        Ok(())
    }

    /// Renders again what was sent last, with the latest setup or an earlier one.
    fn read_sent(
        &self,
        sent: &Fields<'_>,
        line: &Line,
        pending: &[Arc<Message>],
        is_latest: bool,
    ) -> Result<Stock, Error> {
        let (count, start, end) = (sent.number("messages")?, sent.number("start")?, sent.number("end")?);
        let wanted = sent.text("digest")?;
        let mut all = line.all_messages();
        all.extend(pending.iter().cloned());
        // What was sent may be the beginning of a longer conversation.
        for known in count..=all.len() {
            for generates in [true, false] {
                let messages = all[..known].iter().map(|message| (**message).clone()).collect();
                let Ok((prompt, growth)) = self.setup.render(&self.conversation(messages, generates)) else { continue };
                let text = prompt.text();
                if text.get(start..end).is_none_or(|text| digest(text) != wanted) {
                    continue;
                }
                let is_all = text.len() == end;
                let (prompt, growth) = match is_all {
                    true => (prompt, growth.filter(|_| is_latest)),
                    false => (prompt.up_to(end).unwrap_or(prompt), None),
                };
                return Ok(Stock { start: 0, prompt, growth, count, whole: None });
            }
        }
        Err(damaged("sent", "the model renders other text"))
    }

    /// Accepts the last reply of a line again.
    fn read_reply(&mut self, reply: &Fields<'_>, sent: SentPrompt, line: &Line) -> Result<State, Error> {
        let run = line.back().find(|node| node.run.reply.is_some());
        let run = run.ok_or_else(|| damaged("reply", "there is no run of it"))?;
        self.line = run.before().clone();
        let run = &run.run;
        if run.reply != Some(self.line.messages()) || run.messages.len() != 1 {
            return Err(damaged("reply", "its run has another message"));
        }
        let finish = match reply.text("finish")? {
            "stop" => Finish::Stop,
            "length" => Finish::Length,
            "abort" => Finish::Abort,
            _ => return Err(damaged("reply.finish", "unknown word")),
        };
        let notes = self.notes.clone();
        self.state = State::Open { sent: sent.clone() };
        let accepted = self.accept(&run.ids, finish).map_err(|error| damaged("reply", &error.to_string()))?;
        self.notes = notes;
        let said = message(reply.object("said")?.object_of().clone())?;
        let (is_unfinished, is_closed) = (reply.flag("is_unfinished")?, reply.flag("is_closed")?);
        let reply = Reply { said: Arc::new(said), is_unfinished, is_closed, ..Reply::clone(&accepted) };
        Ok(State::replied(sent, Arc::new(reply)))
    }
}

/// Resolves the request with the clock of the saved session.
fn setup(model: &Model, request: Request, clock: Option<DateTime>) -> Result<Arc<Setup>, Error> {
    let own = model.settings().now;
    if let (Some(own), Some(clock)) = (own, clock)
        && own != clock
        && request.other.get("now").is_none_or(Json::is_null)
    {
        return Err(SessionError::OtherModel { part: "clock" }.into());
    }
    model.setup_of(request, clock)
}

fn request(saved: &Fields<'_>) -> Result<Request, Error> {
    let mut own = object! { "messages" => vec![Json::from(object! { "role" => "user", "content" => "" })] };
    for key in ["tools", "documents", "add_generation_prompt", "chat_template_kwargs"] {
        own.insert(key, saved.optional(key).cloned().unwrap_or(Json::Null));
    }
    let mut conversation =
        Conversation::from_json(own.into()).map_err(|error| damaged("request", &error.to_string()))?;
    conversation.messages.clear();
    Ok(Request {
        id: saved.optional("id").cloned(),
        format: saved.optional("format").and_then(Json::as_str).map(str::to_owned),
        conversation,
        other: saved.object("other")?.object_of().clone(),
    })
}

fn message(object: Object) -> Result<Message, Error> {
    Message::from_object(object).map_err(|error| damaged("messages", &error.to_string()))
}

fn messages(saved: &Fields<'_>, key: &'static str) -> Result<Vec<Arc<Message>>, Error> {
    let objects = saved.objects(key)?.into_iter();
    objects.map(|object| message(object.object_of().clone()).map(Arc::new)).collect()
}

/// Decodes ids one by one: their bytes, and where each one ends.
pub(super) fn decoded(ids: &[u32], decoder: &Decoder) -> Result<(Vec<u8>, Vec<u32>), Error> {
    let (mut bytes, mut ends) = (Vec::new(), Vec::with_capacity(ids.len()));
    for id in ids {
        decoder.append(*id, &mut bytes)?;
        ends.push(bytes.len() as u32);
    }
    Ok((bytes, ends))
}

fn read_run(saved: &Fields<'_>, setup: &Setup) -> Result<Run, Error> {
    let ids = saved.numbers("ids")?;
    let text = saved.optional("text");
    let (bytes, ends) = match text {
        None => decoded(&ids, &setup.decoder).map_err(|error| damaged("ids", &error.to_string()))?,
        Some(text) => read_text(saved, text, &ids, setup)?,
    };
    let mut segments = Vec::new();
    let mut at = 0;
    for segment in saved.objects("segments")? {
        let start = at;
        at += segment.number("ids")?;
        segments.push(Segment {
            author: named(&Author::ALL, Author::name, segment.text("author")?)?,
            message: segment.optional_number("message")?,
            part: named(&SegmentPart::ALL, SegmentPart::name, segment.text("part")?)?,
            ids: start..at,
            weight: segment.weight("weight")?,
        });
    }
    if at != ids.len() || segments.iter().any(|segment| segment.ids.is_empty()) {
        return Err(damaged("segments", "they do not cover the ids"));
    }
    let messages = messages(saved, "messages")?;
    let (reply, stock) = (saved.optional_number("reply")?, saved.number("stock")?);
    Ok(Run { ids, ends, bytes, segments, messages, reply, stock })
}

/// Reads the text of ids that is not what they decode to.
fn read_text(saved: &Fields<'_>, text: &Json, ids: &[u32], setup: &Setup) -> Result<(Vec<u8>, Vec<u32>), Error> {
    let bytes = match text {
        Json::String(text) => text.clone().into_bytes(),
        Json::Array(items) => {
            let byte = |item: &Json| as_number(item).and_then(|byte| u8::try_from(byte).ok());
            items.iter().map(byte).collect::<Option<Vec<u8>>>().ok_or_else(|| damaged("text", "expected bytes"))?
        }
        _ => return Err(damaged("text", "expected text")),
    };
    let ends = saved.numbers("ends")?;
    let is_sorted = ends.is_sorted() && ends.last().map_or(0, |end| *end as usize) == bytes.len();
    if ends.len() != ids.len() || !is_sorted {
        return Err(damaged("ends", "they do not divide the text"));
    }
    let mut unused = Vec::new();
    for id in ids {
        unused.clear();
        // A format may have tokens that the maker's code adds to those of the tokenizer.
        let is_added = || setup.format().is_some_and(|format| format.controls.iter().any(|own| own.id == Some(*id)));
        if let Err(error) = setup.decoder.append(*id, &mut unused)
            && !is_added()
        {
            return Err(damaged("ids", &error.to_string()));
        }
    }
    Ok((bytes, ends))
}

/// Returns the value with a name.
fn named<T: Copy>(all: &[T], name: impl Fn(T) -> &'static str, wanted: &str) -> Result<T, Error> {
    let found = all.iter().copied().find(|known| name(*known) == wanted);
    found.ok_or_else(|| damaged("segments", &format!("unknown word {wanted:?}")))
}

/// Checks that runs name only messages that exist.
fn check_runs(line: &Line, known: usize) -> Result<(), Error> {
    let count = line.messages().max(known);
    let runs = line.back().map(|node| &node.run);
    let named =
        runs.flat_map(|run| run.reply.into_iter().chain(run.segments.iter().filter_map(|segment| segment.message)));
    match named.max() {
        Some(most) if most >= count => Err(damaged("message", "there are fewer messages")),
        _ => Ok(()),
    }
}

fn line_of(mut line: Line, runs: Vec<Run>) -> Line {
    runs.into_iter().for_each(|run| line.push(run));
    line
}
