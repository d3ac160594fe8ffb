//! Replacements for the conversation's own values: tool calls in the form that the template
//! expects, and the marker after a message that the model is to continue.

mod arguments;
mod ids;

use rolecall_conversation::Json;

use super::analysis::{IdForm, WantedCalls};
use super::messages::Messages;
use crate::call_ids::NewIds;

/// Replacement values by message and key.
#[derive(Default)]
pub(super) struct Adapted {
    /// In the order of the messages.
    values: Vec<(usize, &'static str, Json)>,
    spelled: Vec<Spelled>,
}

/// The JSON spellings of the values in a call's arguments, which were converted from text to an
/// object.
pub(super) struct Spelled {
    pub message: usize,
    pub call: usize,
    pub spellings: Vec<String>,
}

impl Adapted {
    pub fn replace(&mut self, message: usize, key: &'static str, value: Json) {
        let at = self.values.partition_point(|(known, ..)| *known <= message);
        let mut of_message = self.values[..at].iter_mut().rev().take_while(|(known, ..)| *known == message);
        match of_message.find(|(_, name, _)| *name == key) {
            Some((.., known)) => *known = value,
            None => self.values.insert(at, (message, key, value)),
        }
    }

    /// Returns the spellings of arguments that were converted from text to an object.
    pub fn spelled(&self) -> &[Spelled] {
        &self.spelled
    }

    /// Returns the replacement for a message's value, if there is one.
    pub fn value_of(&self, message: usize, key: &str) -> Option<&Json> {
        let first = self.values.partition_point(|(known, ..)| *known < message);
        let mut of_message = self.values[first..].iter().take_while(|(known, ..)| *known == message);
        of_message.find(|(_, name, _)| *name == key).map(|(.., value)| value)
    }
}

/// Converts the tool calls of a conversation to the form that a template expects. Calls already in
/// that form are unchanged, including their spelling.
///
/// New ids depend on all messages, so all must be at hand if the template expects them in a form.
pub(super) fn adapt_calls(messages: Messages<'_>, wanted: WantedCalls, adapted: &mut Adapted) {
    let rule = wanted.ids.map(IdForm::rule);
    let mut ids = rule.as_ref().map(|rule| NewIds::new(messages.iter().map(|(_, message)| message), rule));
    for (index, message) in messages.iter() {
        let object = message.as_object();
        if let Some(Json::Array(calls)) = object.get("tool_calls") {
            let mut changed = calls.clone();
            if let Some(form) = wanted.arguments {
                for (at, call) in changed.iter_mut().enumerate() {
                    let spellings = arguments::adapt(call, form);
                    adapted.spelled.extend(spellings.map(|spellings| Spelled { message: index, call: at, spellings }));
                }
            }
            if let Some(ids) = &mut ids {
                changed.iter_mut().for_each(|call| ids::adapt(call, ids));
            }
            if changed != *calls {
                adapted.replace(index, "tool_calls", Json::Array(changed));
            }
        }
        if let (Some(ids), Some(Json::String(id))) = (&mut ids, object.get("tool_call_id"))
            && let Some(id) = ids.answer(id)
        {
            adapted.replace(index, "tool_call_id", Json::from(id));
        }
    }
}
