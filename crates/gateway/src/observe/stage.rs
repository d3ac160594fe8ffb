use std::time::{Duration, Instant};

/// A part of the work on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Reading the request.
    Parse,
    /// Rendering the conversation to a prompt.
    Render,
    /// Encoding the prompt to ids.
    Encode,
    /// Waiting until the engine takes the request.
    Wait,
    /// Waiting for the first id after that.
    FirstToken,
    /// Reading the sampled ids back into events, without waiting for them.
    ReadBack,
}

impl Stage {
    pub const ALL: [Stage; 6] =
        [Stage::Parse, Stage::Render, Stage::Encode, Stage::Wait, Stage::FirstToken, Stage::ReadBack];

    /// Returns the name in metrics, logs and traces.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Parse => "parse",
            Stage::Render => "render",
            Stage::Encode => "encode",
            Stage::Wait => "wait",
            Stage::FirstToken => "first_token",
            Stage::ReadBack => "read_back",
        }
    }
}

/// When a stage began and ended, and how long it was at work in between.
#[derive(Clone, Copy, Debug)]
pub struct Spent {
    pub first: Instant,
    pub last: Instant,
    pub busy: Duration,
}

/// The time of all stages.
#[derive(Clone, Debug, Default)]
pub struct Stages([Option<Spent>; Stage::ALL.len()]);

impl Stages {
    /// Adds time to a stage.
    pub fn add(&mut self, stage: Stage, from: Instant, to: Instant) {
        let Some(slot) = self.0.get_mut(stage as usize) else { return };
        let busy = to.saturating_duration_since(from);
        match slot {
            Some(spent) => {
                spent.last = to;
                spent.busy += busy;
            }
            None => *slot = Some(Spent { first: from, last: to, busy }),
        }
    }

    /// Returns the stages that took place.
    pub fn iter(&self) -> impl Iterator<Item = (Stage, &Spent)> {
        Stage::ALL.into_iter().zip(&self.0).filter_map(|(stage, spent)| Some((stage, spent.as_ref()?)))
    }
}
