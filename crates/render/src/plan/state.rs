use std::sync::Arc;

use rolecall_format::Field;

use super::calls::{Calls, CallsState};
use super::{Planner, Printed};

/// What planning knows of the messages that have been planned.
#[derive(Clone, Debug)]
pub(crate) struct PlanState {
    round: usize,
    /// Whether a user message has been planned.
    user: bool,
    /// Whether the conversation's tools are still to be printed.
    pub offers: bool,
    replaced: Option<usize>,
    says_interpreter: bool,
    calls: Option<Arc<CallsState>>,
    /// Whether a message other than an answer has been seen, if only pairs are written.
    begun: bool,
    /// Whether a turn announces the code interpreter.
    pub announced: bool,
    /// Whether a turn prints tools.
    pub printed: bool,
    /// Whether a further system message changes what the format adds at the start.
    pub adds_for_lack: bool,
    /// Whether the tool prompt replaces the first system message, which has not come yet.
    pub replaces_next: bool,
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
        Some(PlanState {
            round: self.round,
            user: self.user,
            offers: self.offers,
            replaced: self.replaced,
            says_interpreter: self.says_interpreter,
            calls: self.calls.as_ref().map(|calls| Arc::new(calls.state())),
            begun: self.begun,
            announced: self.announces(),
            printed: self.prints_tools(),
            adds_for_lack: self.adds_for_lack,
            replaces_next: self.replaces && self.replaced.is_none(),
        })
    }

    /// Continues from the state of an earlier plan.
    pub(super) fn resume(&mut self, state: &PlanState) {
        self.round = state.round;
        self.user = state.user;
        self.offers = state.offers;
        self.replaced = state.replaced;
        self.replaces = state.replaces_next || state.replaced.is_some();
        self.says_interpreter = state.says_interpreter;
        self.calls = state.calls.as_deref().map(|calls| Box::new(Calls::resume(calls)));
        self.begun = state.begun;
        self.announced = state.announced;
        self.printed = state.printed;
        self.adds_for_lack = state.adds_for_lack;
    }

    /// Reports whether a turn announces the code interpreter.
    pub(super) fn announces(&self) -> bool {
        self.announced || self.plan.turns.iter().any(|turn| turn.layout.prints(Field::Interpreter))
    }

    /// Reports whether a turn prints tools.
    pub(super) fn prints_tools(&self) -> bool {
        self.printed || self.plan.turns.iter().any(|turn| turn.tools != Printed::Nothing)
    }
}
