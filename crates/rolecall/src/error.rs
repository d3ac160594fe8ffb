use std::fmt;
use std::path::PathBuf;

use rolecall_conversation::Place;
use rolecall_render::TemplateError;
use rolecall_tokenizer as tokenizer;

use crate::identify::FileError;
use crate::session::SessionError;
use crate::template::{NamedTemplate, NoChoice};

/// An error between a request and its token ids.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The request cannot be read.
    Request(rolecall_openai::Error),
    /// There is no format of this name.
    UnknownFormat {
        /// The name that was requested.
        name: String,
        /// The most similar known name.
        near: Option<String>,
    },
    /// The format file has errors.
    Format(rolecall_format::LoadError),
    /// The conversation cannot be rendered with the format.
    Render(rolecall_render::Error),
    /// The prompt cannot be encoded.
    Encode(rolecall_encode::Error),
    /// Neither the request nor the model names a format.
    NoFormat,
    /// A chat template has an error, or raises one for this conversation.
    Template {
        /// The template.
        template: Box<NamedTemplate>,
        /// The error, with its place.
        error: TemplateError,
        /// The index of the message that the template was processing.
        message: Option<usize>,
        /// Whether the template accepts the conversation if its tool calls are given as
        /// [`Forms::AsWanted`](crate::template::Forms::AsWanted).
        as_wanted: bool,
    },
    /// No chat template of the model can be chosen.
    NoTemplate(NoChoice),
    /// A switch is unknown and similar to a known switch that was not given.
    MisspeltSwitch {
        /// The switch.
        name: String,
        /// The similar switch.
        near: String,
    },
    /// The prompt has no token that stops the model after the last reply, or leaves this reply out, so
    /// it is not known where the new turn begins.
    NoNewTurn {
        /// The index of the reply's message.
        message: usize,
    },
    /// A weight for the loss that is not allowed, or another setting that is not of the right type.
    BadWeight {
        /// The index of the message, or `None` for a weight of the policy.
        message: Option<usize>,
        /// The key of the message, or the part or role of the policy.
        field: String,
        /// The value.
        found: String,
    },
    /// The model has no tokenizer.
    NoTokenizer,
    /// The tokenizer cannot be loaded.
    Tokenizer {
        /// The tokenizer's file or folder.
        path: PathBuf,
        /// The error.
        error: tokenizer::Error,
    },
    /// A file of the model cannot be used.
    File(FileError),
    /// No grammar can be made for the request.
    Grammar(rolecall_grammar::Error),
    /// A session cannot do this.
    Session(SessionError),
    /// A bug in rolecall: the work panicked, within a [`guard`](crate::guard::guard).
    Internal {
        /// The message of the panic.
        message: String,
        /// The file and the line of rolecall, or of a library that it uses.
        place: Option<String>,
    },
    /// A saved prompt cannot be restored.
    SavedPrompt {
        /// What is wrong with it.
        why: String,
    },
}

