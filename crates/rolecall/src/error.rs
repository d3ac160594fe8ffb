use std::fmt;

use rolecall_conversation::Place;

/// Whatever can go wrong between a request and its ids.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The request cannot be read.
    Request(rolecall_openai::Error),
    /// No format of this name is there.
    UnknownFormat {
        /// The name.
        name: String,
        /// The nearest name that is there.
        near: Option<String>,
    },
    /// The format file is wrong.
    Format(rolecall_format::LoadError),
    /// The format refuses the conversation.
    Render(rolecall_render::Error),
    /// The prompt cannot be encoded.
    Encode(rolecall_encode::Error),
}

impl Error {
    /// A stable name for the kind of error.
    pub fn code(&self) -> &'static str {
        match self {
            Error::Request(error) => error.code(),
            Error::UnknownFormat { .. } => "unknown_format",
            Error::Format(error) => error.diagnostics.first().map_or("bad_format", |diagnostic| diagnostic.code),
            Error::Render(error) => error.code(),
            Error::Encode(error) => error.code(),
        }
    }

    /// Where in the conversation, if it is in it.
    pub fn place(&self) -> Option<Place> {
        match self {
            Error::Request(error) => error.place(),
            Error::Render(error) => error.place(),
            Error::UnknownFormat { .. } | Error::Format(_) | Error::Encode(_) => None,
        }
    }

    /// What to do about it.
    pub fn help(&self) -> Option<String> {
        match self {
            Error::Request(error) => Some(error.help()),
            Error::UnknownFormat { near: Some(near), .. } => Some(format!("did you mean `{near}`?")),
            Error::UnknownFormat { near: None, .. } => Some("`rolecall formats` lists those that are there".into()),
            Error::Format(error) => error.diagnostics.first().and_then(|diagnostic| diagnostic.help.clone()),
            Error::Render(error) => Some(error.help()),
            Error::Encode(error) => Some(error.help()),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Request(error) => write!(f, "{error}"),
            Error::UnknownFormat { name, .. } => write!(f, "there is no format `{name}`"),
            Error::Format(error) => write!(f, "{error}"),
            Error::Render(error) => write!(f, "{error}"),
            Error::Encode(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<rolecall_openai::Error> for Error {
    fn from(error: rolecall_openai::Error) -> Error {
        Error::Request(error)
    }
}

impl From<rolecall_conversation::Error> for Error {
    fn from(error: rolecall_conversation::Error) -> Error {
        Error::Request(error.into())
    }
}

impl From<rolecall_format::LoadError> for Error {
    fn from(error: rolecall_format::LoadError) -> Error {
        Error::Format(error)
    }
}

impl From<rolecall_render::Error> for Error {
    fn from(error: rolecall_render::Error) -> Error {
        Error::Render(error)
    }
}

impl From<rolecall_encode::Error> for Error {
    fn from(error: rolecall_encode::Error) -> Error {
        Error::Encode(error)
    }
}
