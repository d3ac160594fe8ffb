use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::Diagnostic;
use rolecall_conversation::spelling::nearest;

/// A table of a format file, read key by key. Mistakes are reported at their positions.
pub(super) struct Table<'a> {
    entries: DeTable<'a>,
    span: Range<usize>,
    /// The table's name in messages.
    name: String,
}

impl<'a> Table<'a> {
    /// Parses the whole file.
    pub fn of_file(source: &'a str, mistakes: &mut Vec<Diagnostic>) -> Option<Table<'a>> {
        match DeTable::parse(source) {
            Ok(table) => {
                let span = 0..source.lines().next().map_or(0, str::len);
                Some(Table { entries: table.into_inner(), span, name: String::new() })
            }
            Err(error) => {
                mistakes.push(Diagnostic {
                    code: "not_toml",
                    message: format!("invalid TOML: {}", error.message().to_lowercase()),
                    span: error.span().unwrap_or(0..0),
                    help: Some("see the manual of format files, which has examples of every table".into()),
                });
                None
            }
        }
    }

    pub fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    pub fn keys(&self) -> Vec<String> {
        let mut keys: Vec<(usize, String)> =
            self.entries.iter().map(|(key, _)| (key.span().start, key.get_ref().to_string())).collect();
        keys.sort();
        keys.into_iter().map(|(_, key)| key).collect()
    }

    pub fn has(&self, key: &str) -> bool {
        self.entries.iter().any(|(known, _)| known.get_ref() == key)
    }

    pub fn is_text(&self, key: &str) -> bool {
        self.entry(key).is_some_and(|value| matches!(value.get_ref(), DeValue::String(_)))
    }

    fn entry(&self, key: &str) -> Option<&Spanned<DeValue<'a>>> {
        self.entries.iter().find(|(known, _)| known.get_ref() == key).map(|(_, value)| value)
    }

    /// Returns the position of a key's value, or of the table if there is no such key.
    pub fn span_of(&self, key: &str) -> Range<usize> {
        self.entry(key).map_or(self.span.clone(), |value| value.span())
    }

    /// Returns the position of a key, or of the table if there is no such key.
    pub fn key_span(&self, key: &str) -> Range<usize> {
        let found = self.entries.iter().find(|(known, _)| known.get_ref() == key);
        found.map_or(self.span.clone(), |(known, _)| known.span())
    }

    pub fn text(&self, key: &str, mistakes: &mut Vec<Diagnostic>) -> Option<String> {
        let value = self.entry(key)?;
        match value.get_ref() {
            DeValue::String(text) => Some(text.to_string()),
            other => self.wrong_type(key, "a string", other, mistakes),
        }
    }

    pub fn needed_text(&self, key: &str, mistakes: &mut Vec<Diagnostic>) -> String {
        if !self.has(key) {
            self.missing(key, &format!("add `{key} = \"..\"`"), mistakes);
        }
        self.text(key, mistakes).unwrap_or_default()
    }

    pub fn texts(&self, key: &str, mistakes: &mut Vec<Diagnostic>) -> Vec<String> {
        self.texts_with_spans(key, mistakes).into_iter().map(|(text, _)| text).collect()
    }

    /// Reads a string or a list of strings.
    pub fn text_or_texts(&self, key: &str, mistakes: &mut Vec<Diagnostic>) -> Vec<String> {
        match self.entry(key).map(Spanned::get_ref) {
            Some(DeValue::Array(_)) => self.texts(key, mistakes),
            _ => self.text(key, mistakes).into_iter().collect(),
        }
    }

    pub fn texts_with_spans(&self, key: &str, mistakes: &mut Vec<Diagnostic>) -> Vec<(String, Range<usize>)> {
        let Some(value) = self.entry(key) else { return Vec::new() };
        let DeValue::Array(items) = value.get_ref() else {
            self.wrong_type::<()>(key, "a list of strings", value.get_ref(), mistakes);
            return Vec::new();
        };
        let mut texts = Vec::new();
        for item in items.iter() {
            match item.get_ref() {
                DeValue::String(text) => texts.push((text.to_string(), item.span())),
                other => mistakes.push(wrong_type(key, "a string", other, item.span())),
            }
        }
        texts
    }

