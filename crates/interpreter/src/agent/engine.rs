use std::fmt;

use rolecall::grammar::Grammar;
use rolecall::session::Finish;

use crate::Stop;

/// What samples a reply: ids in, ids out.
pub trait Engine {
    /// Samples a reply, and gives each piece to `take` as it comes. When `stop` says so, it ends with
    /// [`Finish::Abort`]. The token that stops the model may be among the ids, or not.
    fn sample(
        &mut self,
        sampling: &Sampling,
        stop: &Stop,
        take: &mut dyn FnMut(Sampled<'_>),
    ) -> Result<Finish, EngineError>;
}

/// What is to be sampled.
#[derive(Clone, Debug)]
pub struct Sampling {
    /// The ids of the prompt.
    pub ids: Vec<u32>,
    /// How many of them the engine had in the turn before. The rest is new.
    pub keep: usize,
    /// The text of the prompt, for an engine that gets no ids.
    pub text: String,
    /// The ids that end the reply.
    pub stop_ids: Vec<u32>,
    /// What the reply must follow.
    pub grammar: Option<Grammar>,
    /// The most ids of the reply.
    pub max_tokens: Option<usize>,
}

/// A piece of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampled<'a> {
    /// Ids.
    Ids(&'a [u32]),
    /// Text of ordinary tokens whose ids the engine does not tell.
    Text(&'a str),
    /// Text of an engine that tells no ids at all. What spells a control token is one.
    Spelled(&'a str),
}

/// Why an engine failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineError(pub String);

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the engine failed: {}", self.0)
    }
}

impl std::error::Error for EngineError {}
