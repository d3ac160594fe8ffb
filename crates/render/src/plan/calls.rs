//! Recognition of tool results that come from the code interpreter.

use std::collections::{HashSet, VecDeque};

use rolecall_conversation::{Call, Message};

use crate::shared_map::SharedMap;

/// The earlier calls to the code interpreter.
#[derive(Default)]
pub(super) struct Calls<'a> {
    /// The ids of the interpreter's calls that were planned before.
    earlier: SharedMap<()>,
    /// The ids of the interpreter's other calls.
    interpreter_ids: HashSet<&'a str>,
    /// For each call of the last message that still waits for its result: whether it calls the
    /// interpreter.
    waiting: VecDeque<bool>,
}

/// The calls of the messages that have been planned.
#[derive(Clone, Debug, Default)]
pub(super) struct CallsState {
    interpreter_ids: SharedMap<()>,
    waiting: VecDeque<bool>,
}

impl<'a> Calls<'a> {
    pub fn remember(&mut self, message: &'a Message) {
        if message.calls().len() > 0 {
            self.waiting.clear();
        }
        for call in message.calls() {
            let interpreter = matches!(call, Call::CodeInterpreter { .. });
            self.waiting.push_back(interpreter);
            self.interpreter_ids.extend(call.id().filter(|_| interpreter));
        }
    }

    pub fn is_from_interpreter(&mut self, result: &Message) -> bool {
        let next = self.waiting.pop_front();
        match (result.tool_call_id(), result.name()) {
            (_, Some("interpreter" | "code_interpreter")) => true,
            (Some(id), _) => self.interpreter_ids.contains(id) || self.earlier.get(id).is_some(),
            (None, Some(_)) => false,
            (None, None) => next.unwrap_or(false),
        }
    }

    /// Returns the state after the calls and results so far.
    pub fn state(&self) -> CallsState {
        let mut interpreter_ids = self.earlier.clone();
        for id in &self.interpreter_ids {
            interpreter_ids.insert(id, ());
        }
        CallsState { interpreter_ids, waiting: self.waiting.clone() }
    }

    /// Continues after earlier calls and results.
    pub fn resume(state: &CallsState) -> Calls<'a> {
        Calls {
            earlier: state.interpreter_ids.clone(),
            interpreter_ids: HashSet::new(),
            waiting: state.waiting.clone(),
        }
    }
}
