use std::fmt;
use std::path::PathBuf;

/// Why a tokenizer could not be loaded, or a text not be encoded.
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
    /// The folder holds several files of one kind, and nothing says which is meant.
    Several {
        /// The folder.
        path: PathBuf,
        /// The files.
        candidates: Vec<PathBuf>,
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
    /// Nothing says how text is cut into words before its bytes are merged.
    NoPattern {
        /// How many tokens the file has.
        tokens: usize,
    },
    /// The build reads no tokenizer files.
    NotBuilt,
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

    /// What to do about it.
    pub fn help(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } => "check the path, and that the file may be read",
            Self::Missing { .. } | Self::NotRecognized { .. } => {
                "give a tokenizer.json, a sentencepiece .model, a file of tiktoken ranks, a tekken.json, a GGUF file, or a folder that holds one"
            }
            Self::Several { .. } => "name the file that is meant",
            Self::Truncated { .. } => "fetch the file again: it is not whole",
            Self::Malformed { .. } => {
                "fetch the file again, or ask its maker: as it is, no program could take it at its word"
            }
            Self::Unsupported { .. } => "give the tokenizer in another kind of file, best a tokenizer.json",
            Self::NoPattern { .. } => {
                "write the pattern of the model's own code as `pat_str` into a tokenizer_config.json beside the file, or give a tokenizer.json"
            }
            Self::NotBuilt => "build rolecall with its feature `tokenizers`, or pass a tokenizer of your own",
            Self::Unencodable { .. } => "leave that text out, or take the model's whole tokenizer",
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
                write!(f, "expected a tokenizer.json or another file of a tokenizer, found none in {}", path.display())
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
                write!(f, "nothing says how text is cut into words for these {tokens} ranks")
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
