use std::fmt;

use super::{Json, Number, Object, plain_run};

/// The maximum nesting depth. Deeper values are rejected, so that recursive code cannot overflow
/// the stack.
const MAX_DEPTH: usize = 200;

/// An error in JSON text, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// The byte offset of the error.
    pub offset: usize,
    /// The line of the error, from 1.
    pub line: usize,
    /// The column of the error in characters, from 1.
    pub column: usize,
    /// What was expected and what was found.
    pub message: String,
    /// Whether the text is valid JSON in which an object has a key twice.
    pub is_key_twice: bool,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at line {}, column {}", self.message, self.line, self.column)
    }
}

impl std::error::Error for ParseError {}

/// Parses a single JSON value, surrounded by optional white space. If an object has a key twice,
/// the last value counts.
pub fn parse(text: &str) -> Result<Json, ParseError> {
    read(text, false)
}

/// Parses a single JSON value as [`parse`] does. A key that occurs twice in an object is an error.
pub fn parse_unique(text: &str) -> Result<Json, ParseError> {
    read(text, true)
}

fn read(text: &str, is_unique: bool) -> Result<Json, ParseError> {
    let mut reader = JsonParser { text, at: 0, is_unique, is_key_twice: false };
    let result = reader.document();
    result.map_err(|message| {
        let before = &text[..reader.at];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        ParseError {
            offset: reader.at,
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            message,
            is_key_twice: reader.is_key_twice,
        }
    })
}

/// A recursive-descent parser. `at` is always on a character boundary; after a failure it is the
/// place of the error.
struct JsonParser<'a> {
    text: &'a str,
    at: usize,
    /// Whether an object may have each key only once.
    is_unique: bool,
    is_key_twice: bool,
}

