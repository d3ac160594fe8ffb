use rolecall_conversation::json::{escape_into, plain_run};

use super::nest::Nest;
use super::{ReaderState, ValueStep, bad};
use crate::{JsonPolicy, Why};

/// Reads a JSON value and outputs it in its original spelling, except for raw control characters in
/// strings, which it escapes.
#[derive(Clone, Debug)]
pub(crate) struct JsonReader {
    policy: JsonPolicy,
    at: JsonState,
    nest: Nest,
    /// A comma and the white space after it, until it is known whether an item follows.
    comma: String,
}

/// The maximum number of bytes of white space between a trailing comma and the closing bracket.
const BEHIND_COMMA: usize = 4096;

/// The position in the grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JsonState {
    /// Before the value. White space here is not output.
    Start,
    /// Before a nested value.
    Value,
    /// Before the first item or the end of the list.
    FirstItem,
    /// Before the first key or the end of the object.
    FirstKey,
    Key,
    Colon,
    /// Before a comma or the closing bracket.
    Next,
    /// Within a string.
    Text {
        key: bool,
    },
    /// After a backslash.
    Escape {
        key: bool,
    },
    /// Within a `\u` escape, with this many digits left.
    Hex {
        key: bool,
        left: u8,
    },
    /// Within a word, with these bytes left.
    Word(&'static [u8]),
    Number(Number),
    Done,
}

/// The last part of a number that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
    Minus,
    /// A leading zero, which no digit may follow.
    Zero,
    Whole,
    Point,
    Fraction,
    E,
    Sign,
    Exponent,
}

impl Number {
    /// Returns the part of the number that this byte continues, or `None` if the number ends before
    /// it.
    fn next(self, byte: u8) -> Option<Number> {
        match (self, byte) {
            (Number::Minus, b'0') => Some(Number::Zero),
            (Number::Minus | Number::Whole, b'0'..=b'9') => Some(Number::Whole),
            (Number::Zero | Number::Whole, b'.') => Some(Number::Point),
            (Number::Zero | Number::Whole | Number::Fraction, b'e' | b'E') => Some(Number::E),
            (Number::Point | Number::Fraction, b'0'..=b'9') => Some(Number::Fraction),
            (Number::E, b'+' | b'-') => Some(Number::Sign),
            (Number::E | Number::Sign | Number::Exponent, b'0'..=b'9') => Some(Number::Exponent),
            _ => None,
        }
    }

    fn is_whole(self) -> bool {
        matches!(self, Number::Zero | Number::Whole | Number::Fraction | Number::Exponent)
    }
}

impl JsonReader {
    pub(crate) fn new(policy: JsonPolicy) -> JsonReader {
        JsonReader { policy, at: JsonState::Start, nest: Nest::default(), comma: String::new() }
    }

    /// Reports whether nothing of the value was read yet.
    pub(crate) fn is_at_start(&self) -> bool {
        self.at == JsonState::Start
    }

    /// Reports whether a string is open, so that a backslash would start an escape.
    pub(crate) fn is_in_string(&self) -> bool {
        matches!(self.at, JsonState::Text { .. })
    }

    /// Reports whether a text only continues an open string.
    pub(crate) fn is_plain(&self, text: &str) -> bool {
        self.is_in_string() && plain_run(text.as_bytes()) == text.len()
    }

