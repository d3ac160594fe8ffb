use rolecall::conversation::Json;
use rolecall::conversation::json::Object;

use crate::{Fault, FaultCode};

/// Returns the error for a value of the wrong type.
pub fn wrong(path: &str, expected: &str, found: &Json) -> Fault {
    Fault::at(path, FaultCode::WrongType, format!("{path}: expected {expected}, found {}", found.kind()))
}

/// Returns the error for a field that is not there.
pub fn missing(path: &str) -> Fault {
    Fault::at(path, FaultCode::MissingField, format!("{path}: expected a value, found nothing"))
}

/// Returns the error for something that the gateway does not have, with what to do instead.
pub fn unsupported(path: &str, help: &str) -> Fault {
    Fault { help: Some(help.into()), ..Fault::unsupported(path) }
}

/// Returns the value of a key, unless it is null.
pub fn get<'a>(object: &'a Object, key: &str) -> Option<&'a Json> {
    object.get(key).filter(|value| !value.is_null())
}

/// Returns the path of a key of an object, which may be the whole body.
pub fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// Returns the text of a key.
pub fn text<'a>(object: &'a Object, path: &str, key: &str) -> Result<Option<&'a str>, Fault> {
    let Some(value) = get(object, key) else { return Ok(None) };
    value.as_str().map(Some).ok_or_else(|| wrong(&join(path, key), "a text", value))
}

/// Returns the text of a key that must be there.
pub fn needed_text<'a>(object: &'a Object, path: &str, key: &str) -> Result<&'a str, Fault> {
    text(object, path, key)?.ok_or_else(|| missing(&join(path, key)))
}

/// Returns the truth value of a key.
pub fn flag(object: &Object, path: &str, key: &str) -> Result<Option<bool>, Fault> {
    let Some(value) = get(object, key) else { return Ok(None) };
    value.as_bool().map(Some).ok_or_else(|| wrong(&join(path, key), "true or false", value))
}

/// Returns an object.
pub fn object<'a>(value: &'a Json, path: &str) -> Result<&'a Object, Fault> {
    value.as_object().ok_or_else(|| wrong(path, "an object", value))
}

/// Returns a list.
pub fn list<'a>(value: &'a Json, path: &str) -> Result<&'a [Json], Fault> {
    value.as_array().ok_or_else(|| wrong(path, "a list", value))
}

/// Refuses keys that are not known, unless they say nothing.
pub fn refuse_others(object: &Object, path: &str, known: &[&str]) -> Result<(), Fault> {
    let says = |value: &Json| !value.is_null() && value.as_bool() != Some(false);
    let other = object.iter().find(|(key, value)| !known.contains(key) && says(value));
    other.map_or(Ok(()), |(key, _)| Err(Fault::unsupported(&join(path, key))))
}

/// Reads a part of text of some types.
pub fn typed_text(part: &Json, path: &str, types: &[&str]) -> Result<String, Fault> {
    let part = object(part, path)?;
    let kind = needed_text(part, path, "type")?;
    if !types.contains(&kind) {
        let path = format!("{path}.type");
        let message = format!("{path}: the gateway does not support parts of the type `{kind}`");
        let help = format!("use parts of the type {}", types.join(", ")).into();
        return Err(Fault { help: Some(help), ..Fault::at(&path, FaultCode::UnsupportedPart, message) });
    }
    // The last two describe a text that the model wrote.
    refuse_others(part, path, &["type", "text", "annotations", "logprobs"])?;
    Ok(needed_text(part, path, "text")?.to_owned())
}
