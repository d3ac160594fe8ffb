//! The metadata of a GGUF file: keys and values, with arrays left in the file until somebody walks through them.
//!
//! Tensors are never touched. Every length and count is held against what is left of the file, and against firm limits, before
//! anything is made of it: a hostile file ends in an error that names the key and the byte.

mod cursor;
mod error;
#[cfg(feature = "tokenizers")]
mod vocabulary;

use std::collections::BTreeMap;
use std::io::{Read, Seek};

use cursor::{Cursor, Kind};

pub use error::{Error, Flaw, Problem};

/// Keys of one file; real ones have some fifty.
const MOST_KEYS: u64 = 1 << 16;
/// Bytes of the shortest entry: a length, an empty key, a type, a value of one byte.
const SHORTEST_ENTRY: u64 = 8 + 4 + 1;

/// What a GGUF file says of its model.
///
/// ```
/// use std::io::Cursor;
/// use rolecall::gguf::Gguf;
/// let mut bytes = b"GGUF\x03\0\0\0".to_vec();
/// bytes.extend(0_u64.to_le_bytes()); // tensors
/// bytes.extend(1_u64.to_le_bytes()); // keys
/// bytes.extend(12_u64.to_le_bytes());
/// bytes.extend(b"general.name");
/// bytes.extend(8_u32.to_le_bytes()); // a text
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
}

#[derive(Debug)]
struct Entry {
    value: Value,
    /// Where the value begins in the file.
    offset: u64,
}

/// A value of the metadata.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A whole number of an unsigned type.
    Unsigned(u64),
    /// A whole number of a signed type.
    Signed(i64),
    /// A real number.
    Float(f64),
    /// Yes or no.
    Bool(bool),
    /// A text, which should be UTF-8 and in some files is not.
    Text(Vec<u8>),
    /// A list, still in the file.
    Array(Array),
}

/// A list that is still in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Array {
    kind: Kind,
    count: u64,
    start: u64,
}

impl Array {
    /// How many elements it has.
    pub fn len(&self) -> u64 {
        self.count
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl Value {
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Value::Unsigned(_) | Value::Signed(_) => "a whole number",
            Value::Float(_) => "a real number",
            Value::Bool(_) => "a bool",
            Value::Text(_) => "a text",
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
        Ok(Gguf { cursor, entries })
    }

    /// The elements of an array, read one by one; none if the key is not there.
    pub fn elements<'g>(&'g mut self, key: &'g str) -> Result<Option<Elements<'g, R>>, Error> {
        let array = match self.entries.get(key) {
            None => return Ok(None),
            Some(Entry { value: Value::Array(array), .. }) => *array,
            Some(entry) => return Err(entry.other_than("an array", key)),
        };
        self.cursor.go_to(array.start)?;
        Ok(Some(Elements { cursor: &mut self.cursor, key, kind: array.kind, left: array.count }))
    }

    /// The elements of an array of texts; none if the key is not there.
    pub fn texts(&mut self, key: &str) -> Result<Option<Vec<String>>, Error> {
        let Some(elements) = self.elements(key)? else { return Ok(None) };
        elements.texts().map(|text| text.map(|(_, text)| text)).collect::<Result<_, _>>().map(Some)
    }
}

impl<R> Gguf<R> {
    /// All keys, in the order of their letters.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// The value of a key.
    pub fn value(&self, key: &str) -> Option<&Value> {
        self.entries.get(key).map(|entry| &entry.value)
    }

    /// A key's text; none if the key is not there.
    pub fn text(&self, key: &str) -> Result<Option<&str>, Error> {
        let Some(entry) = self.entries.get(key) else { return Ok(None) };
        let Value::Text(bytes) = &entry.value else { return Err(entry.other_than("a text", key)) };
        let not_utf8 = |_| Error::at(entry.offset, Problem::NotUtf8).of_key(key);
        std::str::from_utf8(bytes).map(Some).map_err(not_utf8)
    }

    /// A key's whole number that is not below zero; none if the key is not there.
    pub fn number(&self, key: &str) -> Result<Option<u64>, Error> {
        let Some(entry) = self.entries.get(key) else { return Ok(None) };
        match entry.value {
            Value::Unsigned(number) => Ok(Some(number)),
            Value::Signed(number) if number >= 0 => Ok(Some(number.unsigned_abs())),
            _ => Err(entry.other_than("a whole number from 0 on", key)),
        }
    }

    /// A key's yes or no; none if the key is not there.
    pub fn flag(&self, key: &str) -> Result<Option<bool>, Error> {
        match self.entries.get(key) {
            None => Ok(None),
            Some(Entry { value: Value::Bool(value), .. }) => Ok(Some(*value)),
            Some(entry) => Err(entry.other_than("a bool", key)),
        }
    }

    /// An error about a key's value.
    pub(crate) fn error_at(&self, key: &str, problem: Problem) -> Error {
        Error::at(self.entries.get(key).map_or(0, |entry| entry.offset), problem).of_key(key)
    }
}

impl Entry {
    fn other_than(&self, expected: &'static str, key: &str) -> Error {
        Error::at(self.offset, Problem::WrongKind { expected, found: self.value.kind() }).of_key(key)
    }
}

/// The elements of an array, each read when it is asked for. Behind an error nothing comes.
#[derive(Debug)]
pub struct Elements<'g, R> {
    cursor: &'g mut Cursor<R>,
    key: &'g str,
    kind: Kind,
    left: u64,
}

impl<R> Elements<'_, R> {
    /// How many are left.
    pub fn len(&self) -> u64 {
        self.left
    }

    /// Whether none is left.
    pub fn is_empty(&self) -> bool {
        self.left == 0
    }
}

impl<'g, R: Read + Seek> Elements<'g, R> {
    /// The same as texts, each with its number; what is no text is an error.
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
                    other => Problem::WrongKind { expected: "a text", found: other.kind() },
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
