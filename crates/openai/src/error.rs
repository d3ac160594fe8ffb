use std::fmt;

use rolecall_conversation::{Place, json};

/// An error in a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The text is not JSON.
    NotJson(json::ParseError),
    /// A key is unknown and similar to a known key. It would be ignored, and its value lost.
    MisspeltKey {
        /// The key.
        key: String,
        /// The similar key.
        near: &'static str,
        /// The index of the message with the key, or `None` for a key of the request.
        message: Option<usize>,
    },
    /// A user message has no content, but an unknown key.
    NoContent {
        /// The index of the message.
        message: usize,
        /// The unknown key.
        key: String,
    },
    /// The request has a key `system` in addition to `messages`.
    SystemBeside,
    /// Two keys are given that state the same thing in two ways, or that hold two conversations.
    TwoWays {
        /// One of the keys.
        one: String,
        /// The other key.
        other: String,
    },
    /// A row of a dataset has a shape of another tool, which is not read.
    OtherShape {
        /// What the shape is called, and what it consists of.
        name: &'static str,
        /// The place by which the shape is known.
        place: Place,
        /// How to write such a row instead.
        help: &'static str,
    },
    /// The JSON is not a valid conversation.
    Conversation(rolecall_conversation::Error),
}

impl Error {
    /// Returns a stable name for the kind of error.
    pub fn code(&self) -> &'static str {
        match self {
            Error::NotJson(error) if error.is_key_twice => "duplicate_key",
            Error::NotJson(_) => "not_json",
            Error::NoContent { .. } => "no_content",
            Error::SystemBeside => "system_beside_messages",
            Error::TwoWays { .. } => "two_ways",
            Error::MisspeltKey { .. } => "misspelt_key",
            Error::OtherShape { .. } => "other_shape",
            Error::Conversation(error) => error.code(),
        }
    }

    /// Returns the place in the conversation, if the error has one.
    pub fn place(&self) -> Option<Place> {
        match self {
            Error::NotJson(_) => None,
            Error::MisspeltKey { key, message, .. } => Some(Place { message: *message, ..Place::field(key.clone()) }),
            Error::NoContent { message, key } => Some(Place::message(*message, key.clone())),
            Error::SystemBeside => Some(Place::field("system")),
            Error::TwoWays { other, .. } => Some(Place::field(other.clone())),
            Error::OtherShape { place, .. } => Some(place.clone()),
            Error::Conversation(error) => Some(error.place.clone()),
        }
    }

    /// Returns advice on how to fix the error.
    pub fn help(&self) -> String {
        match self {
            Error::NotJson(error) if error.is_key_twice => {
                "remove one of the keys: only one of them would be read".into()
            }
            Error::NoContent { .. } => "put the user's text in `content`".into(),
            Error::TwoWays { .. } => "remove one of the keys: only one of them would be read".into(),
            Error::SystemBeside => "make it the first message: {\"role\": \"system\", \"content\": \"..\"}".into(),
            Error::NotJson(_) => {
                "send one JSON object: {\"messages\": [{\"role\": \"user\", \"content\": \"..\"}]}".into()
            }
            Error::MisspeltKey { near, .. } => format!("did you mean `{near}`?"),
            Error::OtherShape { help, .. } => (*help).to_owned(),
            Error::Conversation(error) => error.help(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NotJson(error) if error.is_key_twice => write!(f, "{error}"),
            Error::NotJson(error) => write!(f, "not JSON: {error}"),
            Error::MisspeltKey { key, near, message: None } => {
                write!(f, "unknown key `{key}` in the request; a known key is `{near}`")
            }
            Error::MisspeltKey { key, near, message: Some(index) } => {
                write!(f, "unknown key `{key}` in message {index}; a known key is `{near}`")
            }
            Error::NoContent { message, key } => {
                write!(f, "user message {message} has no `content`, but has an unknown key `{key}`")
            }
            Error::TwoWays { one, other } => write!(f, "`{one}` and `{other}` are both given"),
            Error::SystemBeside => f.write_str("`system` and `messages` are both given"),
            Error::OtherShape { name, .. } => write!(f, "a shape that is not read: {name}"),
            Error::Conversation(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::NotJson(error) => Some(error),
            Error::Conversation(error) => Some(error),
            Error::MisspeltKey { .. }
            | Error::NoContent { .. }
            | Error::SystemBeside
            | Error::TwoWays { .. }
            | Error::OtherShape { .. } => None,
        }
    }
}

impl From<json::ParseError> for Error {
    fn from(error: json::ParseError) -> Error {
        Error::NotJson(error)
    }
}

impl From<rolecall_conversation::Error> for Error {
    fn from(error: rolecall_conversation::Error) -> Error {
        Error::Conversation(error)
    }
}
