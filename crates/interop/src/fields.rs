use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;

use rolecall_conversation::json::{self, Object, Step};
use rolecall_conversation::{Json, spelling};
use rolecall_format::{Diagnostic, LoadError};

/// A framework's JSON file, which is read field by field. It collects all mistakes with their
/// positions.
pub(crate) struct FrameworkFile<'t> {
    text: &'t str,
    object: Object,
    mistakes: RefCell<Vec<Diagnostic>>,
}

impl<'t> FrameworkFile<'t> {
    /// Parses a file, which must be a JSON object.
    pub fn parse(text: &'t str) -> Result<FrameworkFile<'t>, LoadError> {
        let object = match json::parse(text) {
            Ok(Json::Object(object)) => object,
            Ok(other) => {
                let message = format!("expected a JSON object, found {}", other.kind());
                let span = json::span(text, &[]).unwrap_or(0..text.len());
                return Err(mistake(
                    "wrong_type",
                    message,
                    span,
                    "write the template's fields in one JSON object: `{..}`",
                ));
            }
            Err(error) => {
                let span = whole_characters(text, error.offset..error.offset + 1);
                let message = format!("not JSON: {}", error.message);
                return Err(mistake("not_json", message, span, "check quotes, commas and braces before this position"));
            }
        };
        Ok(FrameworkFile { text, object, mistakes: RefCell::default() })
    }

    /// Returns the fields of the file's top-level object.
    pub fn fields(&self) -> Fields<'_, 't> {
        Fields { file: self, object: &self.object, path: Vec::new() }
    }

    /// Returns the result, or all mistakes in the file.
    pub fn finish<T>(self, made: T) -> Result<T, LoadError> {
        let mut diagnostics = self.mistakes.into_inner();
        diagnostics.sort_by_key(|diagnostic| diagnostic.span.start);
        if diagnostics.is_empty() { Ok(made) } else { Err(LoadError { diagnostics }) }
    }
}

fn mistake(code: &'static str, message: String, span: Range<usize>, help: &str) -> LoadError {
    LoadError { diagnostics: vec![Diagnostic { code, message, span, help: Some(help.to_owned()) }] }
}

/// The fields of an object in the file.
pub(crate) struct Fields<'f, 't> {
    file: &'f FrameworkFile<'t>,
    object: &'f Object,
    path: Vec<Step<'f>>,
}

/// A string of the file, with the position of each of its characters.
pub(crate) struct SourceString {
    pub text: String,
    /// For each byte of the text, and for its end, the byte offset in the file.
    places: Vec<usize>,
}

impl SourceString {
    /// Returns the span in the file of a part of the text.
    pub fn span(&self, part: Range<usize>) -> Range<usize> {
        let at = |place: usize| self.places.get(place).or(self.places.last()).copied().unwrap_or(0);
        at(part.start)..at(part.end).max(at(part.start) + 1)
    }
}

impl<'f> Fields<'f, '_> {
    /// Reports whether a field is present and not null.
    pub fn has(&self, key: &str) -> bool {
        self.object.get(key).is_some_and(|value| !value.is_null())
    }

    /// Returns the span of a field's value.
    pub fn span(&self, key: &'f str) -> Range<usize> {
        let mut path = self.path.clone();
        path.push(Step::Key(key));
        json::span(self.file.text, &path).unwrap_or(0..0)
    }

    /// Returns the span of the object's opening brace.
    pub fn start(&self) -> Range<usize> {
        let span = json::span(self.file.text, &self.path).unwrap_or(0..0);
        span.start..(span.start + 1).min(span.end)
    }

    /// Returns a string with its positions, or `None` if the field is missing or null.
    pub fn written(&self, key: &'f str) -> Option<SourceString> {
        match self.object.get(key)? {
            Json::Null => None,
            Json::String(text) => {
                let span = self.span(key);
                let token = self.file.text.get(span.clone()).unwrap_or_default();
                Some(SourceString { text: text.clone(), places: places(token, span.start) })
            }
            other => {
                self.wrong_type(key, "a string", other);
                None
            }
        }
    }