    pub fn boolean(&self, key: &str, mistakes: &mut Vec<Diagnostic>) -> bool {
        let Some(value) = self.entry(key) else { return false };
        match value.get_ref() {
            DeValue::Boolean(value) => *value,
            other => self.wrong_type(key, "true or false", other, mistakes).unwrap_or(false),
        }
    }

    pub fn integer(&self, key: &str, mistakes: &mut Vec<Diagnostic>) -> Option<i64> {
        let value = self.entry(key)?;
        let whole = match value.get_ref() {
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix()).ok(),
            _ => None,
        };
        match whole.filter(|whole| (0..=i64::from(u32::MAX)).contains(whole)) {
            Some(whole) => Some(whole),
            None => self.wrong_type(key, "an integer from 0 to 4294967295", value.get_ref(), mistakes),
        }
    }

    pub fn number(&self, key: &str, mistakes: &mut Vec<Diagnostic>) -> Option<f64> {
        let value = self.entry(key)?;
        let number = match value.get_ref() {
            DeValue::Integer(number) => number.as_str().parse().ok(),
            DeValue::Float(number) => number.as_str().parse().ok(),
            _ => None,
        };
        match number.filter(|number: &f64| number.is_finite() && *number >= 0.0) {
            Some(number) => Some(number),
            None => self.wrong_type(key, "a nonnegative number", value.get_ref(), mistakes),
        }
    }

    pub fn table(&self, key: &str, mistakes: &mut Vec<Diagnostic>) -> Option<Table<'a>> {
        let value = self.entry(key)?;
        let span = value.span();
        match value.get_ref() {
            DeValue::Table(table) => Some(Table { entries: table.clone(), span, name: key.to_owned() }),
            other => self.wrong_type(key, "a table", other, mistakes),
        }
    }

    pub fn needed_table(&self, key: &str, mistakes: &mut Vec<Diagnostic>) -> Option<Table<'a>> {
        if !self.has(key) {
            self.missing(key, &format!("add a table `[{key}]`"), mistakes);
        }
        self.table(key, mistakes)
    }

    /// Reports unknown keys.
    pub fn finish(self, known: &[&str], mistakes: &mut Vec<Diagnostic>) {
        if self.name == "sources" {
            return;
        }
        for (key, _) in self.entries.iter().filter(|(key, _)| !known.contains(&key.get_ref().as_ref())) {
            let found = key.get_ref();
            let place = if self.name.is_empty() { String::new() } else { format!(" in `{}`", self.name) };
            let help = match nearest(found, known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => {
                    format!("known keys: {}", known.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", "))
                }
            };
            mistakes.push(Diagnostic {
                code: "unknown_key",
                message: format!("unknown key `{found}`{place}"),
                span: key.span(),
                help: Some(help),
            });
        }
    }

    fn missing(&self, key: &str, help: &str, mistakes: &mut Vec<Diagnostic>) {
        mistakes.push(Diagnostic {
            code: "missing_key",
            message: format!("the key `{key}` is missing"),
            span: self.span.clone(),
            help: Some(help.to_owned()),
        });
    }

    fn wrong_type<T>(
        &self,
        key: &str,
        expected: &str,
        found: &DeValue<'_>,
        mistakes: &mut Vec<Diagnostic>,
    ) -> Option<T> {
        mistakes.push(wrong_type(key, expected, found, self.span_of(key)));
        None
    }
}

fn wrong_type(key: &str, expected: &str, found: &DeValue<'_>, span: Range<usize>) -> Diagnostic {
    let found = match found {
        DeValue::String(_) => "a string".to_owned(),
        DeValue::Integer(number) => format!("`{}`", number.as_str()),
        DeValue::Float(number) => format!("`{}`", number.as_str()),
        DeValue::Boolean(value) => format!("`{value}`"),
        DeValue::Datetime(_) => "a date".to_owned(),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    };
    Diagnostic {
        code: "wrong_type",
        message: format!("expected {expected} for `{key}`, found {found}"),
        span,
        help: Some(format!("write {expected} there")),
    }
}
