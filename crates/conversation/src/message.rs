use std::sync::Arc;

use crate::json::Object;
use crate::{Call, Error, Json, Part, Role, Tool, object};

/// The keys that hold a message's reasoning, the usual one first.
pub const REASONING: [&str; 3] = ["reasoning_content", "thinking", "reasoning"];

/// A message of a conversation: a checked JSON object, with typed views of its fields.
///
/// A clone shares the object, so it takes the same time for any length.
///
/// ```
/// use rolecall_conversation::{Message, Role};
/// let message = Message::user("Hello");
/// assert_eq!((message.role(), message.text().as_deref()), (&Role::User, Some("Hello")));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    role: Role,
    object: Arc<Object>,
    /// The position of the role in the object.
    role_at: usize,
    /// The position of the content in the object.
    content_at: Option<usize>,
    /// Whether the object has only a role and a string as content. Most messages do.
    plain: bool,
    /// The tools in the message itself, as in ChatGLM3's messages and many datasets.
    tools: Option<Arc<[Tool]>>,
}

/// A message's content, in the form in which it was given.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Content<'a> {
    /// Missing, or `null`.
    None,
    /// A string.
    Text(&'a str),
    /// A list of parts. Read each with [`Part::from_json`].
    Parts(&'a [Json]),
}

impl Message {
    /// Checks an object in the shape of OpenAI's messages and converts it to a message.
    pub fn from_object(object: Object) -> Result<Message, Error> {
        let role_at = object.position("role").ok_or_else(|| Error::missing("role"))?;
        let role = match object.value_at(role_at) {
            Some(Json::String(name)) => Role::from_name(name),
            other => return Err(Error::wrong_type("role", "a string", other.unwrap_or(&Json::Null))),
        };
        let content_at = object.position("content");
        let plain = object.len() == 2 && matches!(content_at.and_then(|at| object.value_at(at)), Some(Json::String(_)));
        if plain {
            return Ok(Message { role, object: Arc::new(object), role_at, content_at, plain, tools: None });
        }
        for field in ["name", "tool_call_id", "reasoning_content"] {
            match object.get(field) {
                None | Some(Json::String(_) | Json::Null) => {}
                Some(other) => return Err(Error::wrong_type(field, "a string", other)),
            }
        }
        match object.get("content") {
            None | Some(Json::String(_) | Json::Null) => {}
            Some(Json::Array(parts)) => {
                for (index, part) in parts.iter().enumerate() {
                    Part::from_json(part).map_err(|error| error.under(&format!("content[{index}]")))?;
                }
            }
            Some(other) => return Err(Error::wrong_type("content", "a string, null or a list of parts", other)),
        }
        match object.get("tool_calls") {
            None | Some(Json::Null) => {}
            Some(Json::Array(calls)) => {
                for (index, call) in calls.iter().enumerate() {
                    Call::from_json(call).map_err(|error| error.under(&format!("tool_calls[{index}]")))?;
                }
            }
            Some(other) => return Err(Error::wrong_type("tool_calls", "a list of calls", other)),
        }
        let tools = match object.get("tools") {
            None | Some(Json::Null) => None,
            Some(Json::Array(tools)) => Some(read_own_tools(tools)?.into()),
            Some(other) => return Err(Error::wrong_type("tools", "a list of tools", other)),
        };
        Ok(Message { role, object: Arc::new(object), role_at, content_at, plain, tools })
    }

    fn of(role: &str, text: impl Into<String>) -> Message {
        let object = Arc::new(object! { "role" => role, "content" => text.into() });
        Message { role: Role::from_name(role), object, role_at: 0, content_at: Some(1), plain: true, tools: None }
    }

    /// Creates a system message.
    pub fn system(text: impl Into<String>) -> Message {
        Message::of("system", text)
    }

    /// Creates a user message.
    pub fn user(text: impl Into<String>) -> Message {
        Message::of("user", text)
    }

    /// Creates an assistant message.
    pub fn assistant(text: impl Into<String>) -> Message {
        Message::of("assistant", text)
    }

    /// Reports whether the message has only a role and a string as content.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.plain
    }

    /// Returns the text if the message has only a role and a string as content.
    #[inline]
    pub fn plain_text(&self) -> Option<&str> {
        if !self.plain {
            return None;
        }
        match self.content() {
            Content::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the role.
    #[inline]
    pub fn role(&self) -> &Role {
        &self.role
    }

    /// Returns the role as the message spells it.
    #[inline]
    pub fn role_as_spelled(&self) -> &str {
        self.object.value_at(self.role_at).and_then(Json::as_str).unwrap_or_default()
    }

    /// Returns the content in the form in which it was given.
    #[inline]
    pub fn content(&self) -> Content<'_> {
        match self.content_at.and_then(|at| self.object.value_at(at)) {
            Some(Json::String(text)) => Content::Text(text),
            Some(Json::Array(parts)) => Content::Parts(parts),
            _ => Content::None,
        }
    }

    /// Returns the parts of the content. A string is one text part.
    pub fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        let (text, parts) = match self.content() {
            Content::None => (None, &[][..]),
            Content::Text(text) => (Some(Part::Text(text)), &[][..]),
            Content::Parts(parts) => (None, parts),
        };
        // The parts were checked when the message was created.
        text.into_iter().chain(parts.iter().filter_map(|part| Part::from_json(part).ok()))
    }

    /// Returns the text of the content, with text parts concatenated, or `None` if there is no
    /// content.
    pub fn text(&self) -> Option<String> {
        match self.content() {
            Content::None => None,
            Content::Text(text) => Some(text.to_owned()),
            Content::Parts(_) => {
                let texts = self.parts().filter_map(|part| match part {
                    Part::Text(text) => Some(text),
                    _ => None,
                });
                Some(texts.collect())
            }
        }
    }

    /// Returns the texts of the content's parts with a line break between them, as engines join them, or `None` if a
    /// part is not text.
    pub fn joined_text(&self) -> Option<String> {
        let text_of = |part: Part<'_>| match part {
            Part::Text(text) => Some(text.to_owned()),
            _ => None,
        };
        self.parts().map(text_of).collect::<Option<Vec<String>>>().map(|texts| texts.join("\n"))
    }

    /// Returns the field `name`.
    pub fn name(&self) -> Option<&str> {
        self.further("name")
    }

    /// Returns the id of the call that a tool message answers.
    pub fn tool_call_id(&self) -> Option<&str> {
        self.further("tool_call_id")
    }

    /// Returns the model's reasoning before its answer.
    pub fn reasoning_content(&self) -> Option<&str> {
        self.further("reasoning_content")
    }

    /// Returns the tool calls of the message.
    #[inline]
    pub fn calls(&self) -> impl ExactSizeIterator<Item = Call<'_>> {
        let calls = match self.plain {
            true => None,
            false => self.object.get("tool_calls").and_then(Json::as_array),
        };
        let calls = calls.unwrap_or_default();
        calls.iter().map(|call| Call::read(call).expect("calls were checked when the message was made"))
    }

    /// Returns the tools that the message itself offers.
    pub fn tools(&self) -> Option<&[Tool]> {
        self.tools.as_deref()
    }

    /// Returns a field other than the role and the content.
    #[inline]
    fn further(&self, name: &str) -> Option<&str> {
        match self.plain {
            true => None,
            false => self.text_field(name),
        }
    }

    /// Returns any field whose value is a string.
    pub fn text_field(&self, name: &str) -> Option<&str> {
        self.object.get(name).and_then(Json::as_str)
    }

    /// Returns the whole object of the message, unchanged.
    pub fn as_object(&self) -> &Object {
        &self.object
    }
}

/// Reads the tools that a message offers. They are objects: texts are LMFlow's, whose conversations have all tools
/// beside the messages.
fn read_own_tools(tools: &[Json]) -> Result<Vec<Tool>, Error> {
    let text = tools.iter().enumerate().find(|(_, tool)| matches!(tool, Json::String(_)));
    if let Some((index, text)) = text {
        let expected = "a tool such as {\"type\": \"function\", \"function\": {..}}";
        return Err(Error::wrong_type("", expected, text).under(&format!("tools[{index}]")));
    }
    read_tools(tools.to_vec())
}

pub(crate) fn read_tools(tools: Vec<Json>) -> Result<Vec<Tool>, Error> {
    let read = tools
        .into_iter()
        .enumerate()
        .map(|(index, tool)| Tool::from_json(tool).map_err(|error| error.under(&format!("tools[{index}]"))));
    read.collect()
}
