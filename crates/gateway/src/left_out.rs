//! What a model's template does not write of a request: nothing that a client says is ignored.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use rolecall::Model;
use rolecall::conversation::{Json, Message, Part, Place, Tool, object};
use rolecall::grammar::ToolChoice;
use rolecall::render::Dropped;
use rolecall::session::{Session, SessionNote};

use crate::Fault;
use crate::forms::{CALL, calling, prompt_of};
use crate::wanted::Wanted;

/// The kinds of requests of which a model's template writes everything.
#[derive(Debug, Default)]
pub struct Whole(Mutex<HashSet<String>>);

/// The most kinds that are remembered.
const MOST_KINDS: usize = 64;

impl Whole {
    /// Refuses tools, documents, switches and files that the template does not write or read. `messages` are
    /// those of the whole conversation.
    pub fn check(&self, wanted: &Wanted, messages: &[Message]) -> Result<(), Fault> {
        let Some(kind) = kind_of(wanted, messages) else { return Ok(()) };
        if self.kinds().contains(&kind) {
            return Ok(());
        }
        let mut request = wanted.request.clone();
        request.conversation.messages = messages.to_vec();
        let prompt = wanted.served.model.prompt(request)?.into_prompt();
        refuse(wanted, &prompt.dropped)?;
        let mut kinds = self.kinds();
        if kinds.len() >= MOST_KINDS {
            kinds.clear();
        }
        kinds.insert(kind);
        Ok(())
    }

    fn kinds(&self) -> std::sync::MutexGuard<'_, HashSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Refuses what is missing from a prompt, except text of messages.
pub fn refuse(wanted: &Wanted, missing: &[Dropped]) -> Result<(), Fault> {
    let has_tools = wanted.calls.choice != ToolChoice::None;
    let is_refused = |place: &&Place| match (place.message, place.field.split(['[', '.']).next().unwrap_or_default()) {
        (None, "tools") => has_tools,
        (None, "documents" | "chat_template_kwargs") => true,
        (Some(_), "content") => place.field.starts_with("content["),
        _ => false,
    };
    let Some(place) = missing.iter().map(|dropped| &dropped.place).find(is_refused) else { return Ok(()) };
    let message = format!("{place}: the template of `{}` does not use it", wanted.served.name);
    let message_index = place.message.and_then(|index| u32::try_from(index).ok());
    let help = Some("leave it out, or serve the model with a format that has it".into());
    Err(Fault { message_index, help, ..Fault::at(&place.field, "unsupported_parameter", message) })
}

/// Refuses messages of which a session's template wrote nothing.
pub fn refuse_messages(model: &Model, session: &Session, notes: &[SessionNote]) -> Result<(), Fault> {
    let index_of = |note: &SessionNote| match note {
        SessionNote::LeftOut { message, .. } => Some(*message),
        _ => None,
    };
    let missing: Vec<usize> = notes.iter().filter_map(index_of).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let messages = session.messages();
    let messages: Vec<&Message> = messages.iter().map(|message| &**message).collect();
    refuse_roles(model, &messages, missing.into_iter())
}

/// Refuses messages of which a prompt has nothing.
pub fn refuse_missing(model: &Model, messages: &[Message], missing: &[Dropped]) -> Result<(), Fault> {
    let messages: Vec<&Message> = messages.iter().collect();
    let missing = missing.iter().filter(|dropped| matches!(dropped.place.field.as_str(), "" | "content"));
    refuse_roles(model, &messages, missing.filter_map(|dropped| dropped.place.message))
}

/// Refuses a message of which the template wrote nothing, if it writes nothing of any message of this role.
/// Some templates leave one out because of its place, as the model was trained.
fn refuse_roles(model: &Model, messages: &[&Message], missing: impl Iterator<Item = usize>) -> Result<(), Fault> {
    let mut written: HashSet<&str> = HashSet::new();
    for index in missing {
        let role = messages.get(index).and_then(|message| message.as_object().get("role")).and_then(Json::as_str);
        let Some(role) = role.filter(|role| !written.contains(role)) else { continue };
        // Each is tried, and conversations have few.
        if written.len() == MOST_KINDS || writes(model, role) {
            written.insert(role);
            continue;
        }
        let text = format!("message {index}: the model's template writes nothing of a message of `{role}`");
        let help = Some("give it another role, or serve the model with a format that has this one".into());
        let message_index = u32::try_from(index).ok();
        return Err(Fault { message_index, help, ..Fault::at("content", "left_out", text) });
    }
    Ok(())
}

/// Reports whether a template writes a message of a role at the start of a conversation or at its end.
fn writes(model: &Model, role: &str) -> bool {
    let user = || object! { "role" => "user", "content" => "a" };
    let asked = || object! { "role" => role, "content" => "b", "tool_call_id" => CALL, "name" => "f" };
    let places =
        [(0, vec![asked(), user()]), (1, vec![user(), asked()]), (2, vec![user(), calling("".into()), asked()])];
    places.into_iter().any(|(at, messages)| {
        let is_it = |place: &Place| place.message == Some(at) && matches!(place.field.as_str(), "" | "content");
        prompt_of(model, messages).is_some_and(|prompt| !prompt.dropped.iter().any(|dropped| is_it(&dropped.place)))
    })
}

/// Returns what decides whether the template writes everything but the texts, or `None` if there is nothing
/// else.
fn kind_of(wanted: &Wanted, messages: &[Message]) -> Option<String> {
    let conversation = &wanted.request.conversation;
    let tools = conversation.tools.iter().flatten().filter(|_| wanted.calls.choice != ToolChoice::None);
    let mut parts: Vec<&str> =
        tools.map(|tool| if matches!(tool, Tool::CodeInterpreter) { "c" } else { "f" }).collect();
    if conversation.documents.as_ref().is_some_and(|documents| !documents.is_empty()) {
        parts.push("d");
    }
    let has_file = |message: &Message| message.parts().any(|part| matches!(part, Part::File(_)));
    if messages.iter().any(has_file) {
        parts.push("p");
    }
    let switches = conversation.template_kwargs.iter().filter(|(_, value)| **value != Json::Null);
    parts.extend(switches.map(|(name, _)| name));
    parts.sort_unstable();
    parts.dedup();
    (!parts.is_empty()).then(|| parts.join("\n"))
}
