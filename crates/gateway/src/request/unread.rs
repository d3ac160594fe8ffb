//! Keys of messages that the model's template does not read: nothing that a client says is ignored.

use rolecall::conversation::json::Object;
use rolecall::conversation::{Json, Message, REASONING, Role};
use rolecall::{Model, Request};

use crate::turn::sessions::chain::says_nothing;
use crate::{Fault, FaultCode};

/// The most other keys that are tried for a request.
const MOST_TRIED: usize = 8;

/// The kinds of objects of which a message consists.
const KINDS: [ObjectKind; 5] =
    [ObjectKind::Message, ObjectKind::Part, ObjectKind::Call, ObjectKind::Function, ObjectKind::Code];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ObjectKind {
    Message,
    /// A part of the content.
    Part,
    Call,
    /// What a call calls.
    Function,
    /// What a call of the code interpreter runs.
    Code,
}

impl ObjectKind {
    /// Returns the key of a call under which the object is, if it is in a call.
    fn key_in_call(self) -> Option<&'static str> {
        match self {
            ObjectKind::Function => Some("function"),
            ObjectKind::Code => Some(CODE),
            ObjectKind::Message | ObjectKind::Part | ObjectKind::Call => None,
        }
    }
}

/// The type of a call of the code interpreter, and the key of what it runs.
const CODE: &str = "code_interpreter";

/// A key that is not one of OpenAI's API.
struct Other<'a> {
    /// The first message that has it.
    message: usize,
    kind: ObjectKind,
    key: &'a str,
    /// The place of it there.
    field: String,
}

/// Refuses other keys of messages that say something and do not change the prompt. `request` has no messages.
pub fn refuse_unread(model: &Model, request: &Request, messages: &[Message]) -> Result<(), Fault> {
    let at = |index: usize, fault: Fault| Fault { message_index: u32::try_from(index).ok(), ..fault };
    if let Some((index, key)) = messages.iter().enumerate().find_map(|(at, message)| Some((at, twofold(message)?))) {
        let message = format!("messages[{index}]: it has other reasoning under another key than `{key}`");
        return Err(at(index, Fault::at(key, FaultCode::Conflict, message)));
    }
    for (index, message) in messages.iter().enumerate() {
        check_types(message).map_err(|fault| at(index, fault))?;
    }
    let others = others(messages);
    if others.is_empty() {
        return Ok(());
    }
    let refuse = |other: &Other<'_>| Err(at(other.message, Fault::unsupported(&other.field)));
    if let Some(other) = others.get(MOST_TRIED) {
        return refuse(other);
    }
    let whole = prompt(model, request, messages.to_vec());
    for other in &others {
        // A template that fails without the key reads it.
        let is_read = match (&whole, without(messages, other)) {
            (Some(whole), Some(messages)) => prompt(model, request, messages).is_none_or(|other| other != *whole),
            _ => false,
        };
        if !is_read {
            return refuse(other);
        }
    }
    Ok(())
}

/// Refuses reasoning that is no text, and a call in OpenAI's old form beside those in the new one.
fn check_types(message: &Message) -> Result<(), Fault> {
    let object = message.as_object();
    if *message.role() != Role::Assistant {
        return Ok(());
    }
    let is_text = |key: &&str| object.get(key).is_none_or(|value| value.is_null() || value.as_str().is_some());
    if let Some(key) = REASONING.iter().find(|key| !is_text(key)) {
        return Err(Fault::at(key, FaultCode::WrongType, format!("{key}: expected a text")));
    }
    match object.get("function_call") {
        Some(call) if !call.is_null() && message.calls().len() > 0 => {
            let message = "function_call: the message has `tool_calls`, too";
            Err(Fault::at("function_call", FaultCode::Conflict, message))
        }
        _ => Ok(()),
    }
}

/// Returns a key of reasoning of which a message has another value under another key. Templates read one of
/// them.
fn twofold(message: &Message) -> Option<&'static str> {
    let object = message.as_object();
    let mut given = REASONING.into_iter().filter_map(|key| Some((key, object.get(key)?.as_str()?)));
    let (first, text) = given.find(|(_, text)| !text.is_empty())?;
    given.any(|(_, other)| !other.is_empty() && other != text).then_some(first)
}