impl Error {
    /// Returns a stable name for the kind of error.
    pub fn code(&self) -> &'static str {
        match self {
            Error::Request(error) => error.code(),
            Error::UnknownFormat { .. } => "unknown_format",
            Error::Format(error) => error.diagnostics.first().map_or("bad_format", |diagnostic| diagnostic.code),
            Error::Render(error) => error.code(),
            Error::Encode(error) => error.code(),
            Error::NoFormat => "no_format",
            Error::Template { error, .. } => error.kind().code(),
            Error::NoTemplate(why) => why.code(),
            Error::MisspeltSwitch { .. } => "misspelt_switch",
            Error::NoNewTurn { .. } => "no_new_turn",
            Error::BadWeight { .. } => "bad_weight",
            Error::NoTokenizer => "no_tokenizer",
            Error::Tokenizer { error, .. } => error.code(),
            Error::File(error) => error.code(),
            Error::Grammar(error) => error.code(),
            Error::Session(error) => error.code(),
            Error::Internal { .. } => "internal",
            Error::SavedPrompt { .. } => "damaged_prompt",
        }
    }

    /// Returns the place in the conversation, if the error has one.
    pub fn place(&self) -> Option<Place> {
        match self {
            Error::Request(error) => error.place(),
            Error::Render(error) => error.place(),
            Error::MisspeltSwitch { name, .. } => Some(Place::field(format!("chat_template_kwargs.{name}"))),
            Error::NoNewTurn { message } | Error::Template { message: Some(message), .. } => {
                Some(Place::message(*message, ""))
            }
            Error::BadWeight { message: Some(message), field, .. } => Some(Place::message(*message, field.clone())),
            _ => None,
        }
    }

    /// Returns advice on how to fix the error.
    pub fn help(&self) -> Option<String> {
        match self {
            Error::Request(error) => Some(error.help()),
            Error::UnknownFormat { near: Some(near), .. } => Some(format!("did you mean `{near}`?")),
            Error::UnknownFormat { near: None, .. } => Some("run `rolecall formats` to list the formats".into()),
            Error::Format(error) => error.diagnostics.first().and_then(|diagnostic| diagnostic.help.clone()),
            Error::Render(error) => Some(error.help()),
            Error::Encode(error) => Some(error.help()),
            Error::NoFormat => Some("add `\"format\": \"NAME\"` to the request, or open the model with one".into()),
            Error::Template { as_wanted: true, .. } => {
                Some("the template expects the conversation in another form: use `Forms::AsWanted`".into())
            }
            Error::Template { error, message, .. } => {
                Some(rolecall_render::Error::Template { error: error.clone(), message: *message }.help())
            }
            Error::NoTemplate(why) => Some(why.help()),
            Error::MisspeltSwitch { near, .. } => Some(format!("did you mean `{near}`?")),
            Error::NoNewTurn { .. } => {
                Some("render the whole prompt, or use a session, which knows what the model wrote".into())
            }
            Error::BadWeight { .. } => {
                Some("use 0 for no loss, 1 for the usual loss, or a number between for less".into())
            }
            Error::NoTokenizer => Some("open the model with a tokenizer".into()),
            Error::Tokenizer { error, .. } => Some(error.help().into()),
            Error::File(error) => Some(error.help()),
            Error::Grammar(error) => Some(error.help()),
            Error::Session(error) => Some(error.help().into()),
            Error::Internal { .. } => Some("please report this message, with the input that leads to it".into()),
            Error::SavedPrompt { .. } => Some("save the prompt again with this version of rolecall".into()),
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
            Error::NoFormat => f.write_str("no format is given"),
            // The place is not part of the message; it is reported separately.
            Error::Template { error, .. } => f.write_str(error.message()),
            Error::NoTemplate(why) => write!(f, "{why}"),
            Error::MisspeltSwitch { name, near } => {
                write!(f, "unknown switch `{name}`; a known switch is `{near}`")
            }
            Error::NoNewTurn { message } => write!(
                f,
                "the prompt has no token that stops the model after message {message}, so it is not known where the \
                 new turn begins"
            ),
            Error::BadWeight { message, field, found } => {
                if let Some(message) = message {
                    write!(f, "message {message}: ")?;
                }
                match (field.as_str(), message) {
                    ("loss" | "train", Some(_)) => write!(f, "expected `{field}` to be true or false, found {found}"),
                    (_, Some(_)) => write!(f, "expected `{field}` to be a number from 0 to 1000000, found {found}"),
                    _ => write!(f, "expected the weight of `{field}` to be a number from 0 to 1000000, found {found}"),
                }
            }
            Error::NoTokenizer => f.write_str("the model has no tokenizer"),
            Error::Tokenizer { path, error } => write!(f, "{}: {error}", path.display()),
            Error::File(error) => write!(f, "{error}"),
            Error::Grammar(error) => write!(f, "{error}"),
            Error::Session(error) => write!(f, "{error}"),
            Error::Internal { message, place } => {
                write!(f, "this is a bug in rolecall {}: {message}", env!("CARGO_PKG_VERSION"))?;
                place.as_ref().map_or(Ok(()), |place| write!(f, " ({place})"))
            }
            Error::SavedPrompt { why } => write!(f, "the saved prompt is damaged: {why}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Request(error) => Some(error),
            Error::Format(error) => Some(error),
            Error::Render(error) => Some(error),
            Error::Encode(error) => Some(error),
            Error::Template { error, .. } => Some(error),
            Error::NoTemplate(why) => Some(why),
            Error::Tokenizer { error, .. } => Some(error),
            Error::File(error) => Some(error),
            Error::Grammar(error) => Some(error),
            Error::Session(error) => Some(error),
            Error::UnknownFormat { .. }
            | Error::NoFormat
            | Error::MisspeltSwitch { .. }
            | Error::NoNewTurn { .. }
            | Error::BadWeight { .. }
            | Error::NoTokenizer
            | Error::Internal { .. }
            | Error::SavedPrompt { .. } => None,
        }
    }
}

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

impl From<SessionError> for Error {
    fn from(error: SessionError) -> Error {
        Error::Session(error)
    }
}
