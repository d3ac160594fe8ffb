//! Replacements for the conversation's own values: tool calls in the form that the template
//! expects, and the marker after a message that the model is to continue.

mod arguments;
mod ids;

use std::borrow::Cow;
use std::sync::Arc;

use rolecall_conversation::Json;

use self::arguments::Source;
use super::analysis::{IdForm, WantedCalls};
use super::messages::Messages;
use crate::call_ids::NewIds;

/// Replacement values by message and key.
#[derive(Clone, Debug, Default)]
pub(super) struct ReplacementValues {
    /// In the order of the messages.
    values: Vec<(usize, &'static str, Arc<Json>)>,
    spelled: Vec<ArgumentSpellings>,
    /// The calls whose arguments lost a value, because their text has a key twice.
    lossy: Vec<(usize, usize)>,
}

/// The JSON spellings of the values in a call's arguments, which were converted from text to an
/// object.
#[derive(Clone, Debug)]
pub(super) struct ArgumentSpellings {
    pub message: usize,
    pub call: usize,
    pub spellings: Arc<[String]>,
}

impl ReplacementValues {
    pub fn replace(&mut self, message: usize, key: &'static str, value: impl Into<Arc<Json>>) {
        let value = value.into();
        let at = self.values.partition_point(|(known, ..)| *known <= message);
        let mut of_message = self.values[..at].iter_mut().rev().take_while(|(known, ..)| *known == message);
        match of_message.find(|(_, name, _)| *name == key) {
            Some((.., known)) => *known = value,
            None => self.values.insert(at, (message, key, value)),
        }
    }

    /// Returns the spellings of arguments that were converted from text to an object.
    pub fn spelled(&self) -> &[ArgumentSpellings] {
        &self.spelled
    }

    /// Returns the calls whose arguments lost a value, because their text has a key twice: the message and the number
    /// of the call in it.
    pub fn lossy(&self) -> &[(usize, usize)] {
        &self.lossy
    }

    /// Returns the replacement for a message's value, if there is one.
    pub fn value_of(&self, message: usize, key: &str) -> Option<&Json> {
        let first = self.values.partition_point(|(known, ..)| *known < message);
        let mut of_message = self.values[first..].iter().take_while(|(known, ..)| *known == message);
        of_message.find(|(_, name, _)| *name == key).map(|(.., value)| &**value)
    }

    /// Takes over the calls of a message, if they are there.
    fn take_calls(&mut self, message: usize, earlier: &ReplacementValues) -> bool {
        let Some((.., calls)) = earlier.values.iter().find(|(known, key, _)| (*known, *key) == (message, CALLS)) else {
            return false;
        };
        self.replace(message, CALLS, Arc::clone(calls));
        self.spelled.extend(earlier.spelled.iter().filter(|spelled| spelled.message == message).cloned());
        self.lossy.extend(earlier.lossy.iter().filter(|(known, _)| *known == message));
        true
    }

    /// Keeps the calls of the last few messages only.
    pub fn of_last(mut self) -> ReplacementValues {
        self.values.drain(..self.values.len().saturating_sub(KEPT));
        let first = self.values.first().map_or(0, |(message, ..)| *message);
        self.spelled.retain(|spelled| spelled.message >= first);
        self.lossy.retain(|(message, _)| *message >= first);
        self
    }
}

const CALLS: &str = "tool_calls";

/// The number of values that are kept for a longer conversation.
const KEPT: usize = 4;

/// Converts the tool calls of a conversation to the form that a template expects. Calls already in
/// that form are unchanged, including their spelling.
///
/// New ids depend on all messages, so all must be at hand if the template expects them in a form.
/// `earlier` has calls of the same conversation that were converted before, without new ids.
pub(super) fn adapt_calls(
    messages: Messages<'_>,
    wanted: WantedCalls,
    earlier: &ReplacementValues,
    adapted: &mut ReplacementValues,
) {
    let rule = wanted.ids.map(IdForm::rule);
    let mut ids = rule.as_ref().map(|rule| NewIds::new(messages.iter().map(|(_, message)| message), rule));
    for (index, message) in messages.iter() {
        let object = message.as_object();
        if let Some(Json::Array(calls)) = object.get(CALLS)
            && !adapted.take_calls(index, earlier)
        {
            let mut is_changed = false;
            let mut changed = Vec::with_capacity(calls.len());
            for (at, call) in calls.iter().enumerate() {
                let new = wanted.arguments.and_then(|form| arguments::adapted(call, form));
                is_changed |= new.is_some();
                let (mut call, source) = match new {
                    Some((call, source)) => (Cow::Owned(call), source),
                    None => (Cow::Borrowed(call), Source::Unknown),
                };
                match source {
                    Source::Unknown => {}
                    Source::Spelled(spellings) => {
                        adapted.spelled.push(ArgumentSpellings {
                            message: index,
                            call: at,
                            spellings: spellings.into(),
                        });
                    }
                    Source::KeyTwice => adapted.lossy.push((index, at)),
                }
                if let Some(ids) = &mut ids {
                    is_changed |= ids::adapt(call.to_mut(), ids);
                }
                changed.push(call);
            }
            if is_changed {
                adapted.replace(index, CALLS, Json::Array(changed.into_iter().map(Cow::into_owned).collect()));
            }
        }
        if let (Some(ids), Some(Json::String(id))) = (&mut ids, object.get("tool_call_id"))
            && let Some(id) = ids.answer(id)
        {
            adapted.replace(index, "tool_call_id", Json::from(id));
        }
    }
}
