//! Replacements for the conversation's own values: messages, calls and tools in the forms that the
//! template writes, and the marker after a message that the model is to continue.

mod arguments;
mod forms;
mod ids;

use std::borrow::Cow;
use std::sync::Arc;

use rolecall_conversation::json::Object;
use rolecall_conversation::{Json, Place, object};

use self::arguments::Source;
use super::analysis::{IdForm, WantedCalls};
use super::messages::Messages;
use crate::account::{FormChange, FormKind};
use crate::call_ids::NewIds;

pub(super) use forms::adapt_forms;

/// Replacement values by message and key.
#[derive(Clone, Debug, Default)]
pub(super) struct ReplacementValues {
    /// In the order of the messages. A value that is removed has no replacement.
    values: Vec<(usize, &'static str, Option<Arc<Json>>)>,
    spelled: Vec<ArgumentSpellings>,
    /// The calls whose arguments lost a value, because their text has a key twice.
    lossy: Vec<(usize, usize)>,
    /// The messages whose parts became one text, in ascending order.
    joined: Vec<usize>,
    /// The messages whose text became the only part, in ascending order.
    wrapped: Vec<usize>,
    /// In the order of the tools.
    tools: Vec<(usize, Object)>,
    /// What got another form.
    changes: Vec<FormChange>,
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
        self.set(message, key, Some(value.into()));
    }

    /// Removes a value.
    fn remove(&mut self, message: usize, key: &'static str) {
        self.set(message, key, None);
    }

    /// Counts a value that gets another form.
    fn count(&mut self, kind: FormKind, message: usize, field: &'static str) {
        FormChange::count(&mut self.changes, kind, || Place::message(message, field));
    }

    /// Returns what got another form.
    pub fn changes(&self) -> &[FormChange] {
        &self.changes
    }

    /// Notes that the parts of a content become one text.
    fn join(&mut self, message: usize) {
        self.count(FormKind::JoinedParts, message, "content");
        self.joined.push(message);
    }

    /// Makes a text the only part of a content.
    fn wrap(&mut self, message: usize, text: &str) {
        self.wrapped.push(message);
        let part = Json::from(object! { "type" => "text", "text" => text });
        self.replace(message, "content", Json::Array(vec![part]));
    }

    fn replace_tool(&mut self, tool: usize, value: Object) {
        FormChange::count(&mut self.changes, FormKind::Tool, || Place::field(format!("tools[{tool}]")));
        self.tools.push((tool, value));
    }

    /// Returns the replacement for a tool, if there is one.
    pub fn tool(&self, tool: usize) -> Option<&Object> {
        let at = self.tools.binary_search_by_key(&tool, |(known, _)| *known).ok()?;
        Some(&self.tools[at].1)
    }

    /// Returns the messages whose parts became one text.
    pub fn joined(&self) -> &[usize] {
        &self.joined
    }

    /// Reports whether the parts of a message's content became one text.
    pub fn is_joined(&self, message: usize) -> bool {
        self.joined.binary_search(&message).is_ok()
    }

    /// Returns the messages whose text became a part.
    pub fn wrapped(&self) -> &[usize] {
        &self.wrapped
    }

    /// Reports whether a message has replacements beside its calls.
    pub fn changes_more_than_calls(&self, message: usize) -> bool {
        self.of_message(message).any(|(key, _)| key != CALLS)
    }

    /// Reports whether a value became null.
    pub fn has_null(&self) -> bool {
        self.values.iter().any(|(.., value)| value.as_ref().is_some_and(|value| value.is_null()))
    }

    fn set(&mut self, message: usize, key: &'static str, value: Option<Arc<Json>>) {
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
        self.of_message(message).find(|(name, _)| *name == key)?.1
    }

    /// Returns the replacements for the values of a message. Those without a value are removed.
    pub fn of_message(&self, message: usize) -> impl Iterator<Item = (&'static str, Option<&Json>)> {
        let first = self.values.partition_point(|(known, ..)| *known < message);
        let of_message = self.values[first..].iter().take_while(move |(known, ..)| *known == message);
        of_message.map(|(_, key, value)| (*key, value.as_deref()))
    }

    /// Takes over the calls of a message, if they are there.
    fn take_calls(&mut self, message: usize, earlier: &ReplacementValues) -> bool {
        let Some((.., Some(calls))) = earlier.values.iter().find(|(known, key, _)| (*known, *key) == (message, CALLS))
        else {
            return false;
        };
        self.count(FormKind::Calls, message, CALLS);
        self.replace(message, CALLS, Arc::clone(calls));
        self.spelled.extend(earlier.spelled.iter().filter(|spelled| spelled.message == message).cloned());
        self.lossy.extend(earlier.lossy.iter().filter(|(known, _)| *known == message));
        true
    }

    /// Keeps the calls of the last few messages only.
    pub fn of_last(mut self) -> ReplacementValues {
        self.values.retain(|(_, key, value)| *key == CALLS && value.is_some());
        self.values.drain(..self.values.len().saturating_sub(KEPT));
        let first = self.values.first().map_or(0, |(message, ..)| *message);
        self.spelled.retain(|spelled| spelled.message >= first);
        self.lossy.retain(|(message, _)| *message >= first);
        ReplacementValues {
            values: self.values,
            spelled: self.spelled,
            lossy: self.lossy,
            ..ReplacementValues::default()
        }
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
                adapted.count(FormKind::Calls, index, CALLS);
                adapted.replace(index, CALLS, Json::Array(changed.into_iter().map(Cow::into_owned).collect()));
            }
        }
        if let (Some(ids), Some(Json::String(id))) = (&mut ids, object.get("tool_call_id"))
            && let Some(id) = ids.answer(id)
        {
            adapted.count(FormKind::CallId, index, "tool_call_id");
            adapted.replace(index, "tool_call_id", Json::from(id));
        }
    }
}
