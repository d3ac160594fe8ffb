use std::fmt;
use std::path::PathBuf;

/// Why a tokenizer could not be loaded, or a text not be encoded.
///
/// ```
/// # use rolecall_encode::tokenizer::{HuggingFace, Error};
/// let error = HuggingFace::from_bytes(b"not json", None).unwrap_err();
/// assert_eq!(error.code(), "tokenizer_not_recognized");
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The file or folder could not be read.
    Unreadable {
        /// Which one.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The path holds none of the files that a tokenizer is stored in.
    Missing {
        /// Where they were looked for.
        path: PathBuf,
    },
    /// The bytes are not a tokenizer of this kind at all.
    NotRecognized {
        /// What was expected.
        expected: &'static str,
        /// What was found.
        why: String,
    },
    /// The bytes start as a tokenizer and end too early.
    Truncated {
        /// What was expected.
        expected: &'static str,
        /// The byte where more was expected.
        offset: usize,
    },
    /// The file has the right shape and says something that cannot be.
    Malformed {
        /// The field.
        place: String,
        /// What is wrong with it.
        why: String,
    },
    /// The file asks for something this library does not do.
    Unsupported {
        /// The field.
        place: String,
        /// What it asks for.
        found: String,
    },
    /// A text has no spelling in ordinary tokens.
    Unencodable {
        /// What stands in the way.
        why: String,
    },
}

impl Error {
    /// A name for this error that stays the same between versions.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } => "tokenizer_unreadable",
            Self::Missing { .. } => "tokenizer_missing",
            Self::NotRecognized { .. } => "tokenizer_not_recognized",
            Self::Truncated { .. } => "tokenizer_truncated",
            Self::Malformed { .. } => "tokenizer_malformed",
            Self::Unsupported { .. } => "tokenizer_unsupported",
            Self::Unencodable { .. } => "tokenizer_unencodable",
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
            Self::Missing { path } => write!(
                f,
                "expected a tokenizer.json or a sentencepiece .model file, found neither in {}",
                path.display()
            ),
            Self::NotRecognized { expected, why } => write!(f, "expected {expected}: {why}"),
            Self::Truncated { expected, offset } => {
                write!(f, "expected {expected}, found the end of the data at byte {offset}")
            }
            Self::Malformed { place, why } => write!(f, "malformed `{place}`: {why}"),
            Self::Unsupported { place, found } => write!(f, "unsupported `{place}`: {found}"),
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