/// Reports whether a key belongs to an object of OpenAI's API, or only labels it.
fn is_usual(kind: ObjectKind, key: &str, role: &Role) -> bool {
    match (kind, key) {
        (ObjectKind::Message, "role" | "content" | "name" | "id" | "cache_control") => true,
        (ObjectKind::Message, "tool_call_id") => *role == Role::Tool,
        (ObjectKind::Message, "tool_calls" | "function_call") => *role == Role::Assistant,
        (ObjectKind::Message, key) => *role == Role::Assistant && REASONING.contains(&key),
        (ObjectKind::Part, key) => ["type", "text", "cache_control"].contains(&key),
        (ObjectKind::Call, key) => ["type", "id", "index", "function"].contains(&key),
        (ObjectKind::Function, key) => ["name", "arguments"].contains(&key),
        (ObjectKind::Code, key) => key == "input",
    }
}

/// Reports whether a key of a call is the one that its type names.
fn is_code(call: &Object, key: &str) -> bool {
    key == CODE && call.get("type").and_then(Json::as_str) == Some(CODE)
}

/// Returns the other keys, up to one more than are tried.
fn others(messages: &[Message]) -> Vec<Other<'_>> {
    let mut others: Vec<Other<'_>> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        for kind in KINDS {
            for (at, object) in objects(message.as_object(), kind) {
                for (key, value) in object.iter() {
                    let is_known = |other: &Other<'_>| other.kind == kind && other.key == key;
                    let is_usual =
                        is_usual(kind, key, message.role()) || (kind == ObjectKind::Call && is_code(object, key));
                    if is_usual || is_unsaid(value) || others.iter().any(is_known) {
                        continue;
                    }
                    let field = match kind {
                        ObjectKind::Message => key.to_owned(),
                        ObjectKind::Part => format!("content[{at}].{key}"),
                        ObjectKind::Call => format!("tool_calls[{at}].{key}"),
                        ObjectKind::Function => format!("tool_calls[{at}].function.{key}"),
                        ObjectKind::Code => format!("tool_calls[{at}].{CODE}.{key}"),
                    };
                    others.push(Other { message: index, kind, key, field });
                    if others.len() > MOST_TRIED {
                        return others;
                    }
                }
            }
        }
    }
    others
}

/// Reports whether the value of a key says nothing that a client could miss.
fn is_unsaid(value: &Json) -> bool {
    match value {
        Json::Bool(false) => true,
        Json::Object(entries) => entries.is_empty(),
        value => says_nothing(value),
    }
}

/// Returns the objects of a kind, each with its index.
fn objects(message: &Object, kind: ObjectKind) -> impl Iterator<Item = (usize, &Object)> {
    let list = |key: &str| message.get(key).and_then(Json::as_array).unwrap_or_default();
    let items = match kind {
        ObjectKind::Message => &[],
        ObjectKind::Part => list("content"),
        ObjectKind::Call | ObjectKind::Function | ObjectKind::Code => list("tool_calls"),
    };
    let items = items.iter().enumerate().filter_map(move |(at, item)| {
        let object = item.as_object()?;
        match kind.key_in_call() {
            Some(key) => Some((at, object.get(key)?.as_object()?)),
            None => Some((at, object)),
        }
    });
    (kind == ObjectKind::Message).then_some((0, message)).into_iter().chain(items)
}

/// Returns the prompt of messages, or `None` if the template refuses them.
fn prompt(model: &Model, request: &Request, messages: Vec<Message>) -> Option<String> {
    let mut request = request.clone();
    request.conversation.messages = messages;
    Some(model.prompt(request).ok()?.text().to_owned())
}

/// Returns messages without a key, or `None` if they are none without it.
fn without(messages: &[Message], other: &Other<'_>) -> Option<Vec<Message>> {
    let without = |message: &Message| {
        let mut object = message.as_object().clone();
        match other.kind {
            ObjectKind::Message if is_usual(ObjectKind::Message, other.key, message.role()) => {}
            ObjectKind::Message => drop(object.remove(other.key)),
            ObjectKind::Part => each(&mut object, "content", |part| drop(part.remove(other.key))),
            ObjectKind::Call => each(&mut object, "tool_calls", |call| drop(call.remove(other.key))),
            ObjectKind::Function | ObjectKind::Code => each(&mut object, "tool_calls", |call| {
                if let Some(Json::Object(inner)) = other.kind.key_in_call().and_then(|key| call.get_mut(key)) {
                    inner.remove(other.key);
                }
            }),
        }
        Message::from_object(object).ok()
    };
    messages.iter().map(without).collect()
}

/// Changes each object in a list of a message.
fn each(message: &mut Object, key: &str, change: impl Fn(&mut Object)) {
    if let Some(Json::Array(items)) = message.get_mut(key) {
        for item in items {
            if let Json::Object(object) = item {
                change(object);
            }
        }
    }
}
