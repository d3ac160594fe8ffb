use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::fault::{SettingFault, SettingPlace};
use super::key::{KEYS, Key, MODEL_KEYS};
use super::value::RawValue;
use super::{ModelSettings, Settings};

/// Reads a file. Every key must be known.
pub fn read(settings: &mut Settings, path: &Path, text: &str) -> Result<(), SettingFault> {
    let file = SettingsFile { path, text };
    let root = DeTable::parse(text).map_err(|error| {
        let place = file.place(error.span().unwrap_or(0..0));
        SettingFault::new("not_toml", place, format!("invalid TOML: {}", error.message().to_lowercase()))
    })?;
    file.read_table(settings, root.get_ref(), "")
}

/// A file, to tell places in it.
struct SettingsFile<'a> {
    path: &'a Path,
    text: &'a str,
}

impl SettingsFile<'_> {
    /// Reads a table, and the tables in it, whose path begins with `before`.
    fn read_table(&self, settings: &mut Settings, table: &DeTable<'_>, before: &str) -> Result<(), SettingFault> {
        for (name, value) in in_order(table) {
            let path = format!("{before}{}", name.get_ref());
            if path == "models" {
                self.read_models(settings, value)?;
                continue;
            }
            if let Some(key) = KEYS.iter().find(|key| key.path == path) {
                self.set(key, settings, value)?;
                settings.set.push((path, self.place(value.span())));
                continue;
            }
            let inside = format!("{path}.");
            match value.get_ref() {
                DeValue::Table(table) if KEYS.iter().any(|key| key.path.starts_with(&inside)) => {
                    self.read_table(settings, table, &inside)?;
                }
                _ => {
                    let known = KEYS.iter().map(|key| key.path).chain(["models"]);
                    return Err(SettingFault::unknown(&path, known, self.place(name.span())));
                }
            }
        }
        Ok(())
    }

    fn read_models(&self, settings: &mut Settings, value: &Spanned<DeValue<'_>>) -> Result<(), SettingFault> {
        let wrong = |span| {
            SettingFault::new("wrong_value", self.place(span), "models: expected tables")
                .with_help("begin each model with a line `[[models]]`")
        };
        let DeValue::Array(models) = value.get_ref() else { return Err(wrong(value.span())) };
        for (at, item) in models.iter().enumerate() {
            let DeValue::Table(table) = item.get_ref() else { return Err(wrong(item.span())) };
            let mut model = ModelSettings { place: self.place(item.span()), ..ModelSettings::default() };
            for (name, value) in in_order(table) {
                let known = MODEL_KEYS.iter().find(|key| key.path == name.get_ref());
                let key = known.ok_or_else(|| {
                    let known = MODEL_KEYS.iter().map(|key| key.path);
                    SettingFault::unknown(name.get_ref(), known, self.place(name.span()))
                })?;
                self.set(key, &mut model, value)?;
                settings.set.push((format!("models.{at}.{}", key.path), self.place(value.span())));
            }
            settings.models.push(model);
        }
        Ok(())
    }

    fn set<T>(&self, key: &Key<T>, settings: &mut T, value: &Spanned<DeValue<'_>>) -> Result<(), SettingFault> {
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        key.set(settings, &given(value.get_ref()), Some(folder), &self.place(value.span()))
    }

    fn place(&self, span: Range<usize>) -> SettingPlace {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let column = before.get(line_start..).unwrap_or_default().chars().count() + 1;
        SettingPlace::File { path: self.path.display().to_string(), line: before.matches('\n').count() + 1, column }
    }
}

/// Returns the entries of a table in the order of the file.
fn in_order<'a, 'b>(table: &'a DeTable<'b>) -> Vec<(&'a Spanned<std::borrow::Cow<'b, str>>, &'a Spanned<DeValue<'b>>)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(name, _)| name.span().start);
    entries
}

fn given<'a>(value: &'a DeValue<'_>) -> RawValue<'a> {
    match value {
        DeValue::String(text) => RawValue::Text(text),
        DeValue::Boolean(value) => RawValue::Switch(*value),
        DeValue::Integer(number) => {
            let digits: String = number.as_str().chars().filter(|digit| *digit != '_').collect();
            i64::from_str_radix(&digits, number.radix())
                .map_or(RawValue::Other("a number that is too large"), RawValue::Whole)
        }
        DeValue::Float(number) => {
            let digits: String = number.as_str().chars().filter(|digit| *digit != '_').collect();
            digits.parse().map_or(RawValue::Other("a number"), RawValue::Number)
        }
        DeValue::Array(items) => {
            let texts = items.iter().map(|item| item.get_ref().as_str()).collect::<Option<Vec<&str>>>();
            texts.map_or(RawValue::Other("a list of other values"), RawValue::Texts)
        }
        other => RawValue::Other(other.type_str()),
    }
}
