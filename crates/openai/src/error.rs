use std::fmt;

use rolecall_conversation::{Place, json};

/// A request that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The text is not JSON.
    NotJson(json::ParseError),
    /// A key that is not known and is almost one that is: it would be ignored, and what it says with it.
    MisspeltKey {
        /// The key.
        key: String,
        /// What it almost is.
        near: &'static str,
        /// The message that it is in, from 0; none for a key of the request.
        message: Option<usize>,
    },
    /// A user's message has no content, and a key that nothing reads.
    NoContent {
        /// The message, from 0.
        message: usize,
        /// The key.
        key: String,
    },
    /// `system` stands beside the messages, where nothing reads it.
    SystemBeside,
    /// Two keys stand beside each other that say the same thing in two ways, or two conversations.
    TwoWays {
        /// One of them.
        one: String,
        /// The other one.
        other: String,
    },
    /// The JSON is not a conversation.
    Conversation(rolecall_conversation::Error),
}

impl Error {
    /// A stable name for the kind of error.
    pub fn code(&self) -> &'static str {
        match self {
            Error::NotJson(error) if error.is_key_twice => "duplicate_key",
            Error::NotJson(_) => "not_json",
            Error::NoContent { .. } => "no_content",
            Error::SystemBeside => "system_beside_messages",
            Error::TwoWays { .. } => "two_ways",
            Error::MisspeltKey { .. } => "misspelt_key",
            Error::Conversation(error) => error.code(),
        }
    }

    /// Where in the conversation, if it is in it.
    pub fn place(&self) -> Option<Place> {
        match self {
            Error::NotJson(_) => None,
            Error::MisspeltKey { key, message, .. } => Some(Place { message: *message, ..Place::field(key.as_str()) }),
            Error::NoContent { message, key } => Some(Place::message(*message, key.as_str())),
            Error::SystemBeside => Some(Place::field("system")),
            Error::TwoWays { other, .. } => Some(Place::field(other.as_str())),
            Error::Conversation(error) => Some(error.place.clone()),
        }
    }

    /// What to do about it.
    pub fn help(&self) -> String {
        match self {
            Error::NotJson(error) if error.is_key_twice => {
                "leave one of them out: only one of them would be read".into()
            }
            Error::NoContent { .. } => "write what the user says as `content`".into(),
            Error::TwoWays { .. } => "leave one of them out: only one of them would be read".into(),
            Error::SystemBeside => "write it as the first message: {\"role\": \"system\", \"content\": \"..\"}".into(),
            Error::NotJson(_) => {
                "send one JSON object: {\"messages\": [{\"role\": \"user\", \"content\": \"..\"}]}".into()
            }
            Error::MisspeltKey { near, .. } => format!("write `{near}`"),
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
                write!(f, "`{key}` is not a key of a request, `{near}` is")
            }
            Error::MisspeltKey { key, near, message: Some(index) } => {
                write!(f, "`{key}` is not a key of a message, `{near}` is (message {index})")
            }
            Error::NoContent { message, key } => {
                write!(f, "message {message} of the user has no `content`, and nothing reads its `{key}`")
            }
            Error::TwoWays { one, other } => write!(f, "`{one}` and `{other}` stand beside each other"),
            Error::SystemBeside => f.write_str("nothing reads `system` beside `messages`"),
            Error::Conversation(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::NotJson(error) => Some(error),
            Error::Conversation(error) => Some(error),
            Error::MisspeltKey { .. } | Error::NoContent { .. } | Error::SystemBeside | Error::TwoWays { .. } => None,
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
