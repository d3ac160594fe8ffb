//! Why a file of a model cannot be used.

use std::fmt;
use std::path::PathBuf;

use rolecall_conversation::json::ParseError;

use crate::gguf::{Flaw, Problem};

/// What is wrong with a file of a model's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Damage {
    /// It is not JSON.
    NotJson(ParseError),
    /// A field holds a value of the wrong type.
    WrongType {
        /// The field. Empty for the whole file.
        field: &'static str,
        /// The expected type.
        expected: &'static str,
        /// The type that was found.
        found: &'static str,
    },
    /// It is not UTF-8. The first invalid byte is at this offset.
    NotText(usize),
    /// It is larger than this many bytes.
    TooLarge(u64),
    /// It is a GGUF file whose metadata cannot be read.
    Gguf(Flaw),
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damage::NotJson(error) => write!(f, "not JSON: {}", error.message),
            Damage::WrongType { field: "", expected, found } => write!(f, "expected {expected}, found {found}"),
            Damage::WrongType { field, expected, found } => {
                write!(f, "expected {expected} for `{field}`, found {found}")
            }
            Damage::NotText(offset) => write!(f, "expected UTF-8, found an invalid byte at {offset}"),
            Damage::TooLarge(limit) => write!(f, "larger than {limit} bytes"),
            Damage::Gguf(flaw) => write!(f, "{flaw}"),
        }
    }
}

impl std::error::Error for Damage {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Damage::NotJson(error) => Some(error),
            _ => None,
        }
    }
}

/// An error for a file of a model's folder that cannot be used.
#[derive(Debug)]
#[non_exhaustive]
pub enum FileError {
    /// The file or folder could not be read.
    Unreadable {
        /// The path.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The file is damaged.
    Damaged {
        /// The path.
        path: PathBuf,
        /// What is wrong with it.
        damage: Damage,
    },
    /// A file or folder has no chat template.
    NoTemplate {
        /// The path.
        path: PathBuf,
        /// Where a template was looked for.
        looked_for: &'static str,
        /// Files of the folder that may have one.
        candidates: Vec<PathBuf>,
    },
    /// The file is not the one that the model was opened with.
    Changed {
        /// The path.
        path: PathBuf,
    },
}

impl FileError {
    /// Returns a stable name for the kind of error.
    pub fn code(&self) -> &'static str {
        match self {
            FileError::Unreadable { .. } => "model_unreadable",
            FileError::Damaged { .. } => "model_damaged",
            FileError::NoTemplate { .. } => "no_template",
            FileError::Changed { .. } => "model_changed",
        }
    }

    /// Returns advice on how to fix the error.
    pub fn help(&self) -> String {
        match self {
            FileError::Unreadable { .. } => "give the path of a file or folder that can be read".into(),
            FileError::Damaged { damage: Damage::Gguf(Flaw { problem: Problem::BigEndian, .. }), .. } => {
                "convert it with `gguf-convert-endian` of Python's `gguf` package".into()
            }
            FileError::Damaged { damage: Damage::Gguf(_), .. } => {
                "the file is truncated or damaged: download it again, or give the model's .jinja file".into()
            }
            FileError::Damaged { .. } => "repair the file or remove it from the folder".into(),
            FileError::Changed { .. } => "open the model again".into(),
            FileError::NoTemplate { candidates, .. } => match candidates.as_slice() {
                [] => "base models have no chat template: give a .jinja file, or name a format".into(),
                [only] => format!("give the file that may have one: {}", only.display()),
                [first, ..] => format!("give one of its .gguf files: {}, ..", first.display()),
            },
        }
    }

    /// Returns the line and column of the error, from 1, if it has a place.
    pub fn line_and_column(&self) -> Option<(usize, usize)> {
        match self {
            FileError::Damaged { damage: Damage::NotJson(error), .. } => Some((error.line, error.column)),
            _ => None,
        }
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileError::Unreadable { path, source } => write!(f, "cannot read `{}`: {source}", path.display()),
            FileError::Damaged { path, damage: Damage::NotJson(error) } => {
                write!(f, "`{}` is not JSON: {error}", path.display())
            }
            FileError::Damaged { path, damage } => write!(f, "`{}`: {damage}", path.display()),
            FileError::NoTemplate { path, looked_for, .. } => {
                write!(f, "`{}` has no chat template: there is no {looked_for}", path.display())
            }
            FileError::Changed { path } => {
                write!(f, "`{}` was changed or removed after the model was opened", path.display())
            }
        }
    }
}

impl std::error::Error for FileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            FileError::Unreadable { source, .. } => Some(source),
            FileError::Damaged { damage, .. } => Some(damage),
            FileError::NoTemplate { .. } | FileError::Changed { .. } => None,
        }
    }
}
