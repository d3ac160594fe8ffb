//! Finds a field of a conversation in the JSON text that it was read from, so that a caret can point at it.

use std::ops::Range;

use rolecall::Place;

/// Where a place stands in the text, or the nearest thing around it that is there. The text must be JSON.
pub fn locate(text: &str, place: &Place) -> Option<Range<usize>> {
    let scan = Scan { text };
    let top = scan.value_at(scan.skip_space(0))?;
    let mut path = Vec::new();
    if let Some(index) = place.message {
        // The list of messages may be the whole input.
        if text.as_bytes().get(top.start) == Some(&b'{') {
            path.push(Step::Key("messages"));
        }
        path.push(Step::Index(index));
    }
    let rest = steps(&place.field);
    if path.is_empty() && rest.is_empty() {
        return None;
    }
    path.extend(rest);
    let mut found = top.clone();
    let mut path = path.into_iter();
    while let Some(step) = path.next() {
        let inner = scan.child(&found, &step).or_else(|| match step {
            // OpenAI's first function calling is read as today's: one call, without the wrapper.
            Step::Key("tool_calls") => {
                let call = scan.child(&found, &Step::Key("function_call"))?;
                path.nth(1);
                Some(call)
            }
            Step::Key("tools") => scan.child(&found, &Step::Key("functions")),
            _ => None,
        });
        match inner {
            Some(inner) => found = inner,
            None => break,
        }
    }
    (found != top).then_some(found)
}

enum Step<'a> {
    Key(&'a str),
    Index(usize),
}

/// `tool_calls[0].function.arguments` as steps.
fn steps(field: &str) -> Vec<Step<'_>> {
    let mut steps = Vec::new();
    for name in field.split('.').filter(|name| !name.is_empty()) {
        let (key, indices) = name.split_once('[').unwrap_or((name, ""));
        steps.push(Step::Key(key));
        steps.extend(indices.split(['[', ']']).filter_map(|index| index.parse().ok()).map(Step::Index));
    }
    steps
}

struct Scan<'a> {
    text: &'a str,
}

impl Scan<'_> {
    /// The value of a key, or the item of an index, inside a value. Of a key that comes twice, the last counts.
    fn child(&self, parent: &Range<usize>, step: &Step<'_>) -> Option<Range<usize>> {
        let bytes = self.text.as_bytes();
        let open = *bytes.get(parent.start)?;
        let mut at = self.skip_space(parent.start + 1);
        let mut found = None;
        let mut index = 0;
        while at < parent.end && !matches!(bytes[at], b']' | b'}') {
            let first = self.value_at(at)?;
            at = self.skip_space(first.end);
            match (open, step) {
                (b'[', Step::Index(wanted)) if *wanted == index => return Some(first),
                (b'[', _) => {}
                (b'{', _) => {
                    let value = self.value_at(self.skip_space(at + 1))?;
                    at = self.skip_space(value.end);
                    if matches!(step, Step::Key(key) if self.text[first.clone()].trim_matches('"') == *key) {
                        found = Some(value);
                    }
                }
                _ => return None,
            }
            index += 1;
            if bytes.get(at) == Some(&b',') {
                at = self.skip_space(at + 1);
            }
        }
        found
    }

    /// The value that begins here, without a look at what is in it.
    fn value_at(&self, start: usize) -> Option<Range<usize>> {
        let bytes = self.text.as_bytes();
        let mut depth = 0usize;
        let mut at = start;
        loop {
            match *bytes.get(at)? {
                b'"' => at = self.string_end(at)?,
                b'{' | b'[' => {
                    depth += 1;
                    at += 1;
                }
                b'}' | b']' => {
                    depth = depth.checked_sub(1)?;
                    at += 1;
                }
                _ if depth == 0 => {
                    let word = bytes[at..].iter().take_while(|byte| !b" \t\r\n,:]}".contains(byte)).count();
                    return (word > 0).then_some(start..at + word);
                }
                _ => at += 1,
            }
            if depth == 0 {
                return Some(start..at);
            }
        }
    }

    fn string_end(&self, start: usize) -> Option<usize> {
        let bytes = self.text.as_bytes();
        let mut at = start + 1;
        loop {
            match *bytes.get(at)? {
                b'"' => return Some(at + 1),
                b'\\' => at += 2,
                _ => at += 1,
            }
        }
    }

    fn skip_space(&self, at: usize) -> usize {
        let rest = self.text.as_bytes().get(at..).unwrap_or_default();
        at + rest.iter().take_while(|byte| b" \t\r\n".contains(byte)).count()
    }
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
