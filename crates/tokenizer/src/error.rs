use std::fmt;
use std::path::PathBuf;

use super::FileKind;

/// Error from loading a tokenizer or encoding a text.
///
/// ```
/// # use rolecall_tokenizer::{HuggingFace, Error};
/// let error = HuggingFace::from_bytes(b"not json", None).unwrap_err();
/// assert_eq!(error.code(), "tokenizer_not_recognized");
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The file or folder could not be read.
    Unreadable {
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The path contains none of the files that a tokenizer is stored in.
    Missing {
        /// The path that was searched.
        path: PathBuf,
    },
    /// The folder contains several files of one kind, and it is unclear which one to use.
    Several {
        /// The folder.
        path: PathBuf,
        /// The files.
        candidates: Vec<PathBuf>,
    },
    /// The bytes are not a tokenizer of this kind.
    NotRecognized {
        /// The expected kind of file.
        expected: &'static str,
        /// The reason why the bytes do not match.
        why: String,
    },
    /// The bytes begin like a tokenizer but end too early.
    Truncated {
        /// The expected kind of file.
        expected: &'static str,
        /// The byte offset at which more data was expected.
        offset: usize,
    },
    /// The file has the right structure but contains an invalid value.
    Malformed {
        /// The field.
        place: String,
        /// The problem with the field.
        why: String,
    },
    /// The file uses a feature that this library does not support.
    Unsupported {
        /// The field.
        place: String,
        /// The value of the field.
        found: String,
    },
    /// The file does not define how to split text into words before merging bytes.
    NoPattern {
        /// The number of tokens in the file.
        tokens: usize,
    },
    /// The build does not read tokenizer files.
    NotBuilt,
    /// The text cannot be encoded with ordinary tokens.
    Unencodable {
        /// The reason.
        why: String,
    },
}

impl Error {
    /// Returns the error of text that the crate `tokenizers` cannot encode.
    #[cfg(feature = "files")]
    pub(crate) fn unencodable(error: tokenizers::Error) -> Error {
        Error::Unencodable { why: error.to_string() }
    }

    /// Returns a name for this error that stays the same between versions.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } => "tokenizer_unreadable",
            Self::Missing { .. } => "tokenizer_missing",
            Self::Several { .. } => "tokenizer_ambiguous",
            Self::NotRecognized { .. } => "tokenizer_not_recognized",
            Self::Truncated { .. } => "tokenizer_truncated",
            Self::Malformed { .. } => "tokenizer_malformed",
            Self::Unsupported { .. } => "tokenizer_unsupported",
            Self::NoPattern { .. } => "tokenizer_no_pattern",
            Self::NotBuilt => "tokenizer_not_built",
            Self::Unencodable { .. } => "tokenizer_unencodable",
        }
    }

    /// Returns a hint on how to fix the error.
    pub fn help(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } => "check the path and the permissions of the file",
            Self::Missing { .. } | Self::NotRecognized { .. } => FileKind::HELP,
            Self::Several { .. } => "specify which file to use",
            Self::Truncated { .. } => "download the file again: it is incomplete",
            Self::Malformed { .. } => {
                "download the file again, or report the problem to its author: the file is not valid"
            }
            Self::Unsupported { .. } => "use another file format for the tokenizer, preferably a tokenizer.json",
            Self::NoPattern { .. } => {
                "add the pattern from the model's own code as `pat_str` to a tokenizer_config.json next to the file, or use a tokenizer.json"
            }
            Self::NotBuilt => "build rolecall with the feature `tokenizers`, or pass your own tokenizer",
            Self::Unencodable { .. } => "remove that text, or use the model's complete tokenizer",
        }
    }

    pub(super) fn malformed(place: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Malformed { place: place.into(), why: why.into() }
    }

    pub(super) fn unsupported(place: impl Into<String>, found: impl Into<String>) -> Self {
        Self::Unsupported { place: place.into(), found: found.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { path, source } => write!(f, "cannot read {}: {source}", path.display()),
            Self::Missing { path } => {
                write!(f, "expected a tokenizer.json or another tokenizer file, found none in {}", path.display())
            }
            Self::Several { path, candidates } => {
                let names = candidates.iter().filter_map(|file| file.file_name()).map(|name| name.to_string_lossy());
                let names: Vec<_> = names.map(|name| format!("`{name}`")).collect();
                write!(f, "expected one tokenizer in {}, found {}", path.display(), names.join(", "))
            }
            Self::NotRecognized { expected, why } => write!(f, "expected {expected}: {why}"),
            Self::Truncated { expected, offset } => {
                write!(f, "expected {expected}, found the end of the data at byte {offset}")
            }
            Self::Malformed { place, why } => write!(f, "malformed `{place}`: {why}"),
            Self::Unsupported { place, found } => write!(f, "unsupported `{place}`: {found}"),
            Self::NoPattern { tokens } => {
                write!(f, "expected a pattern that splits text into words for these {tokens} ranks, found none")
            }
            Self::NotBuilt => write!(f, "this build of rolecall does not read tokenizer files"),
            Self::Unencodable { why } => write!(f, "text cannot be encoded: {why}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreadable { source, .. } => Some(source),
            _ => None,
        }
    }
}
