//! Values that a template is given in place of the conversation's own: tool calls in the form that it wants, and the mark
//! behind a message that the model is to go on with.

mod arguments;
mod ids;

use std::collections::HashMap;

use rolecall_conversation::{Conversation, Json};

use super::analysis::{IdForm, WantedCalls};
use crate::call_ids::NewIds;

/// Values in place of others, by message and key.
#[derive(Default)]
pub(super) struct Adapted {
    values: HashMap<(usize, &'static str), Json>,
    spelled: Vec<Spelled>,
}

/// How the JSON text spells what is in a call's arguments, which were made an object.
pub(super) struct Spelled {
    pub message: usize,
    pub call: usize,
    pub spellings: Vec<String>,
}

/// All keys whose values may be replaced.
const KEYS: [&str; 3] = ["content", "tool_calls", "tool_call_id"];

impl Adapted {
    pub fn replace(&mut self, message: usize, key: &'static str, value: Json) {
        self.values.insert((message, key), value);
    }

    /// What arguments are spelled like, where they came as text and are an object now.
    pub fn spelled(&self) -> &[Spelled] {
        &self.spelled
    }

    /// What a message has under a name instead of its own value.
    pub fn value_of(&self, message: usize, key: &str) -> Option<&Json> {
        if self.values.is_empty() {
            return None;
        }
        let key = KEYS.into_iter().find(|known| *known == key)?;
        self.values.get(&(message, key))
    }
}

/// Gives the tool calls of a conversation the form that a template wants. What has it stays as it is, spelling and all.
pub(super) fn adapt_calls(conversation: &Conversation, wanted: WantedCalls, adapted: &mut Adapted) {
    let rule = wanted.ids.map(IdForm::rule);
    let mut ids = rule.as_ref().map(|rule| NewIds::new(&conversation.messages, rule));
    for (index, message) in conversation.messages.iter().enumerate() {
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
