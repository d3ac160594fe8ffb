//! Python keyword arguments, as the arguments of a call:
//! `city='Paris', days=3, deep={'a': [None, True]}`. Numbers keep their spelling.
//!
//! The parser accepts only literals and evaluates nothing.

use rolecall_conversation::json::{Number, Object};
use rolecall_conversation::{Arguments, Json};

use super::literal::{self, Numbers};
use super::value::{PrintedValue, Spelling, ValueSyntax, Write};

/// The maximum nesting depth of parsed literals.
const MAX_DEPTH: usize = 100;

/// Python literals, and keyword arguments for all arguments of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Python;

impl ValueSyntax for Python {
    fn spelling(&self) -> Spelling<'_> {
        Spelling::Python
    }

    fn print(&self, value: &Json, write: Write<'_>) {
        write(PrintedValue::Value(&literal::repr(value)));
    }

    fn print_arguments(&self, arguments: Arguments<'_>, write: Write<'_>) {
        let text = match arguments {
            Arguments::Value(object) => print(object),
            other => print(&other.to_object().unwrap_or_default()),
        };
        write(PrintedValue::Value(&text));
    }

    fn takes_arguments(&self) -> bool {
        true
    }

    fn is_delimited(&self) -> bool {
        false
    }
}

/// Prints keyword arguments like Python's `ast.unparse`. A key that is not a valid keyword is
/// written as `**{..}`.
pub fn print(arguments: &Object) -> String {
    let written = arguments.iter().map(|(key, value)| {
        let mut text = String::new();
        match is_keyword_name(key) {
            true => text.push_str(&format!("{key}=")),
            false => text.push_str(&format!("**{{{}: ", literal::quote(key))),
        }
        literal::write_repr(&mut text, value, Numbers::Spelled);
        if !is_keyword_name(key) {
            text.push('}');
        }
        text
    });
    written.collect::<Vec<_>>().join(", ")
}

fn is_keyword_name(key: &str) -> bool {
    const RESERVED: [&str; 35] = [
        "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del",
        "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "nonlocal",
        "not", "or", "pass", "raise", "return", "try", "while", "with", "yield",
    ];
    let mut characters = key.chars();
    let starts = characters.next().is_some_and(|c| c == '_' || c.is_alphabetic());
    // Superscripts and fractions are numeric, but not allowed in names.
    starts && characters.all(|c| c == '_' || c.is_alphabetic() || c.is_ascii_digit()) && !RESERVED.contains(&key)
}

/// A text that is not a list of keyword arguments with literal values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadError {
    /// The number of bytes before the mistake.
    pub offset: usize,
    /// What was expected and what was found.
    pub message: String,
}

/// Parses keyword arguments with literal values: strings, numbers, `True`, `False`, `None`, lists,
/// tuples, dicts.
pub fn read(text: &str) -> Result<Object, ReadError> {
    let mut reader = PythonParser { text, at: 0 };
    reader.arguments().map_err(|message| ReadError { offset: reader.at, message })
}

