use crate::json::Object;
use crate::message::read_tools;
use crate::{Error, Json, Message, Place, Problem, Tool};

/// A conversation with its tools and documents: the input of rendering.
///
/// ```
/// use rolecall_conversation::{Conversation, Message};
/// let conversation = Conversation::new(vec![Message::user("Hello")]);
/// assert_eq!(conversation.add_generation_prompt, None);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conversation {
    /// The messages.
    pub messages: Vec<Message>,
    /// The tools on offer. Some templates distinguish `None` from an empty list.
    pub tools: Option<Vec<Tool>>,
    /// The documents to answer from, unchanged.
    pub documents: Option<Vec<Json>>,
    /// Whether to end the prompt with a generation prompt. By default yes, unless the last message
    /// is the assistant's.
    pub add_generation_prompt: Option<bool>,
    /// Whether the model continues the last message.
    pub continue_final_message: bool,
    /// Switches for the format or chat template (`enable_thinking`, `date_string`).
    pub template_kwargs: Object,
}

impl Conversation {
    /// Creates a conversation from messages.
    pub fn new(messages: Vec<Message>) -> Conversation {
        Conversation { messages, ..Conversation::default() }
    }

    /// Checks and converts an object
    /// `{"messages": [..], "tools"?: .., "documents"?: .., "add_generation_prompt"?: .., "continue_final_message"?: .., "chat_template_kwargs"?: ..}`.
    /// Other keys are ignored.
    pub fn from_json(value: Json) -> Result<Conversation, Error> {
        let Json::Object(mut object) = value else {
            return Err(Error::wrong_type("", "an object with `messages`", &value));
        };
        let messages = match object.remove("messages") {
            Some(Json::Array(messages)) => messages,
            Some(other) => return Err(Error::wrong_type("messages", "a list of messages", &other)),
            None => return Err(Error::missing("messages")),
        };
        if messages.is_empty() {
            return Err(Error { place: Place::field("messages"), problem: Problem::NoMessages });
        }
        // Collecting `Result`s gives no useful size hint, and a list of 200 messages would be
        // reallocated eight times.
        let mut read = Vec::with_capacity(messages.len());
        for (index, message) in messages.into_iter().enumerate() {
            let message = match message {
                Json::Object(message) => Message::from_object(message),
                other => {
                    Err(Error::wrong_type("", "a message such as {\"role\": \"user\", \"content\": \"..\"}", &other))
                }
            };
            read.push(message.map_err(|error| error.in_message(index))?);
        }
        let tools = take_list(&mut object, "tools", "a list of tools")?;
        Ok(Conversation {
            messages: read,
            tools: tools.map(read_tools).transpose()?,
            documents: take_list(&mut object, "documents", "a list of documents")?,
            add_generation_prompt: take_bool(&mut object, "add_generation_prompt")?,
            continue_final_message: take_bool(&mut object, "continue_final_message")?.unwrap_or(false),
            template_kwargs: match object.remove("chat_template_kwargs") {
                None | Some(Json::Null) => Object::new(),
                Some(Json::Object(switches)) => switches,
                Some(other) => return Err(Error::wrong_type("chat_template_kwargs", "an object", &other)),
            },
        })
    }
}

fn take_list(object: &mut Object, key: &'static str, expected: &'static str) -> Result<Option<Vec<Json>>, Error> {
    match object.remove(key) {
        None | Some(Json::Null) => Ok(None),
        Some(Json::Array(items)) => Ok(Some(items)),
        Some(other) => Err(Error::wrong_type(key, expected, &other)),
    }
}

fn take_bool(object: &mut Object, key: &'static str) -> Result<Option<bool>, Error> {
    match object.remove(key) {
        None | Some(Json::Null) => Ok(None),
        Some(Json::Bool(value)) => Ok(Some(value)),
        Some(other) => Err(Error::wrong_type(key, "true or false", &other)),
    }
}
