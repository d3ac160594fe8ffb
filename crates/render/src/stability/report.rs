use super::{Change, KeptLength, Step};
use crate::Error;

/// The comparison of all prompts of a growing conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stability {
    /// The steps in order: from one message to two, from two to three, and so on.
    pub steps: Vec<Step>,
}

/// A change that a step makes.
#[derive(Clone, Copy, Debug)]
pub struct StepChange<'a> {
    /// The step.
    pub step: &'a Step,
    /// Whether the earlier prompt ends with a generation prompt.
    pub in_generation: bool,
    /// The comparison.
    pub kept: &'a KeptLength,
    /// The first place that differs.
    pub change: &'a Change,
}

impl Stability {
    /// Reports whether no step changes anything: neither the history nor a generation prompt.
    /// Steps that are refused do not count.
    pub fn is_stable(&self) -> bool {
        self.changes().next().is_none()
    }

    /// Reports whether the comparison says something: some step was compared, or there is none. If
    /// every step is refused, nothing is known.
    pub fn says_anything(&self) -> bool {
        self.steps.is_empty() || self.steps.iter().any(|step| step.history.is_ok())
    }

    /// Returns the changes in order: for each step, that of the history and then that of the
    /// generation prompt.
    pub fn changes(&self) -> impl Iterator<Item = StepChange<'_>> {
        self.steps.iter().flat_map(|step| {
            let compared = [(false, Some(&step.history)), (true, step.generation.as_ref())];
            compared.into_iter().filter_map(move |(in_generation, kept)| {
                let kept = kept?.as_ref().ok()?;
                Some(StepChange { step, in_generation, kept, change: kept.change.as_ref()? })
            })
        })
    }

    /// Returns the errors of refused steps, with the number of messages of the earlier prompt. A
    /// step with two errors counts once.
    pub fn refusals(&self) -> impl Iterator<Item = (usize, &Error)> {
        self.steps.iter().filter_map(|step| {
            let generation = step.generation.as_ref().and_then(|kept| kept.as_ref().err());
            Some((step.messages, step.history.as_ref().err().or(generation)?))
        })
    }

    /// Returns the number of ids that the engine must process again because of changes in the
    /// history, over all steps, if the prompts were encoded.
    pub fn lost_ids(&self) -> Option<usize> {
        let kept = self.steps.iter().filter_map(|step| step.history.as_ref().ok());
        kept.map(KeptLength::lost_ids).sum()
    }
}
