//! Harmony's own JSON: messages with channels, recipients and typed content.
//!
//! What harmony writes as several messages of the assistant (reasoning, text, calls) becomes one
//! message, as in OpenAI's API. What has no place there is added to the request as an unknown key,
//! named by its path, so that it is reported like any other key that nothing reads.

// openai-harmony 0.0.8: `Message` and `Content` in src/chat.rs, `Message.to_dict` and
// `Conversation.to_json` in python/openai_harmony/__init__.py.

mod content;
mod gathered;

use rolecall_conversation::json::Object;
use rolecall_conversation::spelling::near_miss;
use rolecall_conversation::{Json, Place, Problem, REASONING, object};
use rolecall_openai::Error;

use self::content::{Content, read_content};
use self::gathered::{Call, GatheredMessages, MessageKind};
use super::{Draft, FieldOrigin, missing, wrong_type};

/// The keys of a message.
const OWN_KEYS: [&str; 7] = ["role", "name", "author", "content", "channel", "recipient", "content_type"];
/// The keys that only OpenAI's messages have, apart from those of reasoning.
const KEYS_OF_OPENAI: [&str; 3] = ["tool_calls", "tool_call_id", "function_call"];
const ROLES: &str = "`system`, `developer`, `user`, `assistant`, `tool`";
const CHANNELS: [&str; 3] = ["analysis", "commentary", "final"];
const KNOWN_CHANNELS: &str = "`analysis`, `commentary`, `final`";
/// The recipients that are not tools.
const PEOPLE: [&str; 3] = ["assistant", "user", "all"];
/// What the recipients that are functions begin with.
const FUNCTIONS: &str = "functions.";
/// The recipient that executes code.
const CODE: &str = "python";

/// Reports whether these are harmony's messages. A message that has keys of OpenAI's decides
/// nothing, because datasets also use `channel` and `recipient` with other meanings.
pub(super) fn is_harmony(messages: &[Json]) -> bool {
    messages.iter().filter_map(Json::as_object).any(is_one)
}

fn is_one(message: &Object) -> bool {
    // Most messages have only a role and a string as content.
    if message.len() == 2 && message.get("content").and_then(Json::as_str).is_some() {
        return false;
    }
    let text = |key: &str| message.get(key).and_then(Json::as_str);
    let author = message.get("author").and_then(Json::as_object);
    let role = text("role").or_else(|| author?.get("role")?.as_str());
    let is_answer = matches!(role, Some("assistant" | "tool"));
    has_typed_content(message)
        || key_of_openai(message).is_none()
            && (is_answer && text("channel").is_some_and(|channel| CHANNELS.contains(&channel))
                || role == Some("assistant") && text("recipient").is_some_and(|to| to.starts_with(FUNCTIONS)))
}

/// Reports whether a JSON text may hold harmony's messages: it spells one of their keys.
pub(super) fn may_be(text: &str) -> bool {
    ["system_content", "developer_content", "\"channel\"", "\"recipient\""].iter().any(|word| text.contains(word))
}

/// Reports whether a message has a part that only harmony has.
fn has_typed_content(message: &Object) -> bool {
    let parts = message.get("content").and_then(Json::as_array).unwrap_or_default();
    let kind = |part: &Json| part.as_object().and_then(|part| Some(part.get("type")?.as_str()?.to_owned()));
    parts.iter().filter_map(kind).any(|kind| matches!(kind.as_str(), "system_content" | "developer_content"))
}

/// Returns a key of OpenAI's that says something. Programs also write such keys without a value.
fn key_of_openai(message: &Object) -> Option<&'static str> {
    KEYS_OF_OPENAI.into_iter().chain(REASONING).find(|key| match message.get(key) {
        None | Some(Json::Null) => false,
        Some(Json::Array(items)) => !items.is_empty(),
        Some(Json::String(text)) => !text.is_empty(),
        Some(_) => true,
    })
}

fn is_given(object: &Object, key: &str) -> bool {
    object.get(key).is_some_and(|value| !value.is_null())
}

/// Reads `{"messages": [{"role", "name"?, "content", "channel"?, "recipient"?, "content_type"?}, ..]}`.
pub(super) fn read(mut object: Object) -> Result<Draft, Error> {
    let messages = match object.remove("messages") {
        Some(Json::Array(messages)) => messages,
        Some(other) => return Err(wrong_type("messages", "a list of messages", &other)),
        None => return Err(missing("messages")),
    };
    let mut gathered = GatheredMessages::default();
    for (at, message) in messages.into_iter().enumerate() {
        read_message(message, at, &mut gathered)?;
    }
    gathered.finish(object)
}

