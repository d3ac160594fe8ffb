use std::fmt;
use std::path::{Path, PathBuf};

use rolecall_format::{LoadError, NameClash};
use rolecall_tokenizer as tokenizer;

use crate::gguf;
use crate::identify::{Damage, FileError, Unidentified};
use crate::template::NoChoice;

/// An error that prevents opening a model.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// A file of the model cannot be read or is damaged.
    File(FileError),
    /// A file that names tokens is damaged.
    Tokenizer {
        /// The file.
        path: PathBuf,
        /// The error.
        error: tokenizer::Error,
    },
    /// A format file has errors.
    Format {
        /// The file.
        path: PathBuf,
        /// The errors.
        error: LoadError,
    },
    /// The name of a format file is already taken by another format.
    NameClash {
        /// The file.
        path: PathBuf,
        /// The name, and the format that has it.
        clash: NameClash,
    },
    /// There is no format of this name.
    UnknownFormat {
        /// The name that was requested.
        name: String,
        /// The most similar known name.
        near: Option<String>,
    },
    /// The format that the model needs cannot be identified.
    Unidentified(Unidentified),
    /// The model has no chat template of the requested name.
    NoTemplate {
        /// Where the templates were loaded from.
        path: PathBuf,
        /// The known names.
        why: NoChoice,
    },
    /// The chat template that all requests use has an error.
    Template(Box<crate::Error>),
    /// The model was opened with something already loaded, whose content is not known.
    NoContent {
        /// What was already loaded.
        part: &'static str,
    },
    /// The content of a model is damaged.
    Content {
        /// What is wrong with it.
        why: String,
    },
}

impl OpenError {
    /// Returns a stable name for the kind of error.
    pub fn code(&self) -> &'static str {
        match self {
            OpenError::File(error) => error.code(),
            OpenError::Tokenizer { error, .. } => error.code(),
            OpenError::Format { .. } => "bad_format",
            OpenError::NameClash { .. } => "name_clash",
            OpenError::UnknownFormat { .. } => "unknown_format",
            OpenError::Unidentified(error) => error.code(),
            OpenError::NoTemplate { why, .. } => why.code(),
            OpenError::Template(error) => error.code(),
            OpenError::NoContent { .. } => "no_content",
            OpenError::Content { .. } => "damaged_content",
        }
    }

    /// Returns advice on how to fix the error.
    pub fn help(&self) -> Vec<String> {
        match self {
            OpenError::File(error) => vec![error.help()],
            OpenError::Tokenizer { error, .. } => vec![error.help().to_owned()],
            OpenError::Format { error, .. } => {
                error.diagnostics.first().and_then(|diagnostic| diagnostic.help.clone()).into_iter().collect()
            }
            OpenError::NameClash { .. } => vec!["rename the format, or allow it to replace the other".into()],
            OpenError::UnknownFormat { near: Some(near), .. } => vec![format!("did you mean `{near}`?")],
            OpenError::UnknownFormat { near: None, .. } => vec!["run `rolecall formats` to list the formats".into()],
            OpenError::Unidentified(error) => error.help(),
            OpenError::NoTemplate { why, .. } => vec![why.help()],
            OpenError::Template(error) => error.help().into_iter().collect(),
            OpenError::NoContent { .. } => vec!["open the model from files, on the disk or in memory".into()],
            OpenError::Content { .. } => vec!["write the model again where it was opened".into()],
        }
    }

    pub(super) fn of_gguf(path: &Path, error: gguf::Error) -> OpenError {
        let path = path.to_path_buf();
        OpenError::File(match error {
            gguf::Error::Unreadable(source) => FileError::Unreadable { path, source },
            gguf::Error::Damaged(flaw) => FileError::Damaged { path, damage: Damage::Gguf(flaw) },
        })
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::File(error) => write!(f, "{error}"),
            OpenError::Tokenizer { path, error } => write!(f, "{}: {error}", path.display()),
            OpenError::Format { path, error } => write!(f, "{}: {error}", path.display()),
            OpenError::NameClash { path, clash } => write!(f, "{}: {clash}", path.display()),
            OpenError::UnknownFormat { name, .. } => write!(f, "there is no format `{name}`"),
            OpenError::Unidentified(error) => write!(f, "{error}"),
            OpenError::NoTemplate { path, why } => write!(f, "{}: {why}", path.display()),
            OpenError::Template(error) => write!(f, "{error}"),
            OpenError::NoContent { part } => {
                write!(f, "the model was opened with {part} already loaded, whose content is not known")
            }
            OpenError::Content { why } => write!(f, "the content of the model is damaged: {why}"),
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            OpenError::File(error) => Some(error),
            OpenError::Tokenizer { error, .. } => Some(error),
            OpenError::Format { error, .. } => Some(error),
            OpenError::NameClash { clash, .. } => Some(clash),
            OpenError::Unidentified(error) => Some(error),
            OpenError::Template(error) => Some(error),
            OpenError::UnknownFormat { .. }
            | OpenError::NoTemplate { .. }
            | OpenError::NoContent { .. }
            | OpenError::Content { .. } => None,
        }
    }
}

impl From<FileError> for OpenError {
    fn from(error: FileError) -> OpenError {
        OpenError::File(error)
    }
}