    /// Reads the next piece.
    pub(crate) fn push(&mut self, text: &str, out: &mut String) -> ValueStep {
        let bytes = text.as_bytes();
        let mut at = self.after_comma(bytes, out);
        // Used text is output at the end of the piece, in one go.
        let mut given = at;
        let step = loop {
            if let JsonState::Text { key } = self.at {
                at += plain_run(&bytes[at..]);
                match bytes.get(at) {
                    None => break ValueStep { used: at, state: ReaderState::More },
                    Some(b'"') if key => self.at = JsonState::Colon,
                    Some(b'"') => self.at = self.behind_value(),
                    Some(b'\\') => self.at = JsonState::Escape { key },
                    Some(_) if self.policy == JsonPolicy::Strict => {
                        break bad(at, "a control character to be escaped", text);
                    }
                    Some(_) => {
                        out.push_str(&text[given..at]);
                        given = at + 1;
                        escape_into(out, &text[at..given], false);
                    }
                }
                at += 1;
                continue;
            }
            if self.at == JsonState::Done {
                break ValueStep { used: at, state: ReaderState::Done };
            }
            let Some(&byte) = bytes.get(at) else { break ValueStep { used: at, state: ReaderState::More } };
            if let JsonState::Number(number) = self.at {
                match number.next(byte) {
                    Some(next) => {
                        self.at = JsonState::Number(next);
                        at += 1;
                    }
                    None if number == Number::Zero && byte.is_ascii_digit() => {
                        break bad(at, "no digit after a leading zero", text);
                    }
                    // Read the byte after the number again, in its own state.
                    None if number.is_whole() => self.at = self.behind_value(),
                    None => break bad(at, "a digit", text),
                }
                continue;
            }
            if byte == b',' && self.at == JsonState::Next && self.policy == JsonPolicy::Lenient {
                match bytes[at + 1..].iter().position(|byte| !is_space(*byte)) {
                    // A comma before a closing bracket is dropped.
                    Some(spaces) if spaces < BEHIND_COMMA && matches!(bytes[at + 1 + spaces], b'}' | b']') => {
                        out.push_str(&text[given..at]);
                        at += 1;
                        given = at;
                        continue;
                    }
                    Some(_) => {}
                    None => {
                        out.push_str(&text[given..at]);
                        given = at + self.after_comma(&bytes[at..], out);
                        break ValueStep { used: text.len(), state: ReaderState::More };
                    }
                }
            }
            match self.next(byte) {
                Ok(next) => {
                    at += 1;
                    if next == JsonState::Start {
                        given = at;
                    }
                    self.at = next;
                }
                Err(JsonError::Expected(what)) => break bad(at, what, text),
                Err(JsonError::TooDeep) => break ValueStep { used: at, state: ReaderState::Bad(Why::TooDeep) },
            }
        };
        out.push_str(&text[given..step.used]);
        step
    }

    /// Holds a comma and white space back until an item or a closing bracket follows. Returns the
    /// number of bytes read.
    fn after_comma(&mut self, bytes: &[u8], out: &mut String) -> usize {
        let is_comma = bytes.first() == Some(&b',') && self.at == JsonState::Next;
        let starts = self.comma.is_empty() && is_comma && self.policy == JsonPolicy::Lenient;
        if !starts && self.comma.is_empty() {
            return 0;
        }
        let first = usize::from(starts);
        let spaces = bytes[first..].iter().take_while(|byte| is_space(**byte));
        let mut used = first;
        self.comma.extend(starts.then_some(','));
        for space in spaces {
            if self.comma.len() > BEHIND_COMMA {
                break;
            }
            self.comma.push(char::from(*space));
            used += 1;
        }
        let is_trailing = matches!(bytes.get(used), Some(b'}' | b']')) && self.comma.len() <= BEHIND_COMMA;
        if used == bytes.len() && self.comma.len() <= BEHIND_COMMA {
            return used;
        }
        match is_trailing {
            true => out.push_str(&self.comma[1..]),
            false => {
                out.push_str(&self.comma);
                self.at = if self.nest.innermost() == Some(true) { JsonState::Key } else { JsonState::Value };
            }
        }
        self.comma.clear();
        used
    }

    /// Ends the input.
    pub(crate) fn end(&mut self) -> ReaderState {
        match self.at {
            JsonState::Done => ReaderState::Done,
            JsonState::Number(number) if number.is_whole() && self.nest.innermost().is_none() => {
                self.at = JsonState::Done;
                ReaderState::Done
            }
            _ => ReaderState::Bad(Why::Unfinished),
        }
    }