/// What a message says about itself, besides its content.
struct Header {
    /// The message's path.
    path: String,
    role: String,
    name: Option<String>,
    channel: Option<String>,
    recipient: Option<String>,
    content_type: Option<String>,
    /// The keys that are not harmony's, such as `weight`.
    others: Object,
}

fn read_message(message: Json, at: usize, gathered: &mut GatheredMessages) -> Result<(), Error> {
    let path = format!("messages[{at}]");
    let mut message = match message {
        Json::Object(message) => message,
        other => return Err(wrong_type(path, "a message: an object with `role` and `content`", &other)),
    };
    if let Some(key) = key_of_openai(&message) {
        // A conversation may continue in OpenAI's shape.
        let own = ["channel", "recipient", "content_type", "author"].into_iter().find(|own| is_given(&message, own));
        let own = own.or_else(|| has_typed_content(&message).then_some("content"));
        return match own {
            Some(own) => Err(Error::TwoWays { one: format!("{path}.{own}"), other: format!("{path}.{key}") }),
            None => {
                gathered.push(message, vec![FieldOrigin::whole(path)]);
                Ok(())
            }
        };
    }
    let content = message.remove("content").ok_or_else(|| missing(format!("{path}.content")))?;
    let header = read_header(message, at, path, gathered)?;
    let content = read_content(content, at, is_instruction(&header.role), gathered)?;
    match header.role.as_str() {
        "assistant" => read_assistant(header, content, gathered),
        "tool" => read_result(header, content, gathered),
        _ => {
            read_others(header, content, gathered);
            Ok(())
        }
    }
}

fn is_known(key: &str) -> bool {
    OWN_KEYS.contains(&key) || KEYS_OF_OPENAI.contains(&key) || REASONING.contains(&key)
}

fn is_instruction(role: &str) -> bool {
    matches!(role, "system" | "developer")
}

fn read_header(mut message: Object, at: usize, path: String, gathered: &mut GatheredMessages) -> Result<Header, Error> {
    check_keys(&message, &OWN_KEYS, at)?;
    // pydantic's own output has the role and the name in an object.
    let (mut named, by) = match message.remove("author") {
        None | Some(Json::Null) => (None, path.clone()),
        Some(Json::Object(_)) if is_given(&message, "role") => {
            return Err(Error::TwoWays { one: format!("{path}.role"), other: format!("{path}.author") });
        }
        Some(Json::Object(author)) => (Some(author), format!("{path}.author")),
        Some(other) => return Err(wrong_type(format!("{path}.author"), "an object with `role`", &other)),
    };
    let author = named.as_mut().unwrap_or(&mut message);
    let role = take_text(author, "role", &by)?.ok_or_else(|| missing(format!("{by}.role")))?;
    if !is_instruction(&role) && !matches!(role.as_str(), "user" | "assistant" | "tool") {
        return Err(unknown(format!("{by}.role"), ROLES, role));
    }
    let name = take_text(author, "name", &by)?;
    if let Some(author) = named {
        gathered.add_unread(&author, &by);
    }
    Ok(Header {
        role,
        name,
        channel: take_text(&mut message, "channel", &path)?,
        recipient: take_text(&mut message, "recipient", &path)?,
        content_type: take_text(&mut message, "content_type", &path)?,
        // What is left of the known keys has no value.
        others: message.iter().filter(|(key, _)| !is_known(key)).map(owned).collect(),
        path,
    })
}

fn owned((key, value): (&str, &Json)) -> (String, Json) {
    (key.to_owned(), value.clone())
}

