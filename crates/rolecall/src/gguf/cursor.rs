use std::io::{BufReader, Read, Seek, SeekFrom};

use super::{Array, Error, Problem, Value};

/// The maximum size in bytes of one string. The longest known template is a thousandth of this.
const MOST_TEXT: u64 = 16 << 20;
/// The maximum size in bytes of all strings that are kept.
const MOST_KEPT: u64 = 64 << 20;
/// The maximum size in bytes of a key, as the format specifies it.
const MOST_KEY: u64 = u16::MAX as u64;
/// The maximum number of elements of an array, and of elements that are skipped one by one in a
/// file. The largest vocabularies have 300,000.
const MOST_ELEMENTS: u64 = 1 << 24;
/// The maximum nesting depth of arrays.
const DEEPEST: usize = 4;

/// The type of a value, as a number in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    F32,
    Bool,
    Text,
    Array,
    U64,
    I64,
    F64,
}

impl ValueKind {
    fn of_number(number: u32) -> Option<ValueKind> {
        use ValueKind::*;
        let all = [U8, I8, U16, I16, U32, I32, F32, Bool, Text, Array, U64, I64, F64];
        all.get(usize::try_from(number).ok()?).copied()
    }

    /// Returns the size of a value in bytes, if all values of the type have the same size.
    fn width(self) -> Option<u64> {
        match self {
            ValueKind::U8 | ValueKind::I8 | ValueKind::Bool => Some(1),
            ValueKind::U16 | ValueKind::I16 => Some(2),
            ValueKind::U32 | ValueKind::I32 | ValueKind::F32 => Some(4),
            ValueKind::U64 | ValueKind::I64 | ValueKind::F64 => Some(8),
            ValueKind::Text | ValueKind::Array => None,
        }
    }

    /// Returns the size in bytes of the shortest value: of a string its length, of an array its
    /// type and count.
    fn shortest(self) -> u64 {
        match self {
            ValueKind::Text => 8,
            ValueKind::Array => 12,
            fixed => fixed.width().unwrap_or(1),
        }
    }
}

/// A position in the file that knows how many bytes remain.
#[derive(Debug)]
pub struct Cursor<R> {
    reader: BufReader<R>,
    at: u64,
    size: u64,
    /// The bytes of strings kept so far.
    kept: u64,
    /// The number of elements skipped so far.
    stepped: u64,
}

impl<R: Read + Seek> Cursor<R> {
    pub fn new(mut reader: R) -> Result<Cursor<R>, Error> {
        let size = reader.seek(SeekFrom::End(0))?;
        reader.seek(SeekFrom::Start(0))?;
        Ok(Cursor { reader: BufReader::new(reader), at: 0, size, kept: 0, stepped: 0 })
    }

    pub fn offset(&self) -> u64 {
        self.at
    }

    /// Moves to an offset that was skipped before, to read the elements there.
    pub fn go_to(&mut self, offset: u64) -> Result<(), Error> {
        self.reader.seek(SeekFrom::Start(offset))?;
        self.at = offset;
        self.kept = 0;
        self.stepped = 0;
        Ok(())
    }

    /// Reads the magic number and the version.
    pub fn version(&mut self) -> Result<u32, Error> {
        if self.size < 4 || self.bytes::<4>()? != *b"GGUF" {
            return Err(Error::at(0, Problem::NotGguf));
        }
        let bytes = self.bytes()?;
        match (u32::from_le_bytes(bytes), u32::from_be_bytes(bytes)) {
            (version @ 2..=3, _) => Ok(version),
            (_, 1..=3) => Err(Error::at(4, Problem::BigEndian)),
            (version, _) => Err(Error::at(4, Problem::Version(version))),
        }
    }

    pub fn number(&mut self) -> Result<u64, Error> {
        Ok(u64::from_le_bytes(self.bytes()?))
    }

    /// Reads a count of items, each of which has at least `shortest` bytes.
    pub fn count(&mut self, what: &'static str, shortest: u64, most: u64) -> Result<u64, Error> {
        let offset = self.at;
        let count = self.number()?;
        let left = self.size - self.at;
        if count > left / shortest {
            return Err(Error::at(offset, Problem::Ends { needed: count.saturating_mul(shortest), left }));
        }
        match count > most {
            true => Err(Error::at(offset, Problem::TooMany { what, found: count, most })),
            false => Ok(count),
        }
    }

