use std::ops::Range;

/// A step from a value to a value inside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// The value of a key.
    Key(&'a str),
    /// The item with this index, from 0.
    Index(usize),
}

/// Returns the byte range of the value that a path leads to.
///
/// The text must be valid JSON. If a key occurs twice, the last value counts. An empty path leads
/// to the whole value.
///
/// ```
/// use rolecall_conversation::json::{Step, span};
/// let text = r#"{"a": [1, "b"]}"#;
/// let found = span(text, &[Step::Key("a"), Step::Index(1)]).expect("it is there");
/// assert_eq!(&text[found], "\"b\"");
/// ```
pub fn span(text: &str, path: &[Step<'_>]) -> Option<Range<usize>> {
    let scan = Scan { text };
    let top = scan.value_at(scan.skip_space(0))?;
    path.iter().try_fold(top, |parent, step| Some(scan.child(&parent, step)?.1))
}

/// Returns the byte range of a key in the object that a path leads to.
pub fn key_span(text: &str, path: &[Step<'_>], key: &str) -> Option<Range<usize>> {
    let parent = span(text, path)?;
    Some(Scan { text }.child(&parent, &Step::Key(key))?.0)
}

/// Returns the byte ranges of the children of an array or object, in order and in one pass: each
/// key with its value, or each item twice.
pub fn child_spans(text: &str, path: &[Step<'_>]) -> Vec<(Range<usize>, Range<usize>)> {
    let mut spans = Vec::new();
    if let Some(parent) = span(text, path) {
        Scan { text }.each_child(&parent, &mut spans);
    }
    spans
}

struct Scan<'a> {
    text: &'a str,
}

impl Scan<'_> {
    /// Returns the range of a key and its value, or of an item twice.
    fn child(&self, parent: &Range<usize>, step: &Step<'_>) -> Option<(Range<usize>, Range<usize>)> {
        let bytes = self.text.as_bytes();
        let open = *bytes.get(parent.start)?;
        let mut at = self.skip_space(parent.start + 1);
        let mut found = None;
        let mut index = 0;
        while at < parent.end && !matches!(bytes[at], b']' | b'}') {
            let first = self.value_at(at)?;
            at = self.skip_space(first.end);
            match (open, step) {
                (b'[', Step::Index(wanted)) if *wanted == index => return Some((first.clone(), first)),
                (b'[', _) => {}
                (b'{', _) => {
                    let value = self.value_at(self.skip_space(at + 1))?;
                    at = self.skip_space(value.end);
                    if matches!(step, Step::Key(key) if self.text[first.clone()].trim_matches('"') == *key) {
                        found = Some((first, value));
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

    /// Collects all children up to the first that cannot be read.
    fn each_child(&self, parent: &Range<usize>, spans: &mut Vec<(Range<usize>, Range<usize>)>) -> Option<()> {
        let bytes = self.text.as_bytes();
        let open = *bytes.get(parent.start)?;
        let mut at = self.skip_space(parent.start + 1);
        while at < parent.end && !matches!(bytes[at], b']' | b'}') {
            let first = self.value_at(at)?;
            at = self.skip_space(first.end);
            let value = match open {
                b'[' => first.clone(),
                b'{' => self.value_at(self.skip_space(at + 1))?,
                _ => return None,
            };
            at = self.skip_space(value.end);
            spans.push((first, value));
            if bytes.get(at) == Some(&b',') {
                at = self.skip_space(at + 1);
            }
        }
        Some(())
    }

    /// Returns the range of the value that starts at `start`, without parsing its contents.
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