impl JsonParser<'_> {
    fn document(&mut self) -> Result<Json, String> {
        self.skip_space();
        let value = self.value(0)?;
        self.skip_space();
        if self.at < self.text.len() {
            return Err(format!("expected the end of the JSON value, found {}", self.found()));
        }
        Ok(value)
    }

    fn value(&mut self, depth: usize) -> Result<Json, String> {
        if depth > MAX_DEPTH {
            return Err(format!("the value nests deeper than {MAX_DEPTH} levels"));
        }
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => Ok(Json::String(self.string()?)),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word("true", Json::Bool(true)),
            Some(b'f') => self.word("false", Json::Bool(false)),
            Some(b'n') => self.word("null", Json::Null),
            _ => Err(format!("expected a JSON value, found {}", self.found())),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Json, String> {
        self.at += 1;
        let mut object = Object::new();
        self.skip_space();
        if self.take(b'}') {
            return Ok(Json::Object(object));
        }
        loop {
            self.skip_space();
            if self.peek() != Some(b'"') {
                return Err(format!("expected a key in double quotes, found {}", self.found()));
            }
            let start = self.at;
            let key = self.string()?;
            if self.is_unique && object.position(&key).is_some() {
                self.at = start;
                self.is_key_twice = true;
                return Err(format!("the key `{key}` occurs twice in one object"));
            }
            self.skip_space();
            if !self.take(b':') {
                return Err(format!("expected `:` after the key, found {}", self.found()));
            }
            self.skip_space();
            let value = self.value(depth + 1)?;
            object.insert(key, value);
            if self.ends(b'}')? {
                return Ok(Json::Object(object));
            }
        }
    }

    fn array(&mut self, depth: usize) -> Result<Json, String> {
        self.at += 1;
        let mut items = Vec::new();
        self.skip_space();
        if self.take(b']') {
            return Ok(Json::Array(items));
        }
        loop {
            self.skip_space();
            items.push(self.value(depth + 1)?);
            if self.ends(b']')? {
                return Ok(Json::Array(items));
            }
        }
    }

    /// Reads the comma after an element, or the bracket that closes the object or array. Reports
    /// whether it was the bracket.
    fn ends(&mut self, bracket: u8) -> Result<bool, String> {
        self.skip_space();
        if self.take(bracket) {
            return Ok(true);
        }
        match self.take(b',') {
            true => Ok(false),
            false => Err(format!("expected `,` or `{}`, found {}", char::from(bracket), self.found())),
        }
    }

    fn string(&mut self) -> Result<String, String> {
        self.at += 1;
        let mut string = String::new();
        loop {
            let rest = &self.text.as_bytes()[self.at..];
            let run = plain_run(rest);
            let plain = &self.text[self.at..self.at + run];
            self.at += run;
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    if string.is_empty() {
                        // Most strings have no escapes.
                        return Ok(plain.to_owned());
                    }
                    string.push_str(plain);
                    return Ok(string);
                }
                Some(b'\\') => {
                    string.push_str(plain);
                    self.escape(&mut string)?;
                }
                Some(_) => return Err(format!("expected a control character to be escaped, found {}", self.found())),
                None => return Err("expected `\"` at the end of the string, found the end of the text".into()),
            }
        }
    }

    fn escape(&mut self, string: &mut String) -> Result<(), String> {
        let start = self.at;
        self.at += 1;
        let simple = match self.peek() {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.at += 1;
                let first = self.hex4()?;
                let code = match first {
                    0xD800..=0xDBFF if self.text[self.at..].starts_with("\\u") => {
                        self.at += 2;
                        match self.hex4()? {
                            second @ 0xDC00..=0xDFFF => 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00),
                            _ => first,
                        }
                    }
                    _ => first,
                };
                let Some(character) = char::from_u32(code) else {
                    self.at = start;
                    return Err("expected a surrogate pair, found half of one, which no tokenizer can encode".into());
                };
                string.push(character);
                return Ok(());
            }
            _ => return Err(format!("expected an escape such as `\\n`, found {}", self.found())),
        };
        self.at += 1;
        string.push(simple);
        Ok(())
    }

    fn hex4(&mut self) -> Result<u32, String> {
        let digits = self.text.get(self.at..self.at + 4).filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
        let Some(code) = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()) else {
            return Err("expected four hexadecimal digits after `\\u`".into());
        };
        self.at += 4;
        Ok(code)
    }

    fn number(&mut self) -> Result<Json, String> {
        let start = self.at;
        self.take(b'-');
        if !self.take(b'0') && self.digits() == 0 {
            return Err(format!("expected a digit, found {}", self.found()));
        }
        if self.take(b'.') && self.digits() == 0 {
            return Err(format!("expected a digit after the decimal point, found {}", self.found()));
        }
        if self.take(b'e') || self.take(b'E') {
            if !self.take(b'+') {
                self.take(b'-');
            }
            if self.digits() == 0 {
                return Err(format!("expected a digit in the exponent, found {}", self.found()));
            }
        }
        Ok(Json::Number(Number::of(&self.text[start..self.at])))
    }

    fn digits(&mut self) -> usize {
        let count = self.text.as_bytes()[self.at..].iter().take_while(|b| b.is_ascii_digit()).count();
        self.at += count;
        count
    }

    fn word(&mut self, word: &str, value: Json) -> Result<Json, String> {
        if self.text[self.at..].starts_with(word) {
            self.at += word.len();
            return Ok(value);
        }
        Err(format!("expected `{word}`, found {}", self.found()))
    }

    fn skip_space(&mut self) {
        let space = self.text.as_bytes()[self.at..].iter().take_while(|b| b" \t\r\n".contains(b)).count();
        self.at += space;
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn found(&self) -> String {
        match self.text[self.at..].chars().next() {
            Some(character) if character.is_control() => format!("{character:?}"),
            Some(character) => format!("`{character}`"),
            None => "the end of the text".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_spelling_are_kept() {
        let text = r#"{"z":[1.0,1e5,-0,12345678901234567890123],"a":{"é\u00e9\ud83d\ude00":null}}"#;
        let written = super::super::write(&parse(text).unwrap(), &super::super::Layout::compact());
        assert_eq!(written, r#"{"z":[1.0,1e5,-0,12345678901234567890123],"a":{"éé😀":null}}"#);
    }

    #[test]
    fn a_key_that_comes_twice_keeps_its_place_and_its_last_value() {
        let written = super::super::write(&parse(r#"{"a":1,"b":2,"a":3}"#).unwrap(), &super::super::Layout::compact());
        assert_eq!(written, r#"{"a":3,"b":2}"#);
    }

    #[test]
    fn a_fault_is_named_with_line_and_column() {
        let cases = [
            ("", 1, 1, "expected a JSON value, found the end of the text"),
            ("{\"é\": 1,\n  x}", 2, 3, "expected a key in double quotes, found `x`"),
            ("[1 2]", 1, 4, "expected `,` or `]`, found `2`"),
            ("{\"a\" 1}", 1, 6, "expected `:` after the key, found `1`"),
            ("\"ab", 1, 4, "expected `\"` at the end of the string, found the end of the text"),
            ("\"a\nb\"", 1, 3, "expected a control character to be escaped, found '\\n'"),
            ("1.", 1, 3, "expected a digit after the decimal point, found the end of the text"),
            ("01", 1, 2, "expected the end of the JSON value, found `1`"),
            ("nul", 1, 1, "expected `null`, found `n`"),
            ("NaN", 1, 1, "expected a JSON value, found `N`"),
            ("\"\\ud800\"", 1, 2, "expected a surrogate pair, found half of one, which no tokenizer can encode"),
            ("\"\\uD83Dx\"", 1, 2, "expected a surrogate pair, found half of one, which no tokenizer can encode"),
            ("\"\\u12g4\"", 1, 4, "expected four hexadecimal digits after `\\u`"),
        ];
        for (text, line, column, message) in cases {
            let error = parse(text).unwrap_err();
            assert_eq!((error.line, error.column, error.message.as_str()), (line, column, message), "{text:?}");
        }
    }

    #[test]
    fn depth_is_bounded() {
        let text = "[".repeat(1_000_000);
        assert!(parse(&text).unwrap_err().message.contains("deeper than"));
    }
}
