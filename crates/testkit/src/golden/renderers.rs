//! Rows of the peer that has loss masks and sessions. The rows that are not pending check that its
//! prompts equal the templates' own.

use std::collections::HashMap;
use std::sync::Arc;

use rolecall::conversation::Json;
use rolecall::conversation::json::Object;

use super::parity::{request, same_ids};
use super::{Context, pending, text};
use crate::Verdict;

/// The text that the peer's own prompt adds after the template's, for the family that has channels.
const CHANNEL: &str = "<|channel|>analysis<|message|>";

/// The setups that later rows continue, by their ids.
#[derive(Default)]
pub(super) struct Setups {
    setups: HashMap<String, Arc<Object>>,
    /// The messages of whole completions, by setup and reply.
    messages: HashMap<(String, String), Arc<Object>>,
}

impl Setups {
    /// Stores a setup row.
    pub fn take(&mut self, row: &Object) {
        self.setups.insert(text(row, "id").to_owned(), Arc::new(row.clone()));
    }

    /// Stores the message of a row, from which later rows with the same reply were made too.
    pub fn take_message(&mut self, row: &Object) {
        if let Some(Json::Object(message)) = row.get("message") {
            let key = (text(row, "setup").to_owned(), text(row, "reply").to_owned());
            self.messages.insert(key, Arc::new(message.clone()));
        }
    }

    /// Returns the message that a row was made from.
    pub fn message(&self, row: &Object) -> Option<Arc<Object>> {
        self.messages.get(&(text(row, "setup").to_owned(), text(row, "reply").to_owned())).cloned()
    }

    /// Returns a setup.
    pub fn get(&self, id: &str) -> Option<Arc<Object>> {
        self.setups.get(id).cloned()
    }
}

/// Checks the prompt of a setup, including the generation prompt.
pub(super) fn prompt_ids(row: &Object, context: &mut Context) -> Verdict {
    let Some(wanted) = row.get("prompt_ids").and_then(Json::as_array) else {
        return Verdict::cannot_run("the setup has no `prompt_ids`");
    };
    same_ids(row, &request(row, true), wanted, |tail| tail == CHANNEL, context)
}

/// Checks the ids that a mask applies to: the whole conversation, without a generation prompt.
pub(super) fn whole_ids(row: &Object, context: &mut Context) -> Verdict {
    let expected = row.get("expected").and_then(Json::as_object);
    let Some(wanted) = expected.and_then(|expected| expected.get("ids")).and_then(Json::as_array) else {
        return Verdict::cannot_run("the row has no `ids`");
    };
    same_ids(row, &request(row, false), wanted, |_| false, context)
}

/// Returns pending for a row whose setup exists.
pub(super) fn pending(row: &Object, op: &str, setups: &Setups) -> Verdict {
    match row.get("setup").and_then(Json::as_str) {
        Some(setup) if !setups.setups.contains_key(setup) => {
            Verdict::cannot_run(format!("the row continues an unknown setup `{setup}`"))
        }
        _ => pending::run(row, "renderers", op),
    }
}