/// Parses a Python number. Valid JSON keeps its spelling. Returns `None` for complex numbers, and
/// for numbers in other bases that exceed 128 bits.
///
/// ```
/// use rolecall_format::codec::python::number;
/// let spelled = |text| number(text).map(|number| number.spelling().to_owned());
/// assert_eq!(spelled("1.50"), Some("1.50".to_owned()));
/// assert_eq!(spelled("+1_000"), Some("1000".to_owned()));
/// assert_eq!(spelled("-.5e3"), Some("-0.5e3".to_owned()));
/// assert_eq!(spelled("0x1f"), Some("31".to_owned()));
/// assert_eq!(spelled("007"), None);
/// ```
pub fn number(spelling: &str) -> Option<Number> {
    let (sign, digits) = match spelling.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", spelling.strip_prefix('+').unwrap_or(spelling)),
    };
    let bytes = digits.as_bytes();
    let radix = match bytes {
        [b'0', b'x' | b'X', ..] => 16,
        [b'0', b'o' | b'O', ..] => 8,
        [b'0', b'b' | b'B', ..] => 2,
        _ => 10,
    };
    // An underscore is allowed only after a digit or the letter of a base, and before a digit.
    let is_digit = |byte: Option<&u8>| byte.is_some_and(|byte| char::from(*byte).is_digit(radix));
    let mut places = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'_').map(|(at, _)| at);
    if !places
        .all(|at| at > 0 && (is_digit(bytes.get(at - 1)) || (radix != 10 && at == 2)) && is_digit(bytes.get(at + 1)))
    {
        return None;
    }
    let digits = digits.replace('_', "");
    if radix != 10 {
        let value = digits.get(2..).filter(|digits| digits.chars().all(|digit| digit.is_digit(radix)))?;
        return Number::from_spelling(&format!("{sign}{}", u128::from_str_radix(value, radix).ok()?));
    }
    let (mantissa, exponent) = digits.split_at(digits.find(['e', 'E']).unwrap_or(digits.len()));
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    let is_integer = fraction.is_none() && exponent.is_empty();
    let short = whole.trim_start_matches('0');
    // `.` and `007` are not numbers, but `007.5` and `000` are.
    if (whole.is_empty() && fraction.unwrap_or_default().is_empty())
        || (is_integer && whole.len() > short.len() && !short.is_empty())
    {
        return None;
    }
    let point = if fraction.is_some() { "." } else { "" };
    let fraction = fraction.map_or("", |fraction| if fraction.is_empty() { "0" } else { fraction });
    let whole = if short.is_empty() { "0" } else { short };
    Number::from_spelling(&format!("{sign}{whole}{point}{fraction}{exponent}"))
}

struct PythonParser<'a> {
    text: &'a str,
    at: usize,
}

