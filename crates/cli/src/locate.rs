//! Finds a field of a conversation in its JSON source, so that a caret can point at it.

use std::ops::Range;

use rolecall::conversation::Place;
use rolecall::conversation::json::{Step, span};

/// Returns the span of a field in the text, or of the nearest enclosing value that exists. The text
/// must be JSON.
pub fn locate(text: &str, place: &Place) -> Option<Range<usize>> {
    let top = span(text, &[])?;
    let mut path = Vec::new();
    if let Some(index) = place.message {
        // The list of messages may be the whole input, or the value of a session's step.
        if text.as_bytes().get(top.start) == Some(&b'{') {
            let has = |key: &&str| span(&text[top.clone()], &[Step::Key(key)]).is_some();
            path.push(Step::Key(["append", "plan"].into_iter().find(has).unwrap_or("messages")));
        }
        path.push(Step::Index(index));
    }
    let mut rest = steps(&place.field);
    if path.is_empty() && text.as_bytes().get(top.start) == Some(&b'[') && rest.first() == Some(&Step::Key("messages"))
    {
        rest.remove(0);
    }
    if path.is_empty() && rest.is_empty() {
        return None;
    }
    path.extend(rest);
    let mut found = top.clone();
    let mut path = path.into_iter();
    while let Some(step) = path.next() {
        let child = |step| Some(offset(span(&text[found.clone()], &[step])?, found.start));
        let inner = child(step).or_else(|| match step {
            // OpenAI's legacy `function_call` is read as a single tool call, without the wrapper
            // object.
            Step::Key("tool_calls") => {
                let call = child(Step::Key("function_call"))?;
                path.nth(1);
                Some(call)
            }
            Step::Key("tools") => child(Step::Key("functions")),
            _ => None,
        });
        match inner {
            Some(inner) => found = inner,
            None => break,
        }
    }
    (found != top).then_some(found)
}

fn offset(span: Range<usize>, by: usize) -> Range<usize> {
    span.start + by..span.end + by
}

/// Splits a path such as `tool_calls[0].function.arguments` into steps.
fn steps(field: &str) -> Vec<Step<'_>> {
    let mut steps = Vec::new();
    for name in field.split('.').filter(|name| !name.is_empty()) {
        let (key, indices) = name.split_once('[').unwrap_or((name, ""));
        steps.push(Step::Key(key));
        steps.extend(indices.split(['[', ']']).filter_map(|index| index.parse().ok()).map(Step::Index));
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_or_what_is_around_it() {
        let text = r#" {"a": [1, "]}\""], "messages": [{"role": "user"}, {"content": [{"x": 1}, {"type": 5}], "role": "bot"}]}"#;
        let cases = [
            (Place::message(1, "role"), Some("\"bot\"")),
            (Place::message(1, "content[1].type"), Some("5")),
            (Place::message(1, "content[1].text"), Some("{\"type\": 5}")),
            (Place::message(0, ""), Some("{\"role\": \"user\"}")),
            (
                Place::message(7, "role"),
                Some("[{\"role\": \"user\"}, {\"content\": [{\"x\": 1}, {\"type\": 5}], \"role\": \"bot\"}]"),
            ),
            (Place::field("a[1]"), Some("\"]}\\\"\"")),
            (Place::field("tools"), None),
            (Place::field(""), None),
        ];
        for (place, found) in cases {
            assert_eq!(locate(text, &place).map(|span| &text[span]), found, "{place}");
        }
        assert_eq!(locate("[{\"role\": 1}]", &Place::message(0, "role")), Some(10..11));
        assert_eq!(locate("{", &Place::message(0, "role")), None);
    }
}
