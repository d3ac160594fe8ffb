use std::{fmt, io};

/// An error when reading the metadata of a GGUF file.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read.
    Unreadable(io::Error),
    /// The file is damaged.
    Damaged(Flaw),
}

/// A problem in a GGUF file, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flaw {
    /// The key. Empty if the problem comes before the first key.
    pub key: String,
    /// The byte offset in the file.
    pub offset: u64,
    /// The problem.
    pub problem: Problem,
}

/// A kind of problem in a GGUF file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// The file does not begin with the magic number of a GGUF file.
    NotGguf,
    /// The file is big-endian.
    BigEndian,
    /// The version of the format is not supported.
    Version(u32),
    /// The file ends early.
    Ends {
        /// The minimum number of bytes needed.
        needed: u64,
        /// The number of bytes that remain.
        left: u64,
    },
    /// A count exceeds the limit.
    TooMany {
        /// What is counted.
        what: &'static str,
        /// The count that was found.
        found: u64,
        /// The limit.
        most: u64,
    },
    /// The type is not one that the format defines.
    UnknownType(u32),
    /// Arrays are nested deeper than this limit.
    Nested(usize),
    /// The key occurs twice.
    KeyTwice,
    /// A string is not UTF-8.
    NotUtf8,
    /// A value has the wrong type.
    WrongKind {
        /// The expected type.
        expected: &'static str,
        /// The type that was found.
        found: &'static str,
    },
    /// A listed template is missing.
    NoSuchTemplate {
        /// The name in the list.
        name: String,
    },
    /// The id of a token is out of range.
    NoSuchToken {
        /// The id.
        id: u64,
        /// The number of tokens.
        count: u64,
    },
}

impl Error {
    pub(super) fn at(offset: u64, problem: Problem) -> Error {
        Error::Damaged(Flaw { key: String::new(), offset, problem })
    }

    pub(super) fn of_key(self, key: &str) -> Error {
        match self {
            Error::Damaged(flaw) => Error::Damaged(Flaw { key: key.to_owned(), ..flaw }),
            unreadable => unreadable,
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        Error::Unreadable(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Unreadable(error) => write!(f, "{error}"),
            Error::Damaged(flaw) => write!(f, "{flaw}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Unreadable(error) => Some(error),
            Error::Damaged(_) => None,
        }
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.key.as_str() {
            "" => write!(f, "{} (byte {})", self.problem, self.offset),
            key => write!(f, "{} (key `{key}`, byte {})", self.problem, self.offset),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::NotGguf => f.write_str("not a GGUF file: it does not begin with `GGUF`"),
            Problem::BigEndian => f.write_str("a big-endian GGUF file, expected a little-endian one"),
            Problem::Version(version) => write!(f, "expected GGUF version 2 or 3, found {version}"),
            Problem::Ends { needed, left } => {
                write!(f, "expected at least {needed} more bytes, found {left} before the end of the file")
            }
            Problem::TooMany { what, found, most } => write!(f, "expected at most {most} {what}, found {found}"),
            Problem::UnknownType(number) => write!(f, "expected a type from 0 to 12, found {number}"),
            Problem::Nested(most) => write!(f, "arrays are nested deeper than {most} levels"),
            Problem::KeyTwice => f.write_str("the key occurs twice"),
            Problem::NotUtf8 => f.write_str("the string is not UTF-8"),
            Problem::WrongKind { expected, found } => write!(f, "expected {expected}, found {found}"),
            Problem::NoSuchTemplate { name } => {
                write!(f, "the template `{name}` is listed, but `tokenizer.chat_template.{name}` is missing")
            }
            Problem::NoSuchToken { id, count } => {
                write!(f, "expected the id of one of the {count} tokens, found {id}")
            }
        }
    }
}
