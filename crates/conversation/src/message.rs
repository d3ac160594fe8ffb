use crate::json::Object;
use crate::{Call, Error, Json, Part, Role, Tool, object};

/// One turn of a conversation: the object as it came, checked, with typed views over it.
///
/// ```
/// use rolecall_conversation::{Message, Role};
/// let message = Message::user("Hello");
/// assert_eq!((message.role(), message.text().as_deref()), (&Role::User, Some("Hello")));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    role: Role,
    object: Object,
    /// Where the role stands in the object.
    role_at: usize,
    /// Where the content stands in the object.
    content_at: Option<usize>,
    /// Whether it has a role and a string as content and nothing more, as most messages do.
    plain: bool,
    /// Tools offered in the message itself, as ChatGLM3's own messages and many datasets have them.
    tools: Option<Box<[Tool]>>,
}

/// A message's content in the form it came in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Content<'a> {
    /// None, or `null`.
    None,
    /// A string.
    Text(&'a str),
    /// A list of parts; read each with [`Part::from_json`].
    Parts(&'a [Json]),
}

impl Message {
    /// Checks an object in OpenAI's shape and makes a message of it.
    pub fn from_object(object: Object) -> Result<Message, Error> {
        let role_at = object.position("role").ok_or_else(|| Error::missing("role"))?;
        let role = match object.value_at(role_at) {
            Some(Json::String(name)) => Role::from_name(name),
            other => return Err(Error::wrong_type("role", "a string", other.unwrap_or(&Json::Null))),
        };
        let content_at = object.position("content");
        let plain = object.len() == 2 && matches!(content_at.and_then(|at| object.value_at(at)), Some(Json::String(_)));
        if plain {
            return Ok(Message { role, object, role_at, content_at, plain, tools: None });
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
            Some(Json::Array(tools)) => Some(read_tools(tools.clone())?.into_boxed_slice()),
            Some(other) => return Err(Error::wrong_type("tools", "a list of tools", other)),
        };
        Ok(Message { role, object, role_at, content_at, plain, tools })
    }

    fn of(role: &str, text: impl Into<String>) -> Message {
        let object = object! { "role" => role, "content" => text.into() };
        Message { role: Role::from_name(role), object, role_at: 0, content_at: Some(1), plain: true, tools: None }
    }

    /// A system message.
    pub fn system(text: impl Into<String>) -> Message {
        Message::of("system", text)
    }

    /// A user message.
    pub fn user(text: impl Into<String>) -> Message {
        Message::of("user", text)
    }

    /// An assistant message.
    pub fn assistant(text: impl Into<String>) -> Message {
        Message::of("assistant", text)
    }

    /// Its text, if it has a role and a string as content and nothing more.
    #[inline]
    pub fn plain_text(&self) -> Option<&str> {
        match self.content() {
            Content::Text(text) if self.plain => Some(text),
            _ => None,
        }
    }

    /// Who speaks.
    #[inline]
    pub fn role(&self) -> &Role {
        &self.role
    }

    /// The role as the message spells it.
    #[inline]
    pub fn role_as_spelled(&self) -> &str {
        self.object.value_at(self.role_at).and_then(Json::as_str).unwrap_or_default()
    }

    /// The content in the form it came in.
    #[inline]
    pub fn content(&self) -> Content<'_> {
        match self.content_at.and_then(|at| self.object.value_at(at)) {
            Some(Json::String(text)) => Content::Text(text),
            Some(Json::Array(parts)) => Content::Parts(parts),
            _ => Content::None,
        }
    }

    /// The parts of the content; a string is one part of text.
    pub fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        let (text, parts) = match self.content() {
            Content::None => (None, &[][..]),
            Content::Text(text) => (Some(Part::Text(text)), &[][..]),
            Content::Parts(parts) => (None, parts),
        };
        // Parts were checked when the message was made.
        text.into_iter().chain(parts.iter().filter_map(|part| Part::from_json(part).ok()))
    }

    /// The text of the content, parts of text joined; none if there is no content.
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

    /// The name.
    pub fn name(&self) -> Option<&str> {
        self.further("name")
    }

    /// Which call a tool's message answers.
    pub fn tool_call_id(&self) -> Option<&str> {
        self.further("tool_call_id")
    }

    /// What the model thought before it answered.
    pub fn reasoning_content(&self) -> Option<&str> {
        self.further("reasoning_content")
    }

    /// The calls that the message makes.
    #[inline]
    pub fn calls(&self) -> impl ExactSizeIterator<Item = Call<'_>> {
        let calls = match self.plain {
            true => None,
            false => self.object.get("tool_calls").and_then(Json::as_array),
        };
        let calls = calls.unwrap_or_default();
        calls.iter().map(|call| Call::read(call).expect("calls were checked when the message was made"))
    }

    /// The tools that the message itself offers.
    pub fn tools(&self) -> Option<&[Tool]> {
        self.tools.as_deref()
    }

    /// A field beside role and content.
    #[inline]
    fn further(&self, name: &str) -> Option<&str> {
        match self.plain {
            true => None,
            false => self.text_field(name),
        }
    }

    /// A field of any name, as text.
    pub fn text_field(&self, name: &str) -> Option<&str> {
        self.object.get(name).and_then(Json::as_str)
    }

    /// The whole message as it came.
    pub fn as_object(&self) -> &Object {
        &self.object
    }
}

pub(crate) fn read_tools(tools: Vec<Json>) -> Result<Vec<Tool>, Error> {
    let read = tools
        .into_iter()
        .enumerate()
        .map(|(index, tool)| Tool::from_json(tool).map_err(|error| error.under(&format!("tools[{index}]"))));
    read.collect()
}
