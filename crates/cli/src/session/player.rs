//! Performs the steps of a script.

use std::sync::Arc;

use rolecall::conversation::Message;
use rolecall::conversation::json::Object;
use rolecall::session::{Cut, Delta, Difference, Plan, Proof, Reply, Rewrite, Segment, Session};
use rolecall::{Model, Request};

use super::script::{ScriptOutput, ScriptStep};
use crate::refusal::Refusal;

/// The sessions of a script, by name. One of them is the current one.
pub struct Player {
    model: Model,
    sessions: Vec<(String, Session)>,
    current: usize,
}

/// What a step did.
pub enum Done {
    /// The session began, with this many messages.
    Began { messages: usize },
    /// Messages could be appended, with this rewrite.
    Planned { rewrite: Option<Rewrite> },
    /// An operation added ids, or replaced some.
    Changed(Delta),
    /// A reply was taken.
    Accepted { reply: Arc<Reply>, keep: usize, ids: Vec<u32>, segments: Vec<Segment> },
    /// The oldest turns were removed.
    Truncated(Box<Cut>),
    /// The session as JSON, on one line.
    Saved(String),
    /// A saved session goes on.
    Restored { messages: usize, total: usize, is_open: bool },
    /// The session was compared with the stock rendering.
    Compared(Difference),
    /// The current session got another name too, or another session became the current one.
    Named { name: String, total: usize },
}

/// The name of the first session.
const MAIN: &str = "main";

impl Player {
    pub fn new(model: Model) -> Player {
        Player { model, sessions: Vec::new(), current: 0 }
    }

    /// Returns the name of the current session.
    pub fn name(&self) -> &str {
        self.sessions.get(self.current).map_or(MAIN, |(name, _)| name)
    }

    /// Returns the current session, which begins if none did yet.
    pub fn session(&mut self) -> Result<&Session, Refusal> {
        if self.sessions.is_empty() {
            self.begin(Request::without_messages(Object::new())?)?;
        }
        self.sessions.get(self.current).map(|(_, session)| session).ok_or(Refusal::NoFormat)
    }

    /// Performs a step. If it fails, the sessions are as they were.
    pub fn play(&mut self, step: ScriptStep) -> Result<Done, Refusal> {
        let step = match step {
            ScriptStep::Request(request) => {
                let messages = request.conversation.messages.len();
                self.begin(*request)?;
                return Ok(Done::Began { messages });
            }
            ScriptStep::Import { request, seams } => {
                let session = self.model.import_session(*request, seams)?;
                let (ids, segments) = (session.ids(), session.segments());
                let delta = Delta { keep: 0, ids, segments, proof: Proof::First, notes: Vec::new() };
                self.sessions.push((MAIN.to_owned(), session));
                return Ok(Done::Changed(delta));
            }
            ScriptStep::Restore(saved) => {
                let session = self.model.restore_session(&saved)?;
                let (messages, total, is_open) = (session.messages().len(), session.len(), session.is_open());
                self.sessions.push((MAIN.to_owned(), session));
                return Ok(Done::Restored { messages, total, is_open });
            }
            step => step,
        };
        if self.sessions.is_empty() {
            self.begin(Request::without_messages(Object::new())?)?;
        }
        match step {
            ScriptStep::Fork(name) => return self.fork(name),
            ScriptStep::Switch(name) => return self.switch(name),
            _ => {}
        }
        let Some((_, session)) = self.sessions.get_mut(self.current) else { return Err(Refusal::NoFormat) };
        Ok(match step {
            ScriptStep::Plan { messages, with } => {
                Done::Planned { rewrite: plan(session, &messages, with)?.rewrite().cloned() }
            }
            ScriptStep::Append { messages, with, on } => {
                let plan = plan(session, &messages, with)?;
                Done::Changed(session.append(plan, on)?)
            }
            ScriptStep::Open => Done::Changed(session.open()?),
            ScriptStep::Accept { said, finish } => {
                let ids = match said {
                    ScriptOutput::Ids(ids) => ids,
                    ScriptOutput::Text(text) => session.encode_sampled(&text)?,
                };
                let keep = session.len();
                let reply = session.accept(&ids, finish)?;
                Done::Accepted { reply, keep, ids, segments: session.segments_from(keep) }
            }
            ScriptStep::Close => Done::Changed(session.close()?),
            ScriptStep::Truncate(keep) => Done::Truncated(Box::new(session.truncate(keep)?)),
            ScriptStep::Save => Done::Saved(session.save()?),
            ScriptStep::Difference => Done::Compared(session.difference()?),
            // These were performed above.
            ScriptStep::Request(_)
            | ScriptStep::Import { .. }
            | ScriptStep::Restore(_)
            | ScriptStep::Fork(_)
            | ScriptStep::Switch(_) => Done::Began { messages: 0 },
        })
    }

    fn begin(&mut self, request: Request) -> Result<(), Refusal> {
        let session = self.model.session(request)?;
        self.sessions.push((MAIN.to_owned(), session));
        Ok(())
    }

    fn fork(&mut self, name: String) -> Result<Done, Refusal> {
        if self.sessions.iter().any(|(known, _)| *known == name) {
            return Err(Refusal::ForkTaken(name));
        }
        let Some((_, session)) = self.sessions.get(self.current) else { return Err(Refusal::NoFormat) };
        let total = session.len();
        let fork = session.clone();
        self.sessions.push((name.clone(), fork));
        Ok(Done::Named { name, total })
    }

    fn switch(&mut self, name: String) -> Result<Done, Refusal> {
        let Some(at) = self.sessions.iter().position(|(known, _)| *known == name) else {
            let known = self.sessions.iter().map(|(known, _)| known.clone()).collect();
            return Err(Refusal::NoFork { name, known });
        };
        self.current = at;
        Ok(Done::Named { name, total: self.sessions[at].1.len() })
    }
}

fn plan(session: &Session, messages: &[Message], with: Option<Box<Request>>) -> Result<Plan, rolecall::Error> {
    match with {
        Some(request) => session.plan_with(*request, messages),
        None => session.plan(messages),
    }
}
