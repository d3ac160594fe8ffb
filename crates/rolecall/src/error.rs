use std::fmt;
use std::path::PathBuf;

use rolecall_conversation::Place;
use rolecall_render::TemplateError;
use rolecall_tokenizer as tokenizer;

use crate::identify::FileError;
use crate::template::{NamedTemplate, NoChoice};

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
    /// Neither the request nor the model says which format.
    NoFormat,
    /// A chat template is wrong, or refuses the conversation.
    Template {
        /// The template.
        template: Box<NamedTemplate>,
        /// What is wrong, and where.
        error: TemplateError,
        /// The message that the template was at, from 0.
        message: Option<usize>,
        /// Whether it takes the conversation with its calls in the form that it writes rightly.
        as_wanted: bool,
    },
    /// None of the model's chat templates is meant.
    NoTemplate(NoChoice),
    /// A switch that nothing reads is almost one that is read and was not given.
    MisspeltSwitch {
        /// The switch.
        name: String,
        /// What it almost is.
        near: String,
    },
    /// A chat template says neither what carries loss nor where a new turn begins.
    NoLoss,
    /// The model has no tokenizer.
    NoTokenizer,
    /// The tokenizer cannot be loaded.
    Tokenizer {
        /// Its file or folder.
        path: PathBuf,
        /// What is wrong with it.
        error: tokenizer::Error,
    },
    /// A file of the model cannot be used.
    File(FileError),
    /// There is no grammar for what is asked for.
    Grammar(rolecall_grammar::Error),
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
            Error::NoFormat => "no_format",
            Error::Template { error, .. } => error.kind().code(),
            Error::NoTemplate(why) => why.code(),
            Error::MisspeltSwitch { .. } => "misspelt_switch",
            Error::NoLoss => "no_loss_no_turn",
            Error::NoTokenizer => "no_tokenizer",
            Error::Tokenizer { error, .. } => error.code(),
            Error::File(error) => error.code(),
            Error::Grammar(error) => error.code(),
        }
    }

    /// Where in the conversation, if it is in it.
    pub fn place(&self) -> Option<Place> {
        match self {
            Error::Request(error) => error.place(),
            Error::Render(error) => error.place(),
            Error::MisspeltSwitch { name, .. } => Some(Place::field(format!("chat_template_kwargs.{name}"))),
            _ => None,
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
            Error::NoFormat => Some("write `\"format\": \"NAME\"` into the request, or open the model with one".into()),
            Error::Template { as_wanted: true, .. } => {
                Some("the template takes tool calls in another form: `CallForm::AsWanted` gives them so".into())
            }
            Error::Template { error, message, .. } => {
                Some(rolecall_render::Error::Template { error: error.clone(), message: *message }.help())
            }
            Error::NoTemplate(why) => Some(why.help()),
            Error::MisspeltSwitch { near, .. } => Some(format!("write `{near}`")),
            Error::NoLoss => Some("render it without these, or name a format in place of the chat template".into()),
            Error::NoTokenizer => Some("open the model with a tokenizer".into()),
            Error::Tokenizer { error, .. } => Some(error.help().into()),
            Error::File(error) => Some(error.help()),
            Error::Grammar(error) => Some(error.help()),
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
            Error::NoFormat => f.write_str("no format is named"),
            // Line and column are said beside it.
            Error::Template { error, .. } => f.write_str(error.message()),
            Error::NoTemplate(why) => write!(f, "{why}"),
            Error::MisspeltSwitch { name, near } => {
                write!(f, "nothing reads the switch `{name}`, and `{near}` is one that is read")
            }
            Error::NoLoss => f.write_str("a chat template says neither what carries loss nor where a new turn begins"),
            Error::NoTokenizer => f.write_str("the model has no tokenizer"),
            Error::Tokenizer { path, error } => write!(f, "{}: {error}", path.display()),
            Error::File(error) => write!(f, "{error}"),
            Error::Grammar(error) => write!(f, "{error}"),
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
            Error::UnknownFormat { .. }
            | Error::NoFormat
            | Error::MisspeltSwitch { .. }
            | Error::NoLoss
            | Error::NoTokenizer => None,
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