impl PythonParser<'_> {
    fn arguments(&mut self) -> Result<Object, String> {
        let mut entries = Vec::new();
        loop {
            self.skip_space();
            if self.at == self.text.len() {
                return Ok(entries.into_iter().collect());
            }
            if self.take("**") {
                self.skip_space();
                match self.value(0)? {
                    Json::Object(object) => {
                        entries.extend(object.iter().map(|(key, value)| (key.to_owned(), value.clone())));
                    }
                    other => return Err(format!("expected a dict after `**`, found {}", other.kind())),
                }
            } else {
                let start = self.at;
                let name = self.word();
                if !is_keyword_name(&name) {
                    self.at = start;
                    return Err(format!("expected a keyword argument, found {}", self.found()));
                }
                self.skip_space();
                if !self.take("=") {
                    return Err(format!("expected `=`, found {}", self.found()));
                }
                self.skip_space();
                entries.push((name, self.value(0)?));
            }
            self.skip_space();
            if self.at < self.text.len() && !self.take(",") {
                return Err(format!("expected `,`, found {}", self.found()));
            }
        }
    }

    fn value(&mut self, depth: usize) -> Result<Json, String> {
        if depth > MAX_DEPTH {
            return Err(format!("the value nests deeper than {MAX_DEPTH} levels"));
        }
        match self.peek() {
            Some('\'' | '"') => self.strings(),
            Some('[') => Ok(Json::Array(self.items("[", "]", depth)?.0)),
            Some('(') => match self.items("(", ")", depth)? {
                // Parentheses around one value, without a comma, are not a tuple.
                (mut items, false) if items.len() == 1 => Ok(items.remove(0)),
                (items, _) => Ok(Json::Array(items)),
            },
            Some('{') => self.dict(depth),
            Some('-' | '+' | '.' | '0'..='9') => self.number(),
            _ => {
                let start = self.at;
                match self.word().as_str() {
                    "None" => Ok(Json::Null),
                    "True" => Ok(Json::Bool(true)),
                    "False" => Ok(Json::Bool(false)),
                    _ => {
                        self.at = start;
                        Err(format!("expected a literal, found {}", self.found()))
                    }
                }
            }
        }
    }

    fn items(&mut self, open: &str, close: &str, depth: usize) -> Result<(Vec<Json>, bool), String> {
        self.take(open);
        let mut items = Vec::new();
        let mut comma = false;
        loop {
            self.skip_space();
            if self.take(close) {
                return Ok((items, comma));
            }
            if !items.is_empty() && !comma {
                return Err(format!("expected `,` or `{close}`, found {}", self.found()));
            }
            items.push(self.value(depth + 1)?);
            self.skip_space();
            comma = self.take(",");
        }
    }

    fn dict(&mut self, depth: usize) -> Result<Json, String> {
        self.take("{");
        let mut entries = Vec::new();
        loop {
            self.skip_space();
            if self.take("}") {
                return Ok(Json::Object(entries.into_iter().collect()));
            }
            let Json::String(key) = self.value(depth + 1)? else {
                return Err("expected a string as the key of a dict".into());
            };
            self.skip_space();
            if !self.take(":") {
                return Err(format!("expected `:`, found {}", self.found()));
            }
            self.skip_space();
            entries.push((key, self.value(depth + 1)?));
            self.skip_space();
            if !self.take(",") && self.peek() != Some('}') {
                return Err(format!("expected `,` or `}}`, found {}", self.found()));
            }
        }
    }

    /// One string or several in a row, which Python joins.
    fn strings(&mut self) -> Result<Json, String> {
        let mut string = String::new();
        while let Some('\'' | '"') = self.peek() {
            self.string(&mut string)?;
            self.skip_space();
        }
        Ok(Json::String(string))
    }

    fn string(&mut self, string: &mut String) -> Result<(), String> {
        let quote = if self.text[self.at..].starts_with('"') { '"' } else { '\'' };
        let triple = quote.to_string().repeat(3);
        let close = if self.take(&triple) { triple } else { quote.to_string() };
        if close.len() == 1 {
            self.at += 1;
        }
        loop {
            if self.take(&close) {
                return Ok(());
            }
            match self.text[self.at..].chars().next() {
                None => return Err(format!("expected `{close}` at the end of the string, found the end of the text")),
                Some('\n') if close.len() == 1 => {
                    return Err(format!("expected `{close}` at the end of the string, found the end of the line"));
                }
                Some('\\') => self.escape(string)?,
                Some(character) => {
                    string.push(character);
                    self.at += character.len_utf8();
                }
            }
        }
    }

    fn escape(&mut self, string: &mut String) -> Result<(), String> {
        self.at += 1;
        let Some(kind) = self.text[self.at..].chars().next() else {
            return Err("expected an escape, found the end of the text".into());
        };
        self.at += kind.len_utf8();
        let simple = match kind {
            '\n' => return Ok(()),
            '\\' | '\'' | '"' => kind,
            'a' => '\u{7}',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            'x' => self.code(2, 16)?,
            'u' => self.code(4, 16)?,
            'U' => self.code(8, 16)?,
            '0'..='7' => {
                self.at -= 1;
                let digits = self.text[self.at..].chars().take(3).take_while(|c| ('0'..='7').contains(c)).count();
                self.code(digits, 8)?
            }
            other => {
                // An unknown escape stays as it is written, as in Python.
                string.push('\\');
                other
            }
        };
        string.push(simple);
        Ok(())
    }

    fn code(&mut self, digits: usize, radix: u32) -> Result<char, String> {
        let read = self.text.get(self.at..self.at + digits).filter(|d| d.bytes().all(|b| (b as char).is_digit(radix)));
        let code = read.and_then(|digits| u32::from_str_radix(digits, radix).ok()).and_then(char::from_u32);
        let code = code.ok_or_else(|| format!("expected {digits} digits of a character code"))?;
        self.at += digits;
        Ok(code)
    }

    fn number(&mut self) -> Result<Json, String> {
        let start = self.at;
        let mut last = ' ';
        let token = self.text[start..].find(|character: char| {
            let is_sign = matches!(character, '+' | '-') && matches!(last, ' ' | 'e' | 'E');
            last = character;
            !(character.is_ascii_alphanumeric() || matches!(character, '.' | '_') || is_sign)
        });
        let spelling = &self.text[start..token.map_or(self.text.len(), |length| start + length)];
        let value = number(spelling).ok_or_else(|| format!("expected a number, found `{spelling}`"))?;
        self.at += spelling.len();
        Ok(Json::Number(value))
    }

    fn word(&mut self) -> String {
        let rest = &self.text[self.at..];
        let end = rest.find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(rest.len());
        self.at += end;
        rest[..end].to_owned()
    }

    fn skip_space(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn take(&mut self, expected: &str) -> bool {
        let found = self.text[self.at..].starts_with(expected);
        self.at += if found { expected.len() } else { 0 };
        found
    }

    fn found(&self) -> String {
        self.peek().map_or_else(|| "the end of the text".into(), |character| format!("`{character}`"))
    }
}

