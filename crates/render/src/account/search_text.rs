//! A printed text in which the values of a request are looked for, mostly in their order.

use std::borrow::Cow;
use std::cell::Cell;

use rolecall_conversation::Json;
use rolecall_conversation::json::{self, Object};
use rolecall_format::codec::{attribute, literal};

use super::printed_json;

/// How many times its own length is searched in a text at most, so that a request of any shape costs what it is
/// large. What is looked for after that is not found.
const MOST_SEARCHES: usize = 64;

/// The bytes that may be searched in a text of any length.
const SMALL: usize = 1 << 16;

/// The bytes after the last value that are looked at first.
const NEAR: usize = 48;

/// A text in which others are looked for.
pub(super) struct SearchText<'p> {
    text: Cow<'p, str>,
    /// Where the last one that was found ends. The next one mostly follows it.
    from: Cell<usize>,
    /// The bytes that may still be searched.
    left: Cell<usize>,
}

impl<'p> SearchText<'p> {
    pub fn new(text: Cow<'p, str>) -> SearchText<'p> {
        let left = text.len().saturating_mul(MOST_SEARCHES).saturating_add(SMALL);
        SearchText { text, from: Cell::new(0), left: Cell::new(left) }
    }

    /// Reports whether it has a text, in one of the spellings of formats, or each of its lines.
    pub fn has(&self, text: &str) -> bool {
        let text = text.trim();
        self.has_line(text) || text.contains('\n') && text.lines().all(|line| self.has_line(line.trim()))
    }

    /// Reports whether it has a number or a word.
    pub fn has_scalar(&self, leaf: &Json) -> bool {
        let spellings: &[&str] = match leaf {
            Json::Bool(true) => &["true", "True"],
            Json::Bool(false) => &["false", "False"],
            Json::Null => &["null", "None"],
            Json::Number(number) => &[number.spelling()],
            _ => &[],
        };
        spellings.iter().any(|spelling| self.contains(spelling))
    }

    /// Reports whether it has the keys of a path in quotation marks, as JSON and Python have keys. What it has of a
    /// value without its keys is something else that is spelled in the same way.
    pub fn has_keys<'k>(&self, mut keys: impl Iterator<Item = &'k str>) -> bool {
        keys.all(|key| {
            let key = key.split_once('[').map_or(key, |(key, _)| key);
            // Others may be escaped.
            let is_plain = key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
            !is_plain || ['"', '\''].iter().any(|quote| self.contains(&format!("{key}{quote}")))
        })
    }

    /// Returns the number of leaves of an object that it has as JSON, in the order of the request. One of another
    /// layout, order or spelling is looked for leaf by leaf.
    pub fn has_object(&self, object: &Object) -> Option<usize> {
        let from = self.from.get();
        let near = &self.text.as_bytes()[from..self.text.len().min(from + NEAR)];
        let start = from + near.iter().position(|byte| *byte == b'{')?;
        let (rest, count) = printed_json::object_at(&self.text[start..], object)?;
        self.from.set(self.text.len() - rest.len());
        Some(count)
    }

    fn has_line(&self, text: &str) -> bool {
        if self.contains(text) {
            return true;
        }
        // Words have the same spelling everywhere.
        if text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b" ._-:,".contains(&byte)) {
            return false;
        }
        let quoted = |is_ascii| {
            let mut quoted = String::with_capacity(text.len() + 2);
            json::write_string(&mut quoted, text, is_ascii);
            quoted
        };
        let has_other = |spelling: &str| spelling != text && self.contains(spelling);
        let within = |quoted: &str| has_other(&quoted[1..quoted.len() - 1]);
        within(&quoted(false))
            || !text.is_ascii() && within(&quoted(true))
            || has_other(&attribute::escape(text))
            || within(&literal::repr(&Json::from(text)))
    }

    fn contains(&self, part: &str) -> bool {
        let from = self.from.get();
        self.find(from, part) || from > 0 && self.find(0, part)
    }

    fn find(&self, from: usize, part: &str) -> bool {
        let (rest, left) = (&self.text[from..], self.left.get());
        if left == 0 {
            return false;
        }
        // Between two values there is mostly only a key. Setting up a search takes longer than to compare so few.
        let (bytes, first) = (rest.as_bytes(), part.as_bytes().first());
        let is_at = |at: &usize| bytes.get(*at) == first && bytes[*at..].starts_with(part.as_bytes());
        let near = (0..NEAR.min(bytes.len())).find(is_at);
        let end = near.or_else(|| rest.find(part)).map(|at| at + part.len());
        self.left.set(left.saturating_sub(end.unwrap_or(rest.len()) + 1));
        if let Some(end) = end {
            self.from.set(from + end);
        }
        end.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::SearchText;

    #[test]
    fn values_are_found_in_any_order_and_spelling() {
        let searched = SearchText::new(r#"{"a": "x\ny", "b": "\u00e9", "c": 1}"#.into());
        for text in ["b", "a", "x\ny", "\u{e9}", "c"] {
            assert!(searched.has(text), "{text}");
        }
        assert!(!searched.has("d"));
    }

    #[test]
    fn the_work_is_bounded() {
        let searched = SearchText::new("a".repeat(1 << 20).into());
        let began = std::time::Instant::now();
        (0..100_000).for_each(|_| assert!(!searched.has("b")));
        assert!(began.elapsed().as_secs() < 20);
    }
}
