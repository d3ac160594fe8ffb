use std::fmt;

use crate::tokenizer;

/// A prompt that cannot be encoded with a tokenizer.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The tokenizer has not got a control token of the format.
    MissingControl {
        /// The token's text.
        token: String,
        /// Its id, where public.
        id: Option<u32>,
        /// What the tokenizer has under that id instead.
        instead: Option<String>,
    },
    /// The tokenizer gives a control token another id than the format says.
    WrongControlId {
        /// The token's text.
        token: String,
        /// The id that the format says.
        expected: u32,
        /// The id that the tokenizer gives.
        found: u32,
    },
    /// The tokenizer failed.
    Tokenizer(tokenizer::Error),
}

impl Error {
    /// A stable name for the kind of error.
    pub fn code(&self) -> &'static str {
        match self {
            Error::MissingControl { .. } => "missing_control_token",
            Error::WrongControlId { .. } => "wrong_control_id",
            Error::Tokenizer(error) => error.code(),
        }
    }

    /// What to do about it.
    pub fn help(&self) -> String {
        match self {
            Error::MissingControl { .. } | Error::WrongControlId { .. } => {
                "use the tokenizer of a model of this format, or the format of this tokenizer's model".into()
            }
            Error::Tokenizer(_) => {
                "give a tokenizer.json, a sentencepiece .model file, or a folder that holds one".into()
            }
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::MissingControl { token, id, instead } => {
                write!(f, "the tokenizer has no control token `{token}`")?;
                if let Some(id) = id {
                    write!(f, " (id {id})")?;
                }
                instead.as_ref().map_or(Ok(()), |instead| write!(f, ": that id is `{instead}` there"))
            }
            Error::WrongControlId { token, expected, found } => {
                write!(f, "control token `{token}` has id {found} in the tokenizer, the format says {expected}")
            }
            Error::Tokenizer(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<tokenizer::Error> for Error {
    fn from(error: tokenizer::Error) -> Error {
        Error::Tokenizer(error)
    }
}
