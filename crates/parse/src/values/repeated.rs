use std::collections::HashSet;
use std::mem;

use rolecall_conversation::{Json, json};

/// The search for a key that an object has twice, in the JSON text of a call's arguments as it is emitted. Readers of
/// JSON take one of the two values without a word.
#[derive(Clone, Debug, Default)]
pub(crate) struct RepeatedKey {
    depth: usize,
    /// Whether the outermost value is an object.
    is_object: bool,
    at: RepeatedState,
    key: String,
    keys: HashSet<String>,
    found: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum RepeatedState {
    /// Before a key or behind a value.
    #[default]
    Between,
    /// In a key of the outermost object, which may end here.
    Key,
    /// Behind a backslash in a key.
    KeyEscape,
    /// Behind a key or in its value.
    Value,
    /// In a string of a value.
    Text,
    /// Behind a backslash in one.
    TextEscape,
}

impl RepeatedKey {
    /// Reads the next piece.
    pub fn push(&mut self, piece: &str) {
        let bytes = piece.as_bytes();
        let mut at = 0;
        while let Some(byte) = bytes.get(at) {
            let state = self.at;
            self.at = match (state, byte) {
                (RepeatedState::Between, b'"') if self.depth == 1 && self.is_object => RepeatedState::Key,
                (RepeatedState::Between | RepeatedState::Value, b'"') => RepeatedState::Text,
                (RepeatedState::Between | RepeatedState::Value, b'{' | b'[') => {
                    self.depth += 1;
                    self.is_object |= self.depth == 1 && *byte == b'{';
                    if self.depth == 1 { RepeatedState::Between } else { RepeatedState::Value }
                }
                (RepeatedState::Between | RepeatedState::Value, b'}' | b']') => {
                    self.depth = self.depth.saturating_sub(1);
                    RepeatedState::Value
                }
                (RepeatedState::Value, b',') if self.depth == 1 => RepeatedState::Between,
                (RepeatedState::Key, b'"') => {
                    self.end_key();
                    RepeatedState::Value
                }
                (RepeatedState::Key, b'\\') => RepeatedState::KeyEscape,
                (RepeatedState::KeyEscape, _) => RepeatedState::Key,
                (RepeatedState::Text, b'"') => RepeatedState::Value,
                (RepeatedState::Text, b'\\') => RepeatedState::TextEscape,
                (RepeatedState::TextEscape, _) => RepeatedState::Text,
                (state, _) => state,
            };
            let from = at;
            at += 1;
            // Whatever ends a text or a key is ASCII.
            if matches!(self.at, RepeatedState::Text | RepeatedState::Key) {
                at += bytes[at..].iter().position(|byte| matches!(byte, b'"' | b'\\')).unwrap_or(bytes.len() - at);
            }
            match (state, self.at) {
                (RepeatedState::Between, RepeatedState::Key) => self.key.push_str(&piece[from + 1..at]),
                (RepeatedState::Key | RepeatedState::KeyEscape, RepeatedState::Key | RepeatedState::KeyEscape) => {
                    self.key.push_str(&piece[from..at])
                }
                _ => {}
            }
        }
    }

    fn end_key(&mut self) {
        let mut key = mem::take(&mut self.key);
        // A key is the same however it is escaped.
        if key.contains('\\')
            && let Ok(Json::String(meant)) = json::parse(&format!("\"{key}\""))
        {
            key = meant;
        }
        if self.found.is_none() && self.keys.contains(&key) {
            self.found = Some(key);
        } else {
            self.keys.insert(key);
        }
    }

    /// Returns the first key that came twice.
    pub fn found(&self) -> Option<&str> {
        self.found.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::RepeatedKey;

    #[test]
    fn a_key_is_found_twice_only_in_the_outermost_object_however_the_text_is_cut() {
        for (text, found) in [
            (r#"{"a": 1, "b": 2, "a": 3}"#, Some("a")),
            (r#"{"é\"": [1, {"a": 2}], "é\"": 3}"#, Some("é\"")),
            (r#"{"city": 1, "\u0063ity": 2}"#, Some("city")),
            (r#"{"\ud800": 1, "\ud800": 2}"#, Some(r"\ud800")),
            (r#"{"": "a", "": "b"}"#, Some("")),
            (r#"{"a": {"b": 1, "b": 2}, "b": ["a", "a"], "c": "a\", \"a\": "}"#, None),
            (r#"{"a": "b", "b": "a", "c": "\\"}"#, None),
            (r#"[{"a": 1}, {"a": 1}]"#, None),
            (r#"["a", "a"]"#, None),
        ] {
            for cut in (0..=text.len()).filter(|cut| text.is_char_boundary(*cut)) {
                let mut keys = RepeatedKey::default();
                keys.push(&text[..cut]);
                keys.push(&text[cut..]);
                assert_eq!(keys.found(), found, "{text} cut at {cut}");
            }
        }
    }
}
