//! JSON values that lose nothing a prompt may show: key order, the spelling of numbers, strings as they are.

use std::borrow::Cow;
use std::collections::HashMap;

mod parse;
mod place;
mod spellings;
mod write;

pub use parse::{ParseError, parse};
pub use place::{Step, key_span, span};
pub use spellings::spellings;
pub use write::{Layout, escape_into, write, write_at, write_into, write_string};

/// A JSON value.
///
/// ```
/// use rolecall_conversation::json::{self, Layout};
/// let value = json::parse(r#"{"b":1.0,"a":[1e5]}"#)?;
/// assert_eq!(json::write(&value, &Layout::default()), r#"{"b": 1.0, "a": [1e5]}"#);
/// # Ok::<(), json::ParseError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number, as it was spelled.
    Number(Number),
    /// A string.
    String(String),
    /// A list.
    Array(Vec<Json>),
    /// Keys and values in their order.
    Object(Object),
}

/// A JSON number by its spelling: `1.0`, `1e5` and integers of any size stay what they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Number(Box<str>);

impl Number {
    /// The number that is spelled so, if that is a JSON number.
    pub fn from_spelling(spelling: &str) -> Option<Number> {
        let mut value = None;
        if let Ok(Json::Number(number)) = parse(spelling) {
            value = Some(number);
        }
        value.filter(|number| number.spelling() == spelling)
    }

    /// The digits as they were written.
    pub fn spelling(&self) -> &str {
        &self.0
    }

    /// The nearest double.
    pub fn as_f64(&self) -> Option<f64> {
        self.0.parse().ok()
    }

    /// The value, if it is a whole number that fits.
    pub fn as_i64(&self) -> Option<i64> {
        self.0.parse().ok()
    }
}

impl From<i64> for Number {
    fn from(value: i64) -> Number {
        Number(value.to_string().into())
    }
}

/// How many bytes stand in JSON text as they are, up to a quote, a backslash or a control character.
///
/// ```
/// # use rolecall_conversation::json::plain_run;
/// assert_eq!(plain_run(b"as it is\n"), 8);
/// ```
pub fn plain_run(bytes: &[u8]) -> usize {
    let is_special = |byte: u8| (byte < 0x20) | (byte == b'"') | (byte == b'\\');
    // Sixteen at a time without a branch between, which compilers do in a few instructions.
    let mut at = 0;
    for sixteen in bytes.chunks_exact(16) {
        if sixteen.iter().fold(false, |found, byte| found | is_special(*byte)) {
            break;
        }
        at += 16;
    }
    at + bytes[at..].iter().take_while(|byte| !is_special(**byte)).count()
}

/// A key; the ones that every conversation has need no memory of their own.
type Key = Cow<'static, str>;

/// A key as it is kept.
fn key_of(key: String) -> Key {
    const COMMON: [&str; 14] = [
        "role",
        "content",
        "type",
        "text",
        "name",
        "function",
        "arguments",
        "id",
        "tool_calls",
        "tool_call_id",
        "parameters",
        "properties",
        "description",
        "required",
    ];
    match COMMON.iter().find(|common| **common == key) {
        Some(common) => Cow::Borrowed(common),
        None => Cow::Owned(key),
    }
}

/// Up to so many keys are searched without hashing.
const FEW: usize = 16;

/// Keys and values in their order. A key that comes twice keeps its first place and its last value, as in Python.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Object(Vec<(Key, Json)>);

impl Object {
    /// No keys.
    pub fn new() -> Object {
        Object::default()
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Json> {
        self.0.iter().find(|(k, _)| k == key).map(|(_, value)| value)
    }

    /// Where a key stands, from 0.
    pub fn position(&self, key: &str) -> Option<usize> {
        self.0.iter().position(|(k, _)| k == key)
    }

    /// The value at a place.
    #[inline]
    pub fn value_at(&self, place: usize) -> Option<&Json> {
        self.0.get(place).map(|(_, value)| value)
    }

    /// The value of a key, to be changed.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Json> {
        self.0.iter_mut().find(|(k, _)| k == key).map(|(_, value)| value)
    }

    /// Sets a key: in its old place if it is there, else last.
    pub fn insert(&mut self, key: impl Into<String>, value: Json) {
        let key = key.into();
        match self.0.iter_mut().find(|(k, _)| *k == key) {
            Some(entry) => entry.1 = value,
            None => self.0.push((key_of(key), value)),
        }
    }

    /// Takes a key out.
    pub fn remove(&mut self, key: &str) -> Option<Json> {
        let at = self.0.iter().position(|(k, _)| k == key)?;
        Some(self.0.remove(at).1)
    }

    /// Keys and values in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Json)> {
        self.0.iter().map(|(key, value)| (key.as_ref(), value))
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<(String, Json)> for Object {
    fn from_iter<I: IntoIterator<Item = (String, Json)>>(entries: I) -> Object {
        let mut kept: Vec<(Key, Json)> = Vec::new();
        // Few keys are compared one by one; many are hashed, so that a hostile object costs no square.
        let mut places: HashMap<String, usize> = HashMap::new();
        for (key, value) in entries {
            if kept.len() == FEW {
                places = kept.iter().enumerate().map(|(at, (key, _))| (key.to_string(), at)).collect();
            }
            let earlier = match kept.len() {
                0..FEW => kept.iter().position(|(k, _)| *k == key),
                _ => places.get(&key).copied(),
            };
            match earlier {
                Some(at) => kept[at].1 = value,
                None => {
                    if kept.len() >= FEW {
                        places.insert(key.clone(), kept.len());
                    }
                    kept.push((key_of(key), value));
                }
            }
        }
        Object(kept)
    }
}

impl Json {
    /// The string, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Json::String(text) => Some(text),
            _ => None,
        }
    }

    /// The list, if it is one.
    pub fn as_array(&self) -> Option<&[Json]> {
        match self {
            Json::Array(items) => Some(items),
            _ => None,
        }
    }

    /// The object, if it is one.
    pub fn as_object(&self) -> Option<&Object> {
        match self {
            Json::Object(object) => Some(object),
            _ => None,
        }
    }

    /// The truth value, if it is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Json::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// Whether it is `null`.
    pub fn is_null(&self) -> bool {
        matches!(self, Json::Null)
    }

    /// What kind of value it is, with an article, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Json::Null => "null",
            Json::Bool(_) => "a truth value",
            Json::Number(_) => "a number",
            Json::String(_) => "a string",
            Json::Array(_) => "a list",
            Json::Object(_) => "an object",
        }
    }
}

impl From<&str> for Json {
    fn from(text: &str) -> Json {
        Json::String(text.to_owned())
    }
}

impl From<String> for Json {
    fn from(text: String) -> Json {
        Json::String(text)
    }
}

impl From<bool> for Json {
    fn from(value: bool) -> Json {
        Json::Bool(value)
    }
}

impl From<i64> for Json {
    fn from(value: i64) -> Json {
        Json::Number(value.into())
    }
}

impl From<Object> for Json {
    fn from(object: Object) -> Json {
        Json::Object(object)
    }
}

impl From<Vec<Json>> for Json {
    fn from(items: Vec<Json>) -> Json {
        Json::Array(items)
    }
}

/// Builds an [`Object`]: `object! { "role" => "user", "content" => text }`.
#[macro_export]
macro_rules! object {
    ($($key:expr => $value:expr),* $(,)?) => {{
        #[allow(unused_mut)]
        let mut object = $crate::json::Object::new();
        $(object.insert($key, $crate::Json::from($value));)*
        object
    }};
}
