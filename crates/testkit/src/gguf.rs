//! Writes the metadata of GGUF files, for tests.

use std::io::Cursor;

use rolecall::conversation::json::Object;
use rolecall::conversation::{Json, json};
use rolecall::gguf::{Error, Flaw, Gguf};

/// Writes a GGUF file of version 3 without tensors. Values are strings, bools, integers (32 bits),
/// floats (32 bits) and arrays of these, whose first item decides the type.
pub fn write_gguf(metadata: &Object) -> Vec<u8> {
    let mut bytes = b"GGUF".to_vec();
    bytes.extend(3_u32.to_le_bytes());
    bytes.extend(0_u64.to_le_bytes());
    bytes.extend((metadata.len() as u64).to_le_bytes());
    for (key, value) in metadata.iter() {
        push_text(&mut bytes, key);
        bytes.extend(kind_of(value).to_le_bytes());
        push_value(&mut bytes, value);
    }
    bytes
}

/// Writes a GGUF file from metadata given as JSON.
pub fn gguf_of(metadata: &str) -> Vec<u8> {
    match json::parse(metadata) {
        Ok(Json::Object(object)) => write_gguf(&object),
        other => panic!("{other:?}"),
    }
}

/// Reads a GGUF file from bytes.
pub fn read_gguf(bytes: &[u8]) -> Result<Gguf<Cursor<&[u8]>>, Error> {
    Gguf::read(Cursor::new(bytes))
}

/// Returns the flaw of a damaged file. Any other error fails the test.
pub fn flaw_of(error: Error) -> Flaw {
    match error {
        Error::Damaged(flaw) => flaw,
        error => panic!("{error}"),
    }
}

fn kind_of(value: &Json) -> u32 {
    match value {
        Json::Number(number) if number.spelling().contains('.') => 6,
        Json::Number(number) if number.spelling().starts_with('-') => 5,
        Json::Number(_) => 4,
        Json::Bool(_) => 7,
        Json::String(_) => 8,
        Json::Array(_) => 9,
        Json::Null | Json::Object(_) => panic!("GGUF has no {}", value.kind()),
    }
}

fn push_value(bytes: &mut Vec<u8>, value: &Json) {
    match value {
        Json::Number(number) => match kind_of(value) {
            6 => bytes.extend((number.as_f64().unwrap_or_default() as f32).to_le_bytes()),
            5 => bytes.extend((number.as_i64().unwrap_or_default() as i32).to_le_bytes()),
            _ => bytes.extend((number.as_i64().unwrap_or_default() as u32).to_le_bytes()),
        },
        Json::Bool(value) => bytes.push(u8::from(*value)),
        Json::String(text) => push_text(bytes, text),
        Json::Array(items) => {
            bytes.extend(items.first().map_or(8, kind_of).to_le_bytes());
            bytes.extend((items.len() as u64).to_le_bytes());
            items.iter().for_each(|item| push_value(bytes, item));
        }
        Json::Null | Json::Object(_) => {}
    }
}

fn push_text(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend((text.len() as u64).to_le_bytes());
    bytes.extend(text.as_bytes());
}
