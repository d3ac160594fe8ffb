//! Keys of messages and tools of which the prompt has nothing: nothing that a client says is ignored. A key with a
//! typing error would leave a tool without its parameters.

use std::collections::{HashMap, HashSet};

use rolecall::account::LeafKind;
use rolecall::conversation::json::Object;
use rolecall::conversation::{Json, Message, REASONING, Role, Tool};
use rolecall::{Model, Request};

use crate::Fault;
use crate::turn::sessions::chain::says_nothing;

/// The kinds of objects of which a message consists.
const KINDS: [ObjectKind; 4] = [ObjectKind::Message, ObjectKind::Part, ObjectKind::Call, ObjectKind::Function];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ObjectKind {
    Message,
    /// A part of the content.
    Part,
    Call,
    /// What a call calls, or a tool's function.
    Function,
    Tool,
}

/// Where a key is.
struct KeyPlace {
    /// The index of the message, if it is of one.
    message: Option<usize>,
    field: String,
    /// The number of items of its value. An account may tell the items of a list apart.
    items: usize,
}

/// The keys that are not of OpenAI's API and say something, each with all its places, in the order of the request.
#[derive(Default)]
struct OtherKeys<'a> {
    places: Vec<Vec<KeyPlace>>,
    known: HashMap<(ObjectKind, &'a str), usize>,
}

impl<'a> OtherKeys<'a> {
    fn add(&mut self, kind: ObjectKind, key: &'a str, value: &Json, message: Option<usize>, field: String) {
        let place = KeyPlace { message, field, items: value.as_array().map_or(0, <[Json]>::len) };
        let at = *self.known.entry((kind, key)).or_insert(self.places.len());
        match self.places.get_mut(at) {
            Some(places) => places.push(place),
            None => self.places.push(vec![place]),
        }
    }

    fn of_messages(messages: &'a [Message]) -> OtherKeys<'a> {
        let mut keys = OtherKeys::default();
        for (index, message) in messages.iter().enumerate() {
            for kind in KINDS {
                for (at, object) in objects(message.as_object(), kind) {
                    for (key, value) in object.iter() {
                        if is_usual(kind, key, message.role()) || is_unsaid(value) {
                            continue;
                        }
                        let field = match kind {
                            ObjectKind::Part => format!("content[{at}].{key}"),
                            ObjectKind::Call => format!("tool_calls[{at}].{key}"),
                            ObjectKind::Function => format!("tool_calls[{at}].function.{key}"),
                            _ => key.to_owned(),
                        };
                        keys.add(kind, key, value, Some(index), field);
                    }
                }
            }
        }
        keys
    }

    fn of_tools(tools: &'a [Tool]) -> OtherKeys<'a> {
        let mut keys = OtherKeys::default();
        for (index, tool) in tools.iter().enumerate() {
            let Tool::Function { object, wrapped } = tool else { continue };
            let wrapper = wrapped.then_some((object, ObjectKind::Tool));
            let function = tool.function().map(|function| (function, ObjectKind::Function));
            for (object, kind) in wrapper.into_iter().chain(function) {
                let within = if *wrapped && kind == ObjectKind::Function { "function." } else { "" };
                for (key, value) in object.iter() {
                    let is_usual = match kind {
                        ObjectKind::Tool => ["type", "function"].contains(&key),
                        _ => ["name", "description", "parameters"].contains(&key) || !wrapped && key == "type",
                    };
                    if !is_usual && !is_unsaid(value) {
                        keys.add(kind, key, value, None, format!("tools[{index}].{within}{key}"));
                    }
                }
            }
        }
        keys
    }

    /// Refuses a key of which the prompt of a request has nothing anywhere. Without a prompt, nothing is known, and
    /// it has none.
    fn refuse_unread(self, model: &Model, request: impl FnOnce() -> Request) -> Result<(), Fault> {
        if self.places.is_empty() {
            return Ok(());
        }
        let prompt = model.prompt(request()).ok();
        let left_out = prompt.as_ref().map(|prompt| {
            let lost = prompt.account().leaves().iter().filter(|leaf| leaf.kind == LeafKind::LeftOut);
            lost.map(|leaf| (leaf.place.message, &*leaf.place.field)).collect::<HashSet<_>>()
        });
        let is_unread = |KeyPlace { message, field, items }: &KeyPlace| {
            let ends = field.match_indices(['.', '[']).map(|(end, _)| end).chain([0, field.len()]);
            let mut around = ends.map(|end| (*message, &field[..end]));
            left_out.as_ref().is_none_or(|lost| {
                let is_lost = |at: usize| lost.contains(&(*message, &*format!("{field}[{at}]")));
                around.any(|place| lost.contains(&place)) || *items > 0 && (0..*items).all(is_lost)
            })
        };
        match self.places.iter().find(|places| places.iter().all(is_unread)).and_then(|places| places.first()) {
            Some(KeyPlace { message, field, .. }) => {
                let message_index = message.and_then(|index| u32::try_from(index).ok());
                Err(Fault { message_index, ..Fault::unsupported(field) })
            }
            None => Ok(()),
        }
    }
}

/// Refuses other keys of messages that say something and are not in the prompt. `request` has no messages.
pub fn refuse_unread(model: &Model, request: &Request, messages: &[Message]) -> Result<(), Fault> {
    OtherKeys::of_messages(messages).refuse_unread(model, || with_messages(request, messages.to_vec()))
}

/// Refuses other keys of tools that say something and are not in the prompt. `request` has no messages.
pub fn refuse_unread_of_tools(model: &Model, request: &Request) -> Result<(), Fault> {
    let tools = request.conversation.tools.as_deref().unwrap_or_default();
    OtherKeys::of_tools(tools).refuse_unread(model, || with_messages(request, vec![Message::user("a")]))
}

fn with_messages(request: &Request, messages: Vec<Message>) -> Request {
    let mut request = request.clone();
    request.conversation.messages = messages;
    request
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
        (ObjectKind::Tool, _) => false,
    }
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
        ObjectKind::Message | ObjectKind::Tool => &[],
        ObjectKind::Part => list("content"),
        ObjectKind::Call | ObjectKind::Function => list("tool_calls"),
    };
    let items = items.iter().enumerate().filter_map(move |(at, item)| {
        let object = item.as_object()?;
        Some((at, if kind == ObjectKind::Function { object.get("function")?.as_object()? } else { object }))
    });
    (kind == ObjectKind::Message).then_some((0, message)).into_iter().chain(items)
}
