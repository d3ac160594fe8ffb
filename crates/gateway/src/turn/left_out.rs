//! What a model's template does not write of a request: nothing that a client says is ignored.

use std::collections::{BTreeSet, HashSet};

use rolecall::conversation::{self, Json, Message, Place, REASONING, Role, Tool};
use rolecall::grammar::ToolChoice;
use rolecall::render::Dropped;
use rolecall::session::{Session, SessionNote};
use rolecall::{Prompt, Request};

use crate::request::chat_request::ChatRequest;
use crate::{Fault, FaultCode};

/// Refuses tools, documents, switches and files that the template does not write or read. `messages` are
/// those of the whole conversation.
pub fn check(wanted: &ChatRequest, messages: &[Message]) -> Result<(), Fault> {
    let Some(kind) = kind_of(wanted, messages) else { return Ok(()) };
    if wanted.served.support.has(&kind) {
        return Ok(());
    }
    let mut request = wanted.request.clone();
    request.conversation.messages = messages.to_vec();
    let prompt = wanted.served.model.prompt(request.clone())?;
    if !refuse(wanted, &request, prompt.prompt())? {
        return Ok(());
    }
    wanted.served.support.add(kind);
    Ok(())
}

/// Refuses tools that the template does not write, in a conversation that goes on: in the turns before, the model
/// may have been told not to call any. `messages` returns those of the whole conversation.
pub fn check_tools(wanted: &ChatRequest, messages: impl FnOnce() -> Vec<Message>) -> Result<(), Fault> {
    let kinds = kinds_of_tools(wanted);
    if kinds.is_empty() {
        return Ok(());
    }
    let kind = format!("tools {kinds:?}");
    if wanted.served.support.has(&kind) {
        return Ok(());
    }
    let mut request = wanted.request.clone();
    request.conversation.messages = messages();
    // The session says better what is wrong with it.
    let Ok(prompt) = wanted.served.model.prompt(request) else { return Ok(()) };
    let is_of_tools = |place: &&Place| place.message.is_none() && is_of(&place.field, "tools");
    if let Some(place) = prompt.prompt().dropped().iter().map(|dropped| &dropped.place).find(is_of_tools) {
        return Err(unused(wanted, place));
    }
    wanted.served.support.add(kind);
    Ok(())
}

/// Refuses what is missing from a prompt, except text of messages. Reports whether nothing is: with other
/// messages, a switch that is not read anywhere may have an effect.
pub fn refuse(wanted: &ChatRequest, request: &Request, prompt: &Prompt) -> Result<bool, Fault> {
    let has_tools = wanted.calls.choice != ToolChoice::None;
    let mut is_whole = true;
    for place in prompt.dropped().iter().map(|dropped| &dropped.place) {
        let is_refused = match (place.message, place.field.split(['[', '.']).next().unwrap_or_default()) {
            (None, "tools") => has_tools,
            (None, "documents") => true,
            // A file of a format.
            (Some(_), "content") => place.field.starts_with("content["),
            _ => false,
        };
        if is_refused {
            return Err(unused(wanted, place));
        }
    }
    let switches = request.conversation.template_kwargs.iter().filter(|(_, value)| **value != Json::Null);
    for (name, _) in switches.filter(|(name, _)| !wanted.served.model.reads_switch(name)) {
        is_whole = false;
        let place = Place::field(format!("chat_template_kwargs.{name}"));
        if !has_effect(wanted, request, prompt, &place) {
            return Err(unused(wanted, &place));
        }
    }
    Ok(is_whole)
}

fn unused(wanted: &ChatRequest, place: &Place) -> Fault {
    let message = format!("{place}: the template of `{}` does not use it", wanted.served.name);
    let message_index = place.message.and_then(|index| u32::try_from(index).ok());
    let help = Some("leave it out, or serve the model with a format that has it".into());
    Fault { message_index, help, ..Fault::at(&place.field, FaultCode::UnsupportedParameter, message) }
}

/// Reports whether a switch changes the prompt. Templates use a name for a switch and for a value of their own.
fn has_effect(wanted: &ChatRequest, request: &Request, prompt: &Prompt, switch: &Place) -> bool {
    let mut without = request.clone();
    let name = switch.field.split_once('.').map_or("", |(_, name)| name);
    let is_there = without.conversation.template_kwargs.remove(name).is_some();
    is_there && wanted.served.model.prompt(without).is_ok_and(|other| other.text() != prompt.text())
}

/// A part of a message that is not in the prompt: the index of the message, and the field.
pub type LeftOutField = (usize, String);

/// Returns the parts that a session left out of its last turn.
pub fn of_notes(notes: &[SessionNote]) -> Vec<LeftOutField> {
    let part = |note: &SessionNote| match note {
        SessionNote::LeftOut { message, field, .. } => Some((*message, field.clone())),
        _ => None,
    };
    notes.iter().filter_map(part).collect()
}

/// Returns the parts of all messages of a session that a prompt of them lacks.
pub fn of_all(wanted: &ChatRequest, session: &Session) -> Result<Vec<LeftOutField>, Fault> {
    let mut request = wanted.request.clone();
    request.conversation.messages = session.messages().iter().map(|message| Message::clone(message)).collect();
    Ok(of_prompt(wanted.served.model.prompt(request)?.prompt().dropped()))
}

/// Returns the parts of messages that a prompt lacks, except those that the template's maker leaves out on
/// purpose.
pub fn of_prompt(missing: &[Dropped]) -> Vec<LeftOutField> {
    let missing = missing.iter().filter(|dropped| !dropped.by_design);
    missing.filter_map(|Dropped { place, .. }| Some((place.message?, place.field.to_string()))).collect()
}

