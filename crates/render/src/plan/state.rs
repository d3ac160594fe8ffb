use std::sync::Arc;

use rolecall_format::Field;

use super::calls::{Calls, CallsState};
use super::{Planner, PrintedTools};

/// From where a longer conversation can be planned.
#[derive(Clone, Debug)]
pub(crate) struct PlanState {
    pub progress: Progress,
    calls: Option<Arc<CallsState>>,
}

/// What planning knows of the messages that have been planned.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    pub round: usize,
    /// Whether a user message has been planned.
    pub user: bool,
    /// Whether a message other than an answer has been seen, if only pairs are written.
    pub begun: bool,
    /// Whether the conversation's tools are still to be printed.
    pub offers: bool,
    /// Which system message the tool prompt replaces.
    pub replaced: Replacement,
    /// Whether an added system message announces the code interpreter.
    pub says_interpreter: bool,
    /// Whether a further system message changes what the format adds at the start.
    pub adds_for_lack: bool,
    /// Whether a turn of an earlier plan announces the code interpreter.
    pub announced: bool,
    /// Whether a turn of an earlier plan prints tools.
    pub printed: bool,
}

/// The system message that the tool prompt replaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Replacement {
    #[default]
    Nothing,
    /// The first one, which has not come yet.
    Next,
    /// The one with this index.
    Message(usize),
}

impl Planner<'_, '_> {
    /// Returns the state from which a longer conversation can be planned, or `None` if later
    /// messages change a turn that has been planned.
    pub(super) fn state(&self) -> Option<PlanState> {
        // The system text is written into the next user's turn. It is not part of the state,
        // because its message may be out of reach later.
        if self.folded.is_some() {
            return None;
        }
        let (announced, printed) = (self.announces(), self.prints_tools());
        Some(PlanState {
            progress: Progress { announced, printed, ..self.progress },
            calls: self.calls.as_ref().map(|calls| Arc::new(calls.state())),
        })
    }

    /// Continues from the state of an earlier plan.
    pub(super) fn resume(&mut self, state: &PlanState) {
        self.progress = state.progress;
        self.calls = state.calls.as_deref().map(|calls| Box::new(Calls::resume(calls)));
    }

    /// Reports whether a turn announces the code interpreter.
    pub(super) fn announces(&self) -> bool {
        self.progress.announced || self.plan.turns.iter().any(|turn| turn.layout.prints(Field::Interpreter))
    }

    /// Reports whether a turn prints tools.
    pub(super) fn prints_tools(&self) -> bool {
        self.progress.printed || self.plan.turns.iter().any(|turn| turn.tools != PrintedTools::Nothing)
    }
}
