//! A value between markers: how to parse it, and how it is written.

use rolecall_conversation::{Tool, json};

use super::ends::is_of_name;
use super::escapes::{self, Escapes};
use super::{ArgumentReading, Callee, How};
use crate::cursor::Cursor;
use crate::reply::{CDATA, ValueForm, ValueLayout};
use crate::values::{Schema, TextValue, Types, ValueReader, typed, types_of, uncdata};

impl ArgumentReading {
    /// Writes the key before the value, once.
    pub(super) fn open(&mut self, count: &mut usize, out: &mut String) {
        if std::mem::replace(&mut self.is_open, true) {
            return;
        }
        out.push_str(if *count == 0 { "{" } else { ", " });
        *count += 1;
        json::write_string(out, &self.key.name, false);
        out.push_str(": ");
    }

    /// Returns the byte of the next text of a value at which its closing marker is missing, as the text there tells:
    /// another call opens, or the value ends with a misspelled marker.
    pub(super) fn damage(
        &mut self,
        kind: &ValueLayout,
        callee: &Callee<'_>,
        text: &str,
        ends_without_marker: bool,
    ) -> Option<usize> {
        let (mut from, mut found) = (0, None);
        if let Some(quote) = kind.quote().filter(|_| callee.list.is_python) {
            // The quotes that a value goes on after.
            for (at, _) in text.match_indices(quote) {
                self.tail.push(&text[from..at]);
                from = at;
                if opens_call(self.tail.text(), &callee.shared.options.tools) {
                    found = found.or(Some(at));
                }
            }
        }
        self.tail.push(&text[from..]);
        let is_misspelled = || ends_without_marker && kind.may_omit_close() && self.tail.almost_is(kind.close.text());
        found.or_else(|| is_misspelled().then_some(text.len()))
    }

    /// Writes the next text of a value between markers. `is_over` means that the value ends here. Returns the types
    /// that the value may have if its text is none of them and becomes a string.
    pub(super) fn write(
        &mut self,
        text: &str,
        is_over: bool,
        callee: &Callee<'_>,
        count: &mut usize,
        out: &mut String,
    ) -> Option<Types> {
        let kind = &callee.list.kinds[self.kind];
        let text = match kind.quote().filter(|_| matches!(self.how, How::Text(_))) {
            Some(quote) => escapes::read(&mut self.escape, text, Escapes::of(callee.list, quote), is_over),
            None => text.into(),
        };
        let text = &*text;
        match &mut self.how {
            How::Text(_) if !self.escape.is_empty() && text.is_empty() => {}
            How::Text(value) | How::Cdata(value) => {
                let mut text_out = String::new();
                value.push(text, &mut text_out);
                if is_over {
                    value.end(&mut text_out);
                }
                if is_over || !text_out.is_empty() {
                    self.open(count, out);
                    out.push_str(&text_out);
                }
            }
            How::Typed(raw) => {
                raw.push_str(text);
                if is_over {
                    // If strings have a separate layout, this value is not a string.
                    let schema = match callee.list.is_single {
                        true => schema_of(callee, &self.key.name),
                        false => None,
                    };
                    let named = self.types;
                    let value_of = |raw: &str| {
                        let raw = uncdata(raw);
                        let types = named.unwrap_or_else(|| types_of(&raw, schema));
                        (typed(&raw, types), types)
                    };
                    let (mut value, mut types) = value_of(raw);
                    // Only text that is nothing else is a string with escapes.
                    if let Some(quote) = kind.quote().filter(|_| value.json.starts_with('"') && raw.contains('\\')) {
                        let text = escapes::read(&mut String::new(), raw, Escapes::of(callee.list, quote), true);
                        (value, types) = value_of(&text);
                    }
                    self.open(count, out);
                    out.push_str(&value.json);
                    return value.is_misfit.then_some(types);
                }
            }
            How::Unknown | How::Literal(_) | How::Elements(_) => {}
        }
        None
    }
}

/// Returns how to parse a value that may be a CDATA section, or text without quotes. Skips the
/// section's opening. Returns `None` if that is not known yet.
pub(super) fn begin(
    callee: &Callee<'_>,
    kind: &ValueLayout,
    reading: &ArgumentReading,
    cursor: &mut Cursor<'_, '_>,
) -> Option<How> {
    if matches!(kind.form, ValueForm::Bare) {
        return match cursor.peek() {
            Some('"' | '\'' | '[' | '{' | '(') => {
                let reader = ValueReader::literal(callee.shared.options.json, callee.shared.cap());
                Some(How::Literal(Box::new(reader)))
            }
            None if !cursor.is_last() => None,
            _ => Some(how_of(callee, kind, &reading.key.name, reading.types)),
        };
    }
    if cursor.rest().starts_with(CDATA.0) {
        cursor.at += CDATA.0.len();
        return Some(How::Cdata(TextValue::default()));
    }
    let may_be_cdata = CDATA.0.starts_with(cursor.rest()) && !cursor.is_last();
    (!may_be_cdata).then(|| how_of(callee, kind, &reading.key.name, reading.types))
}

/// Returns the schema of an argument.
pub(super) fn schema_of<'a>(callee: &Callee<'a>, key: &str) -> Option<Schema<'a>> {
    Schema::of_function(&callee.shared.options.tools, callee.name)?.property(key)
}

/// Reports whether the tool has an argument that must be given.
pub(super) fn has_required(callee: &Callee<'_>) -> bool {
    let schema = Schema::of_function(&callee.shared.options.tools, callee.name);
    schema.and_then(|schema| schema.keyword("required")?.as_array()).is_some_and(|required| !required.is_empty())
}

/// Returns how to parse a value between markers.
pub(super) fn how_of(callee: &Callee<'_>, kind: &ValueLayout, key: &str, types: Option<Types>) -> How {
    if let Some(types) = types {
        return match types == Types::STRING {
            true => How::Text(TextValue::default()),
            false => How::Typed(String::new()),
        };
    }
    // If one layout serves all types, the tool's schema tells which values are strings.
    let is_string = kind.is_string
        || (callee.list.is_single
            && schema_of(callee, key).is_some_and(|schema| schema.types() == crate::values::Types::STRING));
    match is_string {
        true => How::Text(TextValue::default()),
        false => How::Typed(String::new()),
    }
}

/// Reports whether the text ends with the end of a call in Python and the beginning of another one, up to the value
/// of an argument: `), f(key=`.
fn opens_call(text: &str, tools: &[Tool]) -> bool {
    let called = text.trim_end().strip_suffix('=').and_then(|text| text.rsplit_once('('));
    let Some((before, _)) = called.filter(|(_, key)| !key.is_empty() && key.chars().all(is_of_name)) else {
        return false;
    };
    let first = before.trim_end_matches(is_of_name);
    let name = &before[first.len()..];
    let end = first.trim_end();
    end.strip_suffix(',').unwrap_or(end).trim_end().ends_with(')') && tools.iter().any(|tool| tool.name() == name)
}