/// Returns the parts of a conversation that the model does not see, because its template leaves them out as it
/// was trained: reasoning, text beside a call, and what depends on what comes later. Anything else that is
/// missing is refused.
pub fn judge(
    wanted: &ChatRequest,
    messages: &[&Message],
    missing: Vec<LeftOutField>,
) -> Result<Vec<LeftOutField>, Fault> {
    let mut lacks_now = None;
    let mut later = Later::default();
    for (index, field) in &missing {
        let Some(message) = messages.get(*index) else { continue };
        let has_calls = message.calls().len() > 0;
        let is_call = has_calls && field.is_empty() || is_of(field, "tool_calls");
        if REASONING.iter().any(|name| is_of(field, name)) || has_calls && !is_call {
            continue;
        }
        if !is_among(lacks_now.get_or_insert_with(|| lacks(wanted, messages)), *index, field) {
            let text = format!("message {index}: the model's template writes it before what was sent already");
            return Err(lost(*index, field, text, "send the whole conversation as a new one"));
        }
        if later.hides(wanted, messages, *index, field) {
            continue;
        }
        if is_call {
            let field = if field.is_empty() { "tool_calls[0]" } else { field };
            let text = format!("message {index}: the model's template does not write this call");
            let help = "leave the call and its result out, or serve the model with a format that has calls";
            return Err(lost(*index, field, text, help));
        }
        let role = message.role_as_spelled();
        let text = format!("message {index}: the model's template writes nothing of this message of `{role}` here");
        return Err(lost(*index, field, text, "give it another role or place, or serve the model with a format"));
    }
    Ok(missing)
}

/// Finds out what a template leaves out because of messages that come later.
#[derive(Default)]
struct Later<'a> {
    /// What it lacks without those after the last message of the user.
    of_last: Option<Option<Vec<LeftOutField>>>,
    /// The kinds of parts of which one was there without those from the user's next message on: the role, and
    /// whether it is a call.
    hidden: HashSet<(&'a str, bool)>,
}

impl<'a> Later<'a> {
    fn hides(&mut self, wanted: &ChatRequest, messages: &[&'a Message], index: usize, field: &str) -> bool {
        let is_user = |message: &&Message| *message.role() == Role::User;
        let upto = |end: usize| lacks(wanted, messages.get(..end).unwrap_or_default());
        if let Some(last) = messages.iter().rposition(is_user).filter(|last| index <= *last)
            && !is_among(self.of_last.get_or_insert_with(|| upto(last + 1)), index, field)
        {
            return true;
        }
        // Each is a prompt, so one of a kind speaks for all.
        let kind = (messages.get(index).map_or("", |message| message.role_as_spelled()), is_of(field, "tool_calls"));
        if self.hidden.contains(&kind) {
            return true;
        }
        let Some(next) = messages.iter().skip(index + 1).position(is_user) else { return false };
        !is_among(&upto(index + 1 + next), index, field) && self.hidden.insert(kind)
    }
}

/// Reports whether a part is among those that a prompt lacks. Where there is no prompt, everything is.
fn is_among(lacking: &Option<Vec<LeftOutField>>, index: usize, field: &str) -> bool {
    lacking
        .as_ref()
        .is_none_or(|all| all.iter().any(|(at, other)| *at == index && (other.is_empty() || other == field)))
}

/// Reports whether a field belongs to another.
fn is_of(field: &str, other: &str) -> bool {
    field.strip_prefix(other).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

fn lost(index: usize, field: &str, text: String, help: &str) -> Fault {
    let field = if field.is_empty() { "content" } else { field };
    Fault {
        message_index: u32::try_from(index).ok(),
        help: Some(help.into()),
        ..Fault::at(field, FaultCode::LeftOut, text)
    }
}

/// Returns the parts that the prompt of some messages lacks, or `None` if there is no prompt.
fn lacks(wanted: &ChatRequest, messages: &[&Message]) -> Option<Vec<LeftOutField>> {
    let mut request = wanted.request.clone();
    request.conversation.messages = messages.iter().copied().cloned().collect();
    request.conversation.continue_final_message = false;
    Some(of_prompt(wanted.served.model.prompt(request).ok()?.prompt().dropped()))
}

/// Returns the kinds of the tools that the model may call.
fn kinds_of_tools(wanted: &ChatRequest) -> BTreeSet<&'static str> {
    let tools = wanted.request.conversation.tools.iter().flatten();
    let tools = tools.filter(|_| wanted.calls.choice != ToolChoice::None);
    tools.map(|tool| if matches!(tool, Tool::CodeInterpreter) { "c" } else { "f" }).collect()
}

/// Returns what decides whether the template writes everything but the texts, or `None` if there is nothing
/// else.
fn kind_of(wanted: &ChatRequest, messages: &[Message]) -> Option<String> {
    let conversation = &wanted.request.conversation;
    let mut parts: Vec<String> = kinds_of_tools(wanted).into_iter().map(str::to_owned).collect();
    // Templates read documents by their keys.
    parts.extend(conversation.documents.iter().flatten().map(|document| {
        let mut keys: Vec<&str> =
            document.as_object().into_iter().flat_map(|all| all.iter().map(|(key, _)| key)).collect();
        keys.sort_unstable();
        format!("d {keys:?}")
    }));
    let has_file = |message: &Message| message.parts().any(|part| matches!(part, conversation::Part::File(_)));
    if messages.iter().any(has_file) {
        parts.push("p".to_owned());
    }
    let switches = conversation.template_kwargs.iter().filter(|(_, value)| **value != Json::Null);
    parts.extend(switches.map(|(name, _)| format!("s {name}")));
    parts.sort_unstable();
    parts.dedup();
    (!parts.is_empty()).then(|| parts.join("\n"))
}
