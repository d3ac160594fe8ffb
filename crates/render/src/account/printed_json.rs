//! Values that a text has as JSON, in any layout.

use rolecall_conversation::Json;
use rolecall_conversation::json::Object;

/// Returns the text after an object at the start of a text that has all of it as JSON, in the same order, and the
/// number of its leaves that say something.
pub(super) fn object_at<'t>(text: &'t str, object: &Object) -> Option<(&'t str, usize)> {
    let (mut rest, mut count) = (after(text, "{")?, 0);
    for (at, (key, value)) in object.iter().enumerate() {
        if at > 0 {
            rest = after(rest, ",")?;
        }
        rest = after(string_at(rest, key)?, ":")?;
        let inner;
        (rest, inner) = value_at(rest, value)?;
        count += inner;
    }
    Some((after(rest, "}")?, count))
}

fn value_at<'t>(text: &'t str, value: &Json) -> Option<(&'t str, usize)> {
    match value {
        Json::Null => Some((after(text, "null")?, 1)),
        Json::Bool(true) => Some((after(text, "true")?, 1)),
        Json::Bool(false) => Some((after(text, "false")?, 1)),
        Json::Number(number) => Some((after(text, number.spelling())?, 1)),
        Json::String(string) => Some((string_at(text, string)?, usize::from(!string.trim().is_empty()))),
        Json::Object(object) => object_at(text, object),
        Json::Array(items) => {
            let (mut rest, mut count) = (after(text, "[")?, 0);
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    rest = after(rest, ",")?;
                }
                let inner;
                (rest, inner) = value_at(rest, item)?;
                count += inner;
            }
            Some((after(rest, "]")?, count))
        }
    }
}

/// Returns the text after a string in quotes that is written as it is.
fn string_at<'t>(text: &'t str, string: &str) -> Option<&'t str> {
    after(text, "\"")?.strip_prefix(string)?.strip_prefix('"')
}

/// Returns the text after a token and the white space before it.
fn after<'t>(text: &'t str, token: &str) -> Option<&'t str> {
    text.strip_prefix(token).or_else(|| text.trim_ascii_start().strip_prefix(token))
}

#[cfg(test)]
mod tests {
    use rolecall_conversation::json::{self, Layout};

    use super::*;

    #[test]
    fn an_object_is_found_in_each_layout_and_not_when_anything_differs() {
        let value = json::parse(r#"{"a": {"b": [1, true, null, " ", "x y"], "c": {}}, "d": [], "e": "é"}"#).unwrap();
        let object = value.as_object().unwrap();
        for layout in [Layout::default(), Layout::compact(), Layout::indented(2)] {
            let text = json::write(&value, &layout) + " behind";
            assert_eq!(object_at(&text, object), Some((" behind", 5)), "{text}");
            let end = text.len() - " behind".len();
            for (at, c) in text[..end].char_indices().filter(|(_, c)| !c.is_whitespace()) {
                let mut broken = text.clone();
                broken.replace_range(at..at + c.len_utf8(), "~");
                assert_eq!(object_at(&broken, object), None, "{broken}");
            }
        }
    }
}