    /// Returns the position after a byte outside strings and numbers.
    fn next(&mut self, byte: u8) -> Result<JsonState, JsonError> {
        match (self.at, byte) {
            (
                JsonState::Start
                | JsonState::Value
                | JsonState::FirstItem
                | JsonState::FirstKey
                | JsonState::Key
                | JsonState::Colon
                | JsonState::Next,
                b' ' | b'\t' | b'\n' | b'\r',
            ) => Ok(self.at),
            (JsonState::FirstItem, b']') | (JsonState::FirstKey, b'}') => Ok(self.close()),
            (JsonState::Start | JsonState::Value | JsonState::FirstItem, _) => self.begin(byte),
            (JsonState::FirstKey | JsonState::Key, b'"') => Ok(JsonState::Text { key: true }),
            (JsonState::FirstKey, _) => Err(JsonError::Expected("a key in double quotes or `}`")),
            (JsonState::Key, _) => Err(JsonError::Expected("a key in double quotes")),
            (JsonState::Colon, b':') => Ok(JsonState::Value),
            (JsonState::Colon, _) => Err(JsonError::Expected("`:` after the key")),
            (JsonState::Next, _) => match (self.nest.innermost(), byte) {
                (Some(true), b',') => Ok(JsonState::Key),
                (Some(false), b',') => Ok(JsonState::Value),
                (Some(true), b'}') | (Some(false), b']') => Ok(self.close()),
                (Some(true), _) => Err(JsonError::Expected("`,` or `}`")),
                _ => Err(JsonError::Expected("`,` or `]`")),
            },
            (JsonState::Escape { key }, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                Ok(JsonState::Text { key })
            }
            (JsonState::Escape { key }, b'u') => Ok(JsonState::Hex { key, left: 4 }),
            (JsonState::Escape { .. }, _) => Err(JsonError::Expected("an escape such as `\\n`")),
            (JsonState::Hex { key, left: 1 }, byte) if byte.is_ascii_hexdigit() => Ok(JsonState::Text { key }),
            (JsonState::Hex { key, left }, byte) if byte.is_ascii_hexdigit() => {
                Ok(JsonState::Hex { key, left: left - 1 })
            }
            (JsonState::Hex { .. }, _) => Err(JsonError::Expected("four hexadecimal digits after `\\u`")),
            (JsonState::Word(rest), byte) if rest.first() == Some(&byte) => match &rest[1..] {
                [] => Ok(self.behind_value()),
                rest => Ok(JsonState::Word(rest)),
            },
            (JsonState::Word(_), _) => Err(JsonError::Expected("`true`, `false` or `null`")),
            // `push` handles these three.
            (JsonState::Text { .. } | JsonState::Number(_) | JsonState::Done, _) => Ok(self.at),
        }
    }

    /// Returns the position after the first byte of a value.
    fn begin(&mut self, byte: u8) -> Result<JsonState, JsonError> {
        match byte {
            b'{' if self.nest.open(true) => Ok(JsonState::FirstKey),
            b'[' if self.nest.open(false) => Ok(JsonState::FirstItem),
            b'{' | b'[' => Err(JsonError::TooDeep),
            b'"' => Ok(JsonState::Text { key: false }),
            b'-' => Ok(JsonState::Number(Number::Minus)),
            b'0' => Ok(JsonState::Number(Number::Zero)),
            b'1'..=b'9' => Ok(JsonState::Number(Number::Whole)),
            b't' => Ok(JsonState::Word(b"rue")),
            b'f' => Ok(JsonState::Word(b"alse")),
            b'n' => Ok(JsonState::Word(b"ull")),
            _ => Err(JsonError::Expected("a JSON value")),
        }
    }

    fn close(&mut self) -> JsonState {
        self.nest.close();
        self.behind_value()
    }

    fn behind_value(&self) -> JsonState {
        match self.nest.innermost() {
            Some(_) => JsonState::Next,
            None => JsonState::Done,
        }
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// The reason that a byte is invalid.
enum JsonError {
    Expected(&'static str),
    TooDeep,
}