/// Refuses keys that look like misspelled ones.
fn check_keys(object: &Object, known: &[&'static str], message: usize) -> Result<(), Error> {
    for (key, _) in object.iter().filter(|(key, _)| !known.contains(key)) {
        let missing = known.iter().copied().filter(|known| object.get(known).is_none());
        if let Some(near) = near_miss(key, missing) {
            return Err(Error::MisspeltKey { key: key.to_owned(), near, message: Some(message) });
        }
    }
    Ok(())
}

/// Reads a message of the application or the user.
fn read_others(header: Header, content: Content, gathered: &mut GatheredMessages) {
    for (key, value) in
        [("channel", &header.channel), ("recipient", &header.recipient), ("content_type", &header.content_type)]
    {
        gathered.add_unread_text(format!("{}.{key}", header.path), value.as_deref());
    }
    if header.role == "user" {
        gathered.begin_turn();
    }
    // The developer's instructions are the system message of other formats.
    let role = if is_instruction(&header.role) { "system" } else { "user" };
    if content.texts.is_empty() {
        gathered.add_unread_text(format!("{}.name", header.path), header.name.as_deref());
        gathered.add_unread(&header.others, &header.path);
    }
    for text in content.texts {
        let mut message = object! { "role" => role };
        if let Some(name) = &header.name {
            message.insert("name", Json::from(name.as_str()));
        }
        message.insert("content", Json::String(text.text));
        header.others.iter().map(owned).for_each(|(key, value)| message.insert(key, value));
        gathered.push(message, vec![FieldOrigin::whole(header.path.clone()), FieldOrigin::field("content", text.path)]);
    }
}

/// Reads the result of a call.
fn read_result(header: Header, content: Content, gathered: &mut GatheredMessages) -> Result<(), Error> {
    let path = &header.path;
    let Some(sender) = header.name else { return Err(missing(format!("{path}.name"))) };
    // These are what a result has in harmony, so nothing is lost without them.
    let channel = header.channel.filter(|channel| channel != "commentary");
    let recipient = header.recipient.filter(|recipient| recipient != "assistant");
    for (key, value) in [("channel", channel), ("recipient", recipient), ("content_type", header.content_type)] {
        gathered.add_unread_text(format!("{path}.{key}"), value.as_deref());
    }
    let name = match sender.strip_prefix(FUNCTIONS) {
        Some(name) => name.to_owned(),
        None => sender,
    };
    let mut message = object! { "role" => "tool", "name" => name.as_str() };
    if let Some(id) = gathered.answer(&name) {
        message.insert("tool_call_id", Json::String(id));
    }
    let (text, text_path) = content.joined(path);
    message.insert("content", Json::String(text));
    header.others.iter().map(owned).for_each(|(key, value)| message.insert(key, value));
    gathered.push(message, vec![FieldOrigin::whole(path.clone()), FieldOrigin::field("content", text_path)]);
    Ok(())
}

/// Reads a message of the model: reasoning, text, or a call.
fn read_assistant(mut header: Header, content: Content, gathered: &mut GatheredMessages) -> Result<(), Error> {
    let path = header.path.clone();
    if let Some(name) = header.name.take() {
        header.others.insert("name", Json::String(name));
    }
    let channel = header.channel.as_deref();
    if let Some(other) = channel.filter(|channel| !CHANNELS.contains(channel)) {
        return Err(unknown(format!("{path}.channel"), KNOWN_CHANNELS, other.to_owned()));
    }
    let (text, text_path) = content.joined(&path);
    let tool = header.recipient.as_deref().filter(|recipient| !PEOPLE.contains(recipient));
    let said = match (tool, channel) {
        (Some(tool), _) => {
            let function = tool.strip_prefix(FUNCTIONS);
            let (is_code, content_types): (bool, &[&str]) = match tool {
                CODE => (true, &["code"]),
                _ => (false, &["json", "<|constrain|>json"]),
            };
            let content_type = header.content_type.filter(|kind| !content_types.contains(&kind.as_str()));
            gathered.add_unread_text(format!("{path}.content_type"), content_type.as_deref());
            if function.is_some() {
                // A call of a function is commentary; only there do templates write it.
                let channel = channel.filter(|channel| *channel != "commentary");
                gathered.add_unread_text(format!("{path}.channel"), channel);
            } else if !is_code {
                // Templates write every name as that of a function.
                gathered.add_unread_text(format!("{path}.recipient"), Some(tool));
            }
            MessageKind::Call(Call { name: function.unwrap_or(tool).to_owned(), recipient: tool.to_owned(), is_code })
        }
        (None, channel) => {
            gathered.add_unread_text(format!("{path}.recipient"), header.recipient.as_deref());
            gathered.add_unread_text(format!("{path}.content_type"), header.content_type.as_deref());
            if channel == Some("analysis") { MessageKind::Reasoning } else { MessageKind::Content }
        }
    };
    gathered.say(said, text, text_path, &path, header.others);
    Ok(())
}

/// Removes a text that may be missing.
fn take_text(object: &mut Object, key: &str, path: &str) -> Result<Option<String>, Error> {
    match object.remove(key) {
        None | Some(Json::Null) => Ok(None),
        Some(Json::String(text)) => Ok(Some(text)),
        Some(other) => Err(wrong_type(format!("{path}.{key}"), "a string", &other)),
    }
}

fn unknown(field: String, known: &'static str, found: String) -> Error {
    let problem = Problem::UnknownType { known, found };
    rolecall_conversation::Error { place: Place::field(field), problem }.into()
}
