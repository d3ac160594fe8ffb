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
    },
    /// The JSON is not a conversation.
    Conversation(rolecall_conversation::Error),
}

impl Error {
    /// A stable name for the kind of error.
    pub fn code(&self) -> &'static str {
        match self {
            Error::NotJson(_) => "not_json",
            Error::MisspeltKey { .. } => "misspelt_key",
            Error::Conversation(error) => error.code(),
        }
    }

    /// Where in the conversation, if it is in it.
    pub fn place(&self) -> Option<Place> {
        match self {
            Error::NotJson(_) => None,
            Error::MisspeltKey { key, .. } => Some(Place::field(key.as_str())),
            Error::Conversation(error) => Some(error.place.clone()),
        }
    }

    /// What to do about it.
    pub fn help(&self) -> String {
        match self {
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
            Error::NotJson(error) => write!(f, "not JSON: {error}"),
            Error::MisspeltKey { key, near } => write!(f, "`{key}` is not a key of a request, `{near}` is"),
            Error::Conversation(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for Error {}

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
