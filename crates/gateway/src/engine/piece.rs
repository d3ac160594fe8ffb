use super::Odds;

/// A part of an engine's answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EnginePiece {
    /// The ids that were sampled.
    pub ids: Vec<u32>,
    /// The log probabilities of these ids, one for each, if they were asked for.
    pub odds: Vec<Odds>,
    /// What was sampled after them, if the engine does not tell the ids.
    pub spoken: Option<Spoken>,
    /// What was written by an engine by text, with the markers that it tells.
    pub text: String,
    /// Why the reply ended, if it did.
    pub end: Option<End>,
    /// The number of ids of the prompt that the engine already had, if it says so.
    pub cached: Option<u64>,
    /// The number of ids of the whole reply, as an engine by text says at the end.
    pub counted: Option<u64>,
}

/// Text of ordinary tokens whose ids an engine does not tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spoken {
    /// The text.
    pub text: String,
    /// The number of ids.
    pub count: usize,
    /// The last id, if the engine tells it.
    pub last: Option<u32>,
}

/// Why a reply ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The model stopped.
    Stop,
    /// The limit of ids was reached.
    Length,
}

impl EnginePiece {
    /// Returns the number of ids that were sampled. Text whose ids were not counted yet has one.
    pub fn count(&self) -> usize {
        let spoken = self.spoken.as_ref().map_or(0, |spoken| spoken.count);
        self.ids.len() + spoken + usize::from(!self.text.is_empty())
    }
}
