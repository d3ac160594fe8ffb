use std::{fmt, io};

/// Why the metadata of a GGUF file cannot be used.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read.
    Unreadable(io::Error),
    /// It is not what it should be.
    Damaged(Flaw),
}

/// What is wrong in a GGUF file, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flaw {
    /// The key; empty before the first one.
    pub key: String,
    /// The byte of the file.
    pub offset: u64,
    /// What is wrong there.
    pub problem: Problem,
}

/// What can be wrong in a GGUF file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// It does not begin as a GGUF file does.
    NotGguf,
    /// Its numbers have their highest byte first.
    BigEndian,
    /// A version of the format that is not read.
    Version(u32),
    /// The file ends before what is announced.
    Ends {
        /// The bytes that it takes at least.
        needed: u64,
        /// The bytes that are left.
        left: u64,
    },
    /// More than anybody needs.
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many there are.
        found: u64,
        /// How many are read.
        most: u64,
    },
    /// A type that the format has not got.
    UnknownType(u32),
    /// More than so many arrays inside each other.
    Nested(usize),
    /// A key that came before.
    KeyTwice,
    /// A text that is not UTF-8.
    NotUtf8,
    /// A value of another type.
    WrongKind {
        /// What was expected.
        expected: &'static str,
        /// What is there.
        found: &'static str,
    },
    /// A template that is listed and not there.
    NoSuchTemplate {
        /// Its name in the list.
        name: String,
    },
    /// A number of a token that is not there.
    NoSuchToken {
        /// The number.
        id: u64,
        /// How many tokens there are.
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
                write!(f, "expected {needed} more bytes at least, found {left} to the end of the file")
            }
            Problem::TooMany { what, found, most } => write!(f, "expected {most} {what} at most, found {found}"),
            Problem::UnknownType(number) => write!(f, "expected a type from 0 to 12, found {number}"),
            Problem::Nested(most) => write!(f, "more than {most} arrays inside each other"),
            Problem::KeyTwice => f.write_str("the key is there twice"),
            Problem::NotUtf8 => f.write_str("a text that is not UTF-8"),
            Problem::WrongKind { expected, found } => write!(f, "expected {expected}, found {found}"),
            Problem::NoSuchTemplate { name } => {
                write!(f, "the template `{name}` is listed, and there is no `tokenizer.chat_template.{name}`")
            }
            Problem::NoSuchToken { id, count } => {
                write!(f, "expected the number of one of the {count} tokens, found {id}")
            }
        }
    }
}
