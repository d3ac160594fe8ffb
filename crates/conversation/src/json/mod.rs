//! JSON values that preserve key order and the spelling of numbers.
//!
//! A chat template can print values of a conversation, so a value must be written exactly as it was
//! read.

mod index;
mod object;
mod parse;
mod place;
mod spellings;
mod write;

pub use object::Object;
pub use parse::{ParseError, parse, parse_unique};
pub use place::{Step, child_spans, key_span, span};
pub use spellings::spellings;
pub use write::{Layout, escape_into, indentation, write, write_at, write_into, write_object_into, write_string};

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
    /// A number, with its spelling.
    Number(Number),
    /// A string.
    String(String),
    /// An array.
    Array(Vec<Json>),
    /// Keys and values, in order.
    Object(Object),
}

/// A JSON number, stored as it is spelled: `1.0`, `1e5` and integers of any size are preserved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Number(NumberSpelling);

/// Stores short spellings inline. A list can hold one number for every two bytes of text, so most
/// numbers must not allocate memory.
#[derive(Clone, Debug, PartialEq, Eq)]
enum NumberSpelling {
    Short { length: u8, digits: [u8; SHORT] },
    Long(Box<str>),
}

const SHORT: usize = 14;

impl Number {
    /// Returns the number with this spelling, if it is a valid JSON number.
    pub fn from_spelling(spelling: &str) -> Option<Number> {
        let mut value = None;
        if let Ok(Json::Number(number)) = parse(spelling) {
            value = Some(number);
        }
        value.filter(|number| number.spelling() == spelling)
    }

    /// Returns the number of a spelling that is known to be valid.
    fn of(spelling: &str) -> Number {
        let mut digits = [0; SHORT];
        Number(match digits.get_mut(..spelling.len()) {
            Some(room) => {
                room.copy_from_slice(spelling.as_bytes());
                NumberSpelling::Short { length: spelling.len() as u8, digits }
            }
            None => NumberSpelling::Long(spelling.into()),
        })
    }

    /// Returns the spelling.
    pub fn spelling(&self) -> &str {
        match &self.0 {
            NumberSpelling::Short { length, digits } => {
                let written = digits.get(..usize::from(*length)).unwrap_or_default();
                std::str::from_utf8(written).expect("it was a text")
            }
            NumberSpelling::Long(spelling) => spelling,
        }
    }

    /// Returns the nearest double.
    pub fn as_f64(&self) -> Option<f64> {
        self.spelling().parse().ok()
    }

    /// Returns the value, if it is an integer that fits.
    pub fn as_i64(&self) -> Option<i64> {
        self.spelling().parse().ok()
    }
}

impl From<i64> for Number {
    fn from(value: i64) -> Number {
        Number::of(&value.to_string())
    }
}

/// Returns the number of leading bytes that need no escape in a JSON string: everything before the
/// first quote, backslash or control character.
///
/// ```
/// # use rolecall_conversation::json::plain_run;
/// assert_eq!(plain_run(b"as it is\n"), 8);
/// ```
pub fn plain_run(bytes: &[u8]) -> usize {
    let is_special = |byte: u8| (byte < 0x20) | (byte == b'"') | (byte == b'\\');
    // Sixteen bytes at a time, without a branch in between, so that the compiler can vectorize the
    // loop.
    let mut at = 0;
    for sixteen in bytes.chunks_exact(16) {
        if sixteen.iter().fold(false, |found, byte| found | is_special(*byte)) {
            break;
        }
        at += 16;
    }
    at + bytes[at..].iter().take_while(|byte| !is_special(**byte)).count()
}

impl Json {
    /// Returns the string, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Json::String(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the array, if it is one.
    pub fn as_array(&self) -> Option<&[Json]> {
        match self {
            Json::Array(items) => Some(items),
            _ => None,
        }
    }

    /// Returns the object, if it is one.
    pub fn as_object(&self) -> Option<&Object> {
        match self {
            Json::Object(object) => Some(object),
            _ => None,
        }
    }

    /// Returns the boolean, if it is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Json::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// Reports whether the value is `null`.
    pub fn is_null(&self) -> bool {
        matches!(self, Json::Null)
    }

    /// Returns the kind of value with an article, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Json::Null => "null",
            Json::Bool(_) => "a boolean",
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
        let mut object = $crate::json::Object::with_capacity(<[&str]>::len(&[$(stringify!($key)),*]));
        $(object.insert($key, $crate::Json::from($value));)*
        object
    }};
}