    pub fn key(&mut self) -> Result<String, Error> {
        let offset = self.at;
        let length = self.count("bytes of a key", 1, MOST_KEY)?;
        String::from_utf8(self.run(length)?).map_err(|_| Error::at(offset, Problem::NotUtf8))
    }

    pub fn kind(&mut self) -> Result<ValueKind, Error> {
        let offset = self.at;
        let number = u32::from_le_bytes(self.bytes()?);
        ValueKind::of_number(number).ok_or_else(|| Error::at(offset, Problem::UnknownType(number)))
    }

    /// Reads a value. Of an array, returns its position and skips the elements. `depth` is the
    /// number of arrays around it.
    pub fn value(&mut self, kind: ValueKind, depth: usize) -> Result<Value, Error> {
        Ok(match kind {
            ValueKind::U8 => Value::Unsigned(u8::from_le_bytes(self.bytes()?).into()),
            ValueKind::U16 => Value::Unsigned(u16::from_le_bytes(self.bytes()?).into()),
            ValueKind::U32 => Value::Unsigned(u32::from_le_bytes(self.bytes()?).into()),
            ValueKind::U64 => Value::Unsigned(u64::from_le_bytes(self.bytes()?)),
            ValueKind::I8 => Value::Signed(i8::from_le_bytes(self.bytes()?).into()),
            ValueKind::I16 => Value::Signed(i16::from_le_bytes(self.bytes()?).into()),
            ValueKind::I32 => Value::Signed(i32::from_le_bytes(self.bytes()?).into()),
            ValueKind::I64 => Value::Signed(i64::from_le_bytes(self.bytes()?)),
            ValueKind::F32 => Value::Float(f32::from_le_bytes(self.bytes()?).into()),
            ValueKind::F64 => Value::Float(f64::from_le_bytes(self.bytes()?)),
            ValueKind::Bool => Value::Bool(self.bytes::<1>()? != [0]),
            ValueKind::Text => {
                let offset = self.at;
                let length = self.count("bytes of a string", 1, MOST_TEXT)?;
                // Elements of arrays are passed to the caller one by one and not kept here.
                if depth == 0 {
                    self.kept += length;
                }
                if self.kept > MOST_KEPT {
                    let (found, most) = (self.kept, MOST_KEPT);
                    return Err(Error::at(offset, Problem::TooMany { what: "bytes of strings", found, most }));
                }
                Value::Text(self.run(length)?)
            }
            ValueKind::Array => Value::Array(self.array(depth)?),
        })
    }

    fn array(&mut self, depth: usize) -> Result<Array, Error> {
        let offset = self.at;
        if depth >= DEEPEST {
            return Err(Error::at(offset, Problem::Nested(DEEPEST)));
        }
        let kind = self.kind()?;
        let count = self.count("elements", kind.shortest(), MOST_ELEMENTS)?;
        let start = self.at;
        if let Some(width) = kind.width() {
            self.skip(count * width)?;
            return Ok(Array { kind, count, start });
        }
        self.stepped += count;
        if self.stepped > MOST_ELEMENTS {
            let (found, most) = (self.stepped, MOST_ELEMENTS);
            return Err(Error::at(offset, Problem::TooMany { what: "elements", found, most }));
        }
        for _ in 0..count {
            match kind {
                ValueKind::Array => drop(self.array(depth + 1)?),
                _ => {
                    let length = self.count("bytes of a string", 1, MOST_TEXT)?;
                    self.skip(length)?;
                }
            }
        }
        Ok(Array { kind, count, start })
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        self.needs(N as u64)?;
        let mut bytes = [0; N];
        self.reader.read_exact(&mut bytes)?;
        self.at += N as u64;
        Ok(bytes)
    }

    fn run(&mut self, length: u64) -> Result<Vec<u8>, Error> {
        self.needs(length)?;
        let mut bytes = vec![0; usize::try_from(length).map_err(|_| self.ends(length))?];
        self.reader.read_exact(&mut bytes)?;
        self.at += length;
        Ok(bytes)
    }

    fn skip(&mut self, length: u64) -> Result<(), Error> {
        self.needs(length)?;
        self.reader.seek_relative(i64::try_from(length).map_err(|_| self.ends(length))?)?;
        self.at += length;
        Ok(())
    }

    fn needs(&self, length: u64) -> Result<(), Error> {
        if length > self.size - self.at { Err(self.ends(length)) } else { Ok(()) }
    }

    fn ends(&self, needed: u64) -> Error {
        Error::at(self.at, Problem::Ends { needed, left: self.size - self.at })
    }
}
