//! Values as Python prints them: `str` of a string, `repr` of any other value: `True`, `None`,
//! `1e+16`, `{'k': [1]}`.

use std::borrow::Cow;

use rolecall_conversation::Json;

use super::value::{AsJson, PrintedValue, Spelling, ValueSyntax, Write};
use super::{JsonStyle, number};

/// The form of the numbers in a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// As spelled in the input.
    Spelled,
    /// As Python prints their values.
    Python,
}

/// Returns Python's `str` of a value.
pub fn print(value: &Json) -> Cow<'_, str> {
    match value {
        Json::String(text) => Cow::Borrowed(text),
        other => Cow::Owned(repr(other)),
    }
}

/// Returns Python's `repr` of a value.
pub fn repr(value: &Json) -> String {
    let mut text = String::new();
    write_repr(&mut text, value, Numbers::Python);
    text
}

/// A value as Python's `str` prints it: strings unquoted, other values as Python literals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Literal;

impl ValueSyntax for Literal {
    fn spelling(&self) -> Spelling<'_> {
        Spelling::Text(AsJson::Nothing)
    }

    fn print(&self, value: &Json, write: Write<'_>) {
        write(PrintedValue::Value(&print(value)));
    }
}

/// Lists and objects as JSON; any other value as [`Literal`] prints it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mixed;

impl ValueSyntax for Mixed {
    fn spelling(&self) -> Spelling<'_> {
        Spelling::Text(AsJson::Containers)
    }

    fn print(&self, value: &Json, write: Write<'_>) {
        match value {
            Json::Array(_) | Json::Object(_) => write(PrintedValue::Value(&JsonStyle::PLAIN.print(value))),
            other => write(PrintedValue::Value(&print(other))),
        }
    }
}

/// Objects as JSON; any other value as [`Literal`] prints it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Objects;

impl ValueSyntax for Objects {
    fn spelling(&self) -> Spelling<'_> {
        Spelling::Text(AsJson::Objects)
    }

    fn print(&self, value: &Json, write: Write<'_>) {
        match value {
            Json::Object(_) => write(PrintedValue::Value(&JsonStyle::PLAIN.print(value))),
            other => write(PrintedValue::Value(&print(other))),
        }
    }
}

/// Appends Python's `repr` of a value to a text.
pub(super) fn write_repr(text: &mut String, value: &Json, numbers: Numbers) {
    match value {
        Json::Null => text.push_str("None"),
        Json::Bool(true) => text.push_str("True"),
        Json::Bool(false) => text.push_str("False"),
        Json::Number(value) => match numbers {
            Numbers::Spelled => text.push_str(value.spelling()),
            Numbers::Python => text.push_str(&number::print(value)),
        },
        Json::String(string) => text.push_str(&quote(string)),
        Json::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                text.push_str(if index > 0 { ", " } else { "" });
                write_repr(text, item, numbers);
            }
            text.push(']');
        }
        Json::Object(object) => {
            text.push('{');
            for (index, (key, item)) in object.iter().enumerate() {
                text.push_str(if index > 0 { ", " } else { "" });
                text.push_str(&quote(key));
                text.push_str(": ");
                write_repr(text, item, numbers);
            }
            text.push('}');
        }
    }
}

/// Returns Python's `repr` of a string.
pub(super) fn quote(string: &str) -> String {
    let quote = if string.contains('\'') && !string.contains('"') { '"' } else { '\'' };
    let mut text = String::from(quote);
    for character in string.chars() {
        match character {
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            c if c == quote => text.extend(['\\', c]),
            c if is_printable(c) => text.push(c),
            c if (c as u32) < 0x100 => text.push_str(&format!("\\x{:02x}", c as u32)),
            c if (c as u32) < 0x10000 => text.push_str(&format!("\\u{:04x}", c as u32)),
            c => text.push_str(&format!("\\U{:08x}", c as u32)),
        }
    }
    text.push(quote);
    text
}

/// Returns Python's `str.isprintable` for one character.
fn is_printable(character: char) -> bool {
    if character.is_ascii() {
        return !character.is_ascii_control();
    }
    // Rust derives the table of characters that `escape_debug` leaves unescaped from the same rule
    // as Python. After another character, the separate rule for combining marks does not apply.
    let mut pair = String::from("a");
    pair.push(character);
    pair.escape_debug().nth(1) == Some(character)
}

#[cfg(test)]
mod tests {
    use rolecall_conversation::json;

    use super::*;

    /// What Python 3.12 prints: `print(json.loads(text))`.
    #[test]
    fn values_are_printed_as_python_prints_them() {
        let cases = [
            ("null", "None"),
            ("true", "True"),
            ("-0", "0"),
            ("1.50", "1.5"),
            ("1E5", "100000.0"),
            ("1e16", "1e+16"),
            ("123456789012345678901234567890", "123456789012345678901234567890"),
            (r#""it's\n""#, "it's\n"),
            (r#"["it's", "a\"b", "'\"", "\u0000é\u200b😀"]"#, r#"["it's", 'a"b', '\'"', '\x00é\u200b😀']"#),
            (r#"{"k": [1.0, {"n": null}], "l": []}"#, "{'k': [1.0, {'n': None}], 'l': []}"),
            ("{}", "{}"),
        ];
        for (value, printed) in cases {
            let value = json::parse(value).unwrap();
            assert_eq!(print(&value), printed);
        }
    }

    #[test]
    fn lists_and_objects_are_json_where_both_are_mixed() {
        let cases = [("true", "True"), (r#""a""#, "a"), (r#"[true,"a"]"#, r#"[true, "a"]"#), ("{}", "{}")];
        for (value, printed) in cases {
            assert_eq!(Mixed.printed(&json::parse(value).unwrap()), printed);
        }
    }

    #[test]
    fn objects_alone_are_json_where_they_alone_are_said() {
        let cases = [
            (r#"[true,{"a":null}]"#, "[True, {'a': None}]"),
            (r#"{"a":[true]}"#, r#"{"a": [true]}"#),
            ("1e16", "1e+16"),
        ];
        for (value, printed) in cases {
            assert_eq!(Objects.printed(&json::parse(value).unwrap()), printed);
        }
    }
}
