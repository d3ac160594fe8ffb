use std::borrow::Cow;
use std::fmt;

/// A place in a conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The index of the message, from 0.
    pub message: Option<usize>,
    /// The path of the field: `content`, `tool_calls[0].function.arguments`, `tools[1]`.
    pub field: Cow<'static, str>,
}

impl Place {
    /// Returns the place of a field of the conversation itself.
    pub fn field(field: impl Into<Cow<'static, str>>) -> Place {
        Place { message: None, field: field.into() }
    }

    /// Returns the place of a field of a message.
    pub fn message(index: usize, field: impl Into<Cow<'static, str>>) -> Place {
        Place { message: Some(index), field: field.into() }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.message, &*self.field) {
            (Some(index), "") => write!(f, "message {index}"),
            (Some(index), field) => write!(f, "message {index}, {field}"),
            (None, "") => f.write_str("the conversation"),
            (None, field) => f.write_str(field),
        }
    }
}

/// A problem of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// A required field is missing.
    Missing,
    /// The list of messages is empty.
    NoMessages,
    /// A field has a value of the wrong type.
    WrongType {
        /// The expected type.
        expected: &'static str,
        /// The type that was found.
        found: &'static str,
    },
    /// The type of a part, tool or call is unknown.
    UnknownType {
        /// The known types.
        known: &'static str,
        /// The type that was found.
        found: String,
    },
    /// The arguments of a call are text that is not a JSON object. Holds the reason.
    Arguments(String),
    /// A key that nothing reads.
    UnknownKey,
}

/// An error in a conversation, with its place.
///
/// ```
/// use rolecall_conversation::{Conversation, json};
/// let request = json::parse(r#"{"messages": [{"role": "user", "content": 3}]}"#)?;
/// let error = Conversation::from_json(request).unwrap_err();
/// assert_eq!(error.to_string(), "message 0, content: expected a string, null or a list of parts, found a number");
/// # Ok::<(), json::ParseError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The place.
    pub place: Place,
    /// The problem.
    pub problem: Problem,
}

impl Error {
    pub(crate) fn wrong_type(
        field: impl Into<Cow<'static, str>>,
        expected: &'static str,
        found: &super::Json,
    ) -> Error {
        Error { place: Place::field(field), problem: Problem::WrongType { expected, found: found.kind() } }
    }

    pub(crate) fn missing(field: impl Into<Cow<'static, str>>) -> Error {
        Error { place: Place::field(field), problem: Problem::Missing }
    }

    pub(crate) fn in_message(mut self, index: usize) -> Error {
        self.place.message = Some(index);
        self
    }

    pub(crate) fn under(mut self, prefix: &str) -> Error {
        self.place.field = match &*self.place.field {
            "" => prefix.to_owned().into(),
            field => format!("{prefix}.{field}").into(),
        };
        self
    }

    /// Returns a stable name for the kind of problem.
    pub fn code(&self) -> &'static str {
        match self.problem {
            Problem::Missing => "missing_field",
            Problem::NoMessages => "no_messages",
            Problem::WrongType { .. } => "wrong_type",
            Problem::UnknownType { .. } => "unknown_type",
            Problem::Arguments(_) => "bad_arguments",
            Problem::UnknownKey => "unknown_key",
        }
    }

    /// Returns advice on how to fix the error.
    pub fn help(&self) -> String {
        match &self.problem {
            Problem::Missing => format!("add `{}`", self.place.field.rsplit('.').next().unwrap_or_default()),
            Problem::NoMessages => "give at least one message: {\"role\": \"user\", \"content\": \"..\"}".into(),
            Problem::WrongType { expected, .. } => format!("write {expected} there"),
            Problem::UnknownType { known, .. } => format!("use one of {known}"),
            Problem::Arguments(_) => "use a JSON object, or its text, e.g. {\"city\": \"Paris\"}".into(),
            Problem::UnknownKey => "leave it out".into(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = &self.place;
        match &self.problem {
            Problem::Missing => write!(f, "{place}: the field is missing"),
            Problem::NoMessages => write!(f, "the conversation has no messages"),
            Problem::WrongType { expected, found } => write!(f, "{place}: expected {expected}, found {found}"),
            Problem::UnknownType { known, found } => write!(f, "{place}: expected one of {known}, found `{found}`"),
            Problem::Arguments(why) => write!(f, "{place}: the arguments are not a JSON object: {why}"),
            Problem::UnknownKey => write!(f, "{place}: nothing reads this key"),
        }
    }
}

impl std::error::Error for Error {}