    /// Returns a string, or `None` if the field is missing or null.
    pub fn text(&self, key: &'f str) -> Option<String> {
        self.written(key).map(|written| written.text)
    }

    /// Returns a required string. Reports a mistake if the field is missing or null.
    pub fn needed(&self, key: &'f str) -> Option<SourceString> {
        if !self.has(key) {
            let what = if self.object.get(key).is_some() { "is null" } else { "is missing" };
            let span = if self.object.get(key).is_some() { self.span(key) } else { self.start() };
            self.report("missing_key", format!("the field `{key}` {what}"), span, format!("add `\"{key}\": \"..\"`"));
            return None;
        }
        self.written(key)
    }

    /// Returns a boolean, or false if the field is missing or null.
    pub fn boolean(&self, key: &'f str) -> bool {
        match self.object.get(key) {
            None | Some(Json::Null) => false,
            Some(Json::Bool(value)) => *value,
            Some(other) => {
                self.wrong_type(key, "true or false", other);
                false
            }
        }
    }

    /// Returns a non-negative integer, or `None` if the field is missing or null.
    pub fn whole(&self, key: &'f str) -> Option<u64> {
        match self.object.get(key)? {
            Json::Null => None,
            value => {
                let number = match value {
                    Json::Number(number) => number.as_i64().and_then(|number| u64::try_from(number).ok()),
                    _ => None,
                };
                if number.is_none() {
                    self.wrong_type(key, "a non-negative integer", value);
                }
                number
            }
        }
    }

    /// Returns a number, or `None` if the field is missing or null.
    pub fn number(&self, key: &'f str) -> Option<f64> {
        match self.object.get(key)? {
            Json::Null => None,
            Json::Number(number) => number.as_f64(),
            other => {
                self.wrong_type(key, "a number", other);
                None
            }
        }
    }

    /// Returns a list of strings, or `None` if the field is missing or null.
    pub fn texts(&self, key: &'f str) -> Option<Vec<String>> {
        let items = match self.object.get(key)? {
            Json::Null => return None,
            Json::Array(items) => items,
            other => {
                self.wrong_type(key, "a list of strings", other);
                return None;
            }
        };
        let mut spans = None;
        let each = items.iter().enumerate().map(|(at, item)| match item {
            Json::String(text) => text.clone(),
            other => {
                let spans = spans.get_or_insert_with(|| {
                    let mut path = self.path.clone();
                    path.push(Step::Key(key));
                    json::child_spans(self.file.text, &path)
                });
                let span = spans.get(at).map_or_else(|| self.span(key), |(_, item)| item.clone());
                let message = format!("expected a string in the list `{key}`, found {}", other.kind());
                self.report("wrong_type", message, span, "write a string there".into());
                String::new()
            }
        });
        Some(each.collect())
    }

    /// Returns a nested object, or `None` if the field is missing or null.
    pub fn inner(&self, key: &'f str) -> Option<Fields<'f, '_>> {
        match self.object.get(key)? {
            Json::Null => None,
            Json::Object(object) => {
                let mut path = self.path.clone();
                path.push(Step::Key(key));
                Some(Fields { file: self.file, object, path })
            }
            other => {
                self.wrong_type(key, "an object", other);
                None
            }
        }
    }

    /// Returns a list of objects, or `None` if the field is missing or null.
    pub fn list(&self, key: &'f str) -> Option<Vec<Fields<'f, '_>>> {
        let items = match self.object.get(key)? {
            Json::Null => return None,
            Json::Array(items) => items,
            other => {
                self.wrong_type(key, "a list of objects", other);
                return None;
            }
        };
        let mut inner = Vec::new();
        for (at, item) in items.iter().enumerate() {
            let mut path = self.path.clone();
            path.extend([Step::Key(key), Step::Index(at)]);
            match item {
                Json::Object(object) => inner.push(Fields { file: self.file, object, path }),
                other => self.wrong_type(key, "a list of objects", other),
            }
        }
        Some(inner)
    }

