use std::fmt::Write;

use super::{Json, Object, plain_run};

/// The layout of JSON text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The number of spaces per level, with each item on its own line, or `None` for a single line.
    pub indent: Option<usize>,
    /// The separator between items.
    pub item_separator: &'static str,
    /// The separator between a key and its value.
    pub key_separator: &'static str,
    /// Whether non-ASCII characters are escaped.
    pub ascii: bool,
}

impl Default for Layout {
    /// As Python's `json.dumps(value, ensure_ascii=False)`.
    fn default() -> Layout {
        Layout { indent: None, item_separator: ", ", key_separator: ": ", ascii: false }
    }
}

impl Layout {
    /// Returns the layout without any white space.
    pub fn compact() -> Layout {
        Layout { item_separator: ",", key_separator: ":", ..Layout::default() }
    }

    /// Returns the layout of Python's `json.dumps(value, ensure_ascii=False, indent=spaces)`.
    pub fn indented(spaces: usize) -> Layout {
        Layout { indent: Some(spaces), item_separator: ",", ..Layout::default() }
    }
}

/// Returns the value as text.
pub fn write(value: &Json, layout: &Layout) -> String {
    write_at(value, layout, 0)
}

/// Returns the value as text, indented as if it were `level` levels deep.
pub fn write_at(value: &Json, layout: &Layout, level: usize) -> String {
    let mut text = String::new();
    value_into(&mut text, value, layout, level);
    text
}

/// Returns the number of bytes of line breaks and indentation in the indented text of a value.
///
/// For deeply nested arrays this can be most of the text.
///
/// ```
/// use rolecall_conversation::json::{Layout, indentation, parse, write, write_at};
/// let value = parse(r#"[[1, 2], {"a": []}]"#)?;
/// let (indented, plain) = (write_at(&value, &Layout::indented(4), 1), write(&value, &Layout::default()));
/// // The plain text has a space after each comma; the other text has a line break there.
/// assert_eq!(indentation(&value, &Layout::indented(4), 1), indented.len() - plain.len() + 2);
/// # Ok::<(), rolecall_conversation::json::ParseError>(())
/// ```
pub fn indentation(value: &Json, layout: &Layout, level: usize) -> usize {
    let Some(spaces) = layout.indent else { return 0 };
    // One line for each item, and one for the closing bracket.
    let lines = |count: usize| count * (1 + spaces * (level + 1)) + 1 + spaces * level;
    match value {
        Json::Array(items) if !items.is_empty() => {
            lines(items.len()) + items.iter().map(|item| indentation(item, layout, level + 1)).sum::<usize>()
        }
        Json::Object(object) if !object.is_empty() => {
            let inner = object.iter().map(|(_, item)| indentation(item, layout, level + 1));
            lines(object.len()) + inner.sum::<usize>()
        }
        _ => 0,
    }
}

/// Appends the text of a value to a string.
///
/// ```
/// use rolecall_conversation::json::{Layout, parse, write_into};
/// let mut text = String::from("id: ");
/// write_into(&mut text, &parse("[1, 2]")?, &Layout::compact());
/// assert_eq!(text, "id: [1,2]");
/// # Ok::<(), rolecall_conversation::json::ParseError>(())
/// ```
pub fn write_into(text: &mut String, value: &Json, layout: &Layout) {
    value_into(text, value, layout, 0);
}

/// Appends the text of an object to a string, as [`write_into`] does for a value.
pub fn write_object_into(text: &mut String, object: &Object, layout: &Layout) {
    object_into(text, object, layout, 0);
}

/// Appends a string in quotes, escaped as in Python's `json.dumps`.
pub fn write_string(text: &mut String, string: &str, ascii: bool) {
    text.push('"');
    escape_into(text, string, ascii);
    text.push('"');
}

/// Appends the escaped contents of a string, without quotes. A long string can be written piece by
/// piece.
///
/// ```
/// use rolecall_conversation::json::escape_into;
/// let mut text = String::new();
/// escape_into(&mut text, "a \"b\"\n", false);
/// assert_eq!(text, r#"a \"b\"\n"#);
/// ```
pub fn escape_into(text: &mut String, string: &str, ascii: bool) {
    let mut rest = string;
    // Runs of characters that need no escape are copied at once.
    loop {
        let mut at = plain_run(rest.as_bytes());
        if ascii {
            at = rest.as_bytes()[..at].iter().position(|byte| *byte >= 0x7f).unwrap_or(at);
        }
        let (plain, special) = rest.split_at(at);
        text.push_str(plain);
        let Some(character) = special.chars().next() else { break };
        rest = &special[character.len_utf8()..];
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '\u{8}' => text.push_str("\\b"),
            '\u{c}' => text.push_str("\\f"),
            c if (c as u32) < 0x20 || (ascii && !(' '..='~').contains(&c)) => {
                let mut units = [0; 2];
                for unit in c.encode_utf16(&mut units) {
                    let _ = write!(text, "\\u{unit:04x}");
                }
            }
            c => text.push(c),
        }
    }
}

fn value_into(text: &mut String, value: &Json, layout: &Layout, level: usize) {
    match value {
        Json::Null => text.push_str("null"),
        Json::Bool(true) => text.push_str("true"),
        Json::Bool(false) => text.push_str("false"),
        Json::Number(number) => text.push_str(number.spelling()),
        Json::String(string) => write_string(text, string, layout.ascii),
        Json::Array(items) if items.is_empty() => text.push_str("[]"),
        Json::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                separate(text, layout, level + 1, index > 0);
                value_into(text, item, layout, level + 1);
            }
            close(text, layout, level, ']');
        }
        Json::Object(object) => object_into(text, object, layout, level),
    }
}

fn object_into(text: &mut String, object: &Object, layout: &Layout, level: usize) {
    if object.is_empty() {
        return text.push_str("{}");
    }
    text.push('{');
    for (index, (key, item)) in object.iter().enumerate() {
        separate(text, layout, level + 1, index > 0);
        write_string(text, key, layout.ascii);
        text.push_str(layout.key_separator);
        value_into(text, item, layout, level + 1);
    }
    close(text, layout, level, '}');
}

fn separate(text: &mut String, layout: &Layout, level: usize, between: bool) {
    if between {
        text.push_str(layout.item_separator);
    }
    break_line(text, layout, level);
}

fn close(text: &mut String, layout: &Layout, level: usize, bracket: char) {
    break_line(text, layout, level);
    text.push(bracket);
}

fn break_line(text: &mut String, layout: &Layout, level: usize) {
    if let Some(spaces) = layout.indent {
        text.push('\n');
        text.extend(std::iter::repeat_n(' ', spaces * level));
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    #[test]
    fn layouts_are_pythons() {
        let value = parse(r#"{"b":[1,2],"a":{},"c":[],"é":"\u0001\t\"/é😀"}"#).unwrap();
        assert_eq!(
            write(&value, &Layout::default()),
            "{\"b\": [1, 2], \"a\": {}, \"c\": [], \"é\": \"\\u0001\\t\\\"/é😀\"}"
        );
        assert_eq!(
            write(&value, &Layout::indented(4)),
            "{\n    \"b\": [\n        1,\n        2\n    ],\n    \"a\": {},\n    \"c\": [],\n    \"é\": \"\\u0001\\t\\\"/é😀\"\n}"
        );
        let ascii = Layout { ascii: true, ..Layout::compact() };
        assert_eq!(
            write(&value, &ascii),
            "{\"b\":[1,2],\"a\":{},\"c\":[],\"\\u00e9\":\"\\u0001\\t\\\"/\\u00e9\\ud83d\\ude00\"}"
        );
    }
}
