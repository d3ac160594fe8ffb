//! The metadata of a GGUF file.
//!
//! The metadata is a list of keys and values. Arrays stay in the file until a caller iterates over
//! them, and tensors are never read. Every length and count is checked against the rest of the file
//! and against fixed limits before memory is allocated. A hostile file therefore gives an error
//! that names the key and the byte.

mod cursor;
mod error;
#[cfg(feature = "tokenizers")]
mod vocabulary;

use std::collections::BTreeMap;
use std::io::{Read, Seek};

use cursor::{Cursor, ValueKind};

pub use error::{Error, Flaw, Problem};

/// The maximum number of keys in a file. Real files have about fifty.
const MOST_KEYS: u64 = 1 << 16;
/// The size in bytes of the shortest entry: a length, an empty key, a type, and a value of one
/// byte.
const SHORTEST_ENTRY: u64 = 8 + 4 + 1;

/// The metadata of a GGUF file, read from `R`.
///
/// ```
/// use std::io::Cursor;
/// use rolecall::gguf::Gguf;
/// let mut bytes = b"GGUF\x03\0\0\0".to_vec();
/// bytes.extend(0_u64.to_le_bytes()); // tensors
/// bytes.extend(1_u64.to_le_bytes()); // keys
/// bytes.extend(12_u64.to_le_bytes());
/// bytes.extend(b"general.name");
/// bytes.extend(8_u32.to_le_bytes()); // a string
/// bytes.extend(4_u64.to_le_bytes());
/// bytes.extend(b"tiny");
/// let gguf = Gguf::read(Cursor::new(bytes))?;
/// assert_eq!(gguf.text("general.name")?, Some("tiny"));
/// # Ok::<(), rolecall::gguf::Error>(())
/// ```
#[derive(Debug)]
pub struct Gguf<R> {
    cursor: Cursor<R>,
    entries: BTreeMap<String, Entry>,
    size: u64,
}

#[derive(Debug)]
struct Entry {
    value: Value,
    /// The offset of the value in the file.
    offset: u64,
}

/// A value in the metadata.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// An integer of an unsigned type.
    Unsigned(u64),
    /// An integer of a signed type.
    Signed(i64),
    /// A floating-point number.
    Float(f64),
    /// A boolean.
    Bool(bool),
    /// A string. It should be UTF-8, but in some files is not.
    Text(Vec<u8>),
    /// An array. Its elements are still in the file.
    Array(Array),
}

/// An array whose elements are still in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Array {
    kind: ValueKind,
    count: u64,
    start: u64,
}

impl Array {
    /// Returns the number of elements.
    pub fn len(&self) -> u64 {
        self.count
    }

    /// Reports whether the array has no elements.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl Value {
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Value::Unsigned(_) | Value::Signed(_) => "an integer",
            Value::Float(_) => "a float",
            Value::Bool(_) => "a boolean",
            Value::Text(_) => "a string",
            Value::Array(_) => "an array",
        }
    }
}

impl<R: Read + Seek> Gguf<R> {
    /// Reads the metadata of a file.
    pub fn read(reader: R) -> Result<Gguf<R>, Error> {
        let mut cursor = Cursor::new(reader)?;
        cursor.version()?;
        let _tensors = cursor.number()?;
        let count = cursor.count("keys", SHORTEST_ENTRY, MOST_KEYS)?;
        let mut entries = BTreeMap::new();
        for _ in 0..count {
            let key_offset = cursor.offset();
            let key = cursor.key()?;
            let named = |error: Error| error.of_key(&key);
            let kind = cursor.kind().map_err(named)?;
            let offset = cursor.offset();
            let value = cursor.value(kind, 0).map_err(named)?;
            if entries.contains_key(&key) {
                return Err(Error::at(key_offset, Problem::KeyTwice).of_key(&key));
            }
            entries.insert(key, Entry { value, offset });
        }
        let size = cursor.offset();
        Ok(Gguf { cursor, entries, size })
    }

    /// Returns an iterator over the elements of an array, or `None` if the key is missing. Elements
    /// are read one by one.
    pub fn elements<'g>(&'g mut self, key: &'g str) -> Result<Option<Elements<'g, R>>, Error> {
        let array = match self.entries.get(key) {
            None => return Ok(None),
            Some(Entry { value: Value::Array(array), .. }) => *array,
            Some(entry) => return Err(entry.other_than("an array", key)),
        };
        self.cursor.go_to(array.start)?;
        Ok(Some(Elements { cursor: &mut self.cursor, key, kind: array.kind, left: array.count }))
    }