#[cfg(test)]
mod tests {
    use rolecall_conversation::json::{self, Layout};

    use super::*;

    fn object(text: &str) -> Object {
        match json::parse(text).unwrap() {
            Json::Object(object) => object,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn values_are_printed_as_python_prints_them() {
        let cases = [
            (r#"{"location":"beijing","unit":"celsius"}"#, "location='beijing', unit='celsius'"),
            (r#"{"a":null,"b":true,"c":false,"d":1.50,"e":-1e5}"#, "a=None, b=True, c=False, d=1.50, e=-1e5"),
            (r#"{"a":[1,[],{}],"b":{"k":"v"}}"#, "a=[1, [], {}], b={'k': 'v'}"),
            (r#"{"a":"it's","b":"say \"x\"","c":"'\""}"#, "a=\"it's\", b='say \"x\"', c='\\'\"'"),
            (
                r#"{"a":"\\ \n\t\r\u0000\u007f\u00a0\u200b\u3000é上😀e\u0301"}"#,
                "a='\\\\ \\n\\t\\r\\x00\\x7f\\xa0\\u200b\\u3000é上😀e\u{301}'",
            ),
            (r#"{"a-b":1,"class":2,"c":3}"#, "**{'a-b': 1}, **{'class': 2}, c=3"),
            ("{}", ""),
        ];
        for (value, printed) in cases {
            assert_eq!(print(&object(value)), printed);
            assert_eq!(read(printed).unwrap(), object(value), "{printed}");
        }
    }

    #[test]
    fn literals_are_read_as_python_reads_them() {
        let cases = [
            (
                r#"a="x" 'y', b='''l1
l2''', c=(1,), d=(2), e=(1, 2,), f=[1,], g=.5, h=5., i=1_000, j=+3, k=-0.5e-3, l=0x_1f"#,
                r#"{"a": "xy", "b": "l1\nl2", "c": [1], "d": 2, "e": [1, 2], "f": [1], "g": 0.5, "h": 5.0, "i": 1000, "j": 3, "k": -0.5e-3, "l": 31}"#,
            ),
            (
                r#"a='\x41\u00e9\U0001F600\101\q\
b'"#,
                r#"{"a": "Aé😀A\\qb"}"#,
            ),
            (" a = { 'k' : [ True , None ] , } ", r#"{"a": {"k": [true, null]}}"#),
        ];
        for (text, value) in cases {
            assert_eq!(json::write(&read(text).unwrap().into(), &Layout::default()), value);
        }
    }

    #[test]
    fn what_is_not_a_literal_is_refused_with_its_place() {
        let cases = [
            ("a=1+1", 3, "expected `,`, found `+`"),
            ("a=f(1)", 2, "expected a literal, found `f`"),
            ("1", 0, "expected a keyword argument, found `1`"),
            ("a", 1, "expected `=`, found the end of the text"),
            ("a='x", 4, "expected `'` at the end of the string, found the end of the text"),
            ("a='x\n'", 4, "expected `'` at the end of the string, found the end of the line"),
            ("a=[1 2]", 5, "expected `,` or `]`, found `2`"),
            ("a=1.2.3", 2, "expected a number, found `1.2.3`"),
            ("a=1__0", 2, "expected a number, found `1__0`"),
            ("a=1._5", 2, "expected a number, found `1._5`"),
            ("a=0_", 2, "expected a number, found `0_`"),
            ("a=0x1__f", 2, "expected a number, found `0x1__f`"),
            ("a=2j", 2, "expected a number, found `2j`"),
            ("a={1: 2}", 4, "expected a string as the key of a dict"),
        ];
        for (text, offset, message) in cases {
            let error = read(text).unwrap_err();
            assert_eq!((error.offset, error.message.as_str()), (offset, message), "{text}");
        }
        assert!(read(&format!("a={}", "[".repeat(100_000))).unwrap_err().message.contains("deeper"));
    }
}