    /// Returns the JSON value of a field, unchecked.
    pub fn value(&self, key: &str) -> Option<&'f Json> {
        self.object.get(key)
    }

    /// Returns the names of all fields.
    pub fn keys(&self) -> impl Iterator<Item = &'f str> {
        self.object.iter().map(|(key, _)| key)
    }

    /// Reports each field that is not known as a mistake.
    pub fn refuse_others(&self, known: &[&str]) {
        let mut others = self.keys().filter(|key| !known.contains(key)).peekable();
        if others.peek().is_none() {
            return;
        }
        let text = self.file.text;
        let spans = json::child_spans(text, &self.path).into_iter();
        let spans: HashMap<&str, Range<usize>> =
            spans.map(|(key, _)| (text[key.clone()].trim_matches('"'), key)).collect();
        for key in others {
            let span = spans.get(key).cloned().unwrap_or_else(|| self.start());
            let help = match spelling::nearest(key, known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => {
                    format!("use one of {}", known.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", "))
                }
            };
            self.report("unknown_key", format!("unknown field `{key}`"), span, help);
        }
    }

    /// Returns the number of mistakes found so far in the file.
    pub fn mistakes(&self) -> usize {
        self.file.mistakes.borrow().len()
    }

    pub fn report(&self, code: &'static str, message: String, span: Range<usize>, help: String) {
        let span = whole_characters(self.file.text, span);
        self.file.mistakes.borrow_mut().push(Diagnostic { code, message, span, help: Some(help) });
    }

    pub fn wrong_type(&self, key: &'f str, expected: &str, found: &Json) {
        let message = format!("expected {expected} for `{key}`, found {}", found.kind());
        self.report("wrong_type", message, self.span(key), format!("write {} there", expected.trim_end_matches(',')));
    }
}

/// Clamps a range to the text and widens it to whole characters.
fn whole_characters(text: &str, span: Range<usize>) -> Range<usize> {
    let (mut start, mut end) = (span.start.min(text.len()), span.end.min(text.len()));
    while !text.is_char_boundary(start) {
        start -= 1;
    }
    while !text.is_char_boundary(end) {
        end += 1;
    }
    start..end.max(start)
}

/// Maps each byte of the decoded string, and its end, to a byte offset in the file. `token` is the
/// string as written, with its quotes and escapes.
fn places(token: &str, start: usize) -> Vec<usize> {
    let mut places = Vec::with_capacity(token.len());
    let inside = token.get(1..token.len().saturating_sub(1)).unwrap_or_default();
    let mut at = 0;
    while let Some(first) = inside[at..].chars().next() {
        let rest = &inside[at..];
        let (written, decoded) = match (first, rest.as_bytes().get(1)) {
            ('\\', Some(b'u')) => {
                let unit = |at: usize| rest.get(at..at + 4).and_then(|digits| u32::from_str_radix(digits, 16).ok());
                match unit(2) {
                    Some(0xd800..0xdc00) => (12, 4),
                    Some(code) => (6, char::from_u32(code).map_or(3, char::len_utf8)),
                    None => (2, 1),
                }
            }
            ('\\', _) => (2, 1),
            _ => (first.len_utf8(), first.len_utf8()),
        };
        places.extend(std::iter::repeat_n(start + 1 + at, decoded));
        at = (at + written).min(inside.len());
        while !inside.is_char_boundary(at) {
            at += 1;
        }
    }
    places.push(start + 1 + inside.len());
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_marked_at_the_item_and_found_in_one_pass() {
        let items = vec!["1"; 50_000].join(",");
        let keys: Vec<String> = (0..50_000).map(|number| format!("\"k{number}\":0")).collect();
        let text = format!("{{\"list\":[\"a\",{items}],{}}}", keys.join(","));
        let start = std::time::Instant::now();
        let file = FrameworkFile::parse(&text).expect("it is JSON");
        let _ = file.fields().texts("list");
        file.fields().refuse_others(&["list"]);
        let error = file.finish(()).expect_err("all of it is wrong");
        assert_eq!(error.diagnostics.len(), 100_000);
        assert_eq!(&text[error.diagnostics[7].span.clone()], "1");
        assert_eq!(&text[error.diagnostics[99_999].span.clone()], "\"k49999\"");
        // A search from the beginning for each mistake would take minutes.
        assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
    }
}