    /// Returns the elements of an array of strings, or `None` if the key is missing.
    pub fn texts(&mut self, key: &str) -> Result<Option<Vec<String>>, Error> {
        let Some(elements) = self.elements(key)? else { return Ok(None) };
        elements.texts().map(|text| text.map(|(_, text)| text)).collect::<Result<_, _>>().map(Some)
    }
}

impl<R> Gguf<R> {
    /// Returns the size of the metadata in bytes, from the start of the file.
    pub fn metadata_size(&self) -> u64 {
        self.size
    }

    /// Returns all keys in alphabetical order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// Returns the value of a key.
    pub fn value(&self, key: &str) -> Option<&Value> {
        self.entries.get(key).map(|entry| &entry.value)
    }

    /// Returns the string value of a key, or `None` if the key is missing.
    pub fn text(&self, key: &str) -> Result<Option<&str>, Error> {
        let Some(entry) = self.entries.get(key) else { return Ok(None) };
        let Value::Text(bytes) = &entry.value else { return Err(entry.other_than("a string", key)) };
        let not_utf8 = |_| Error::at(entry.offset, Problem::NotUtf8).of_key(key);
        std::str::from_utf8(bytes).map(Some).map_err(not_utf8)
    }

    /// Returns the non-negative integer value of a key, or `None` if the key is missing.
    pub fn number(&self, key: &str) -> Result<Option<u64>, Error> {
        let Some(entry) = self.entries.get(key) else { return Ok(None) };
        match entry.value {
            Value::Unsigned(number) => Ok(Some(number)),
            Value::Signed(number) if number >= 0 => Ok(Some(number.unsigned_abs())),
            _ => Err(entry.other_than("a non-negative integer", key)),
        }
    }

    /// Returns the boolean value of a key, or `None` if the key is missing.
    pub fn flag(&self, key: &str) -> Result<Option<bool>, Error> {
        match self.entries.get(key) {
            None => Ok(None),
            Some(Entry { value: Value::Bool(value), .. }) => Ok(Some(*value)),
            Some(entry) => Err(entry.other_than("a boolean", key)),
        }
    }

    /// Returns an error about the value of a key.
    pub(crate) fn error_at(&self, key: &str, problem: Problem) -> Error {
        Error::at(self.entries.get(key).map_or(0, |entry| entry.offset), problem).of_key(key)
    }
}

impl Entry {
    fn other_than(&self, expected: &'static str, key: &str) -> Error {
        Error::at(self.offset, Problem::WrongKind { expected, found: self.value.kind() }).of_key(key)
    }
}

/// An iterator over the elements of an array. Each is read when requested. Iteration ends after an
/// error.
#[derive(Debug)]
pub struct Elements<'g, R> {
    cursor: &'g mut Cursor<R>,
    key: &'g str,
    kind: ValueKind,
    left: u64,
}

impl<R> Elements<'_, R> {
    /// Returns the number of remaining elements.
    pub fn len(&self) -> u64 {
        self.left
    }

    /// Reports whether no elements remain.
    pub fn is_empty(&self) -> bool {
        self.left == 0
    }
}

impl<'g, R: Read + Seek> Elements<'g, R> {
    /// Returns an iterator over the elements as strings, each with its index. An element that is
    /// not a string is an error.
    pub fn texts(mut self) -> impl Iterator<Item = Result<(u64, String), Error>> {
        let mut number = 0;
        std::iter::from_fn(move || {
            let offset = self.cursor.offset();
            let text = self.next()?.and_then(|value| {
                let problem = match value {
                    Value::Text(bytes) => match String::from_utf8(bytes) {
                        Ok(text) => return Ok((number, text)),
                        Err(_) => Problem::NotUtf8,
                    },
                    other => Problem::WrongKind { expected: "a string", found: other.kind() },
                };
                self.left = 0;
                Err(Error::at(offset, problem).of_key(self.key))
            });
            number += 1;
            Some(text)
        })
    }
}

impl<R: Read + Seek> Iterator for Elements<'_, R> {
    type Item = Result<Value, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let value = self.cursor.value(self.kind, 1).map_err(|error| error.of_key(self.key));
        if value.is_err() {
            self.left = 0;
        }
        Some(value)
    }
}
