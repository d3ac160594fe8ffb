//! Nulls in columns of Python objects: those with which Arrow pads objects, and those that are meant.

use rolecall::conversation::Json;

/// The keys below which any key can have any value, so that a null may be meant.
const FREE: [&str; 4] = ["parameters", "arguments", "input_schema", "chat_template_kwargs"];

/// The nulls of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NullMeaning {
    /// They are meant: no column of Arrow's holds these values.
    Meant,
    /// They may be the padding of Arrow, which gives each object the keys of all others.
    Unclear,
}

/// What the objects at one place of a column have in common.
#[derive(Default)]
struct ColumnLayout {
    kind: Option<&'static str>,
    /// The keys of each object, in order.
    keys: Option<Vec<(String, ColumnLayout)>>,
    item: Option<Box<ColumnLayout>>,
}

impl NullMeaning {
    /// Returns what the nulls of a column are.
    pub fn of<'a>(values: impl Iterator<Item = &'a Json>) -> NullMeaning {
        let mut layout = ColumnLayout::default();
        for value in values {
            if !layout.holds(value) {
                return NullMeaning::Meant;
            }
        }
        NullMeaning::Unclear
    }

    /// Returns a value of the column without the nulls that are padding, and whether one of them may
    /// have been meant.
    pub fn remove(self, name: &str, mut value: Json) -> (Json, bool) {
        let mut was_meant = false;
        if self == NullMeaning::Unclear {
            remove(&mut value, FREE.contains(&name), &mut was_meant);
        }
        (value, was_meant)
    }
}

impl ColumnLayout {
    /// Adds a value. Returns false if one column of Arrow's cannot hold it together with the others.
    fn holds(&mut self, value: &Json) -> bool {
        if value.is_null() {
            return true;
        }
        if *self.kind.get_or_insert(value.kind()) != value.kind() {
            return false;
        }
        match value {
            Json::Array(items) => {
                let item = self.item.get_or_insert_default();
                items.iter().all(|value| item.holds(value))
            }
            Json::Object(object) => {
                let new = || object.iter().map(|(key, _)| (key.to_owned(), ColumnLayout::default())).collect();
                let keys = self.keys.get_or_insert_with(new);
                keys.len() == object.len()
                    && keys
                        .iter_mut()
                        .zip(object.iter())
                        .all(|((known, layout), (key, value))| known == key && layout.holds(value))
            }
            _ => true,
        }
    }
}

fn remove(value: &mut Json, is_free: bool, was_meant: &mut bool) {
    match value {
        Json::Array(items) => items.iter_mut().for_each(|item| remove(item, is_free, was_meant)),
        Json::Object(object) => {
            let has_role = object.get("role").is_some();
            let keys: Vec<String> = object.iter().map(|(key, _)| key.to_owned()).collect();
            for key in keys {
                match object.get_mut(&key) {
                    // Only the content of a message that calls tools is usually written as null.
                    Some(Json::Null) if !(has_role && key == "content") => {
                        *was_meant |= is_free;
                        object.remove(&key);
                    }
                    Some(inner) => remove(inner, is_free || FREE.contains(&key.as_str()), was_meant),
                    None => {}
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use rolecall::conversation::json;

    use super::*;

    fn column(texts: &[&str]) -> Vec<Json> {
        texts.iter().map(|text| json::parse(text).expect("it is JSON")).collect()
    }

    #[test]
    fn nulls_are_meant_where_arrow_could_not_hold_the_values() {
        for texts in [
            // Another row has other keys, or the same ones in another order.
            &[r#"{"a": null}"#, r#"{"a": 1, "b": 2}"#][..],
            &[r#"{"a": null, "b": 1}"#, r#"{"b": 1, "a": 1}"#],
            &[r#"[{"a": null}, {}]"#],
            &[r#"{"a": {"x": null}}"#, r#"{"a": "text"}"#],
            &[r#"[1, "a", null]"#],
        ] {
            assert_eq!(NullMeaning::of(column(texts).iter()), NullMeaning::Meant, "{texts:?}");
        }
        for texts in [
            &[][..],
            &[r#"{"a": null}"#],
            &[r#"{"a": null, "b": 1}"#, r#"{"a": "x", "b": null}"#, "null"],
            &[r#"[{"a": null}, {"a": [1]}]"#, "[]"],
        ] {
            assert_eq!(NullMeaning::of(column(texts).iter()), NullMeaning::Unclear, "{texts:?}");
        }
    }

    #[test]
    fn a_null_that_may_be_meant_is_told() {
        let removed = |name: &str, text: &str| {
            let (value, was_meant) = NullMeaning::Unclear.remove(name, column(&[text]).remove(0));
            (json::write(&value, &json::Layout::compact()), was_meant)
        };
        let tool = r#"[{"name":"f","strict":null,"parameters":{"x":{"default":null}}}]"#;
        assert_eq!(removed("tools", tool), (r#"[{"name":"f","parameters":{"x":{}}}]"#.to_owned(), true));
        let message = r#"{"role":"assistant","content":null,"name":null}"#;
        assert_eq!(removed("messages", message), (r#"{"role":"assistant","content":null}"#.to_owned(), false));
        let meant = column(&[tool]).remove(0);
        assert_eq!(NullMeaning::Meant.remove("tools", meant.clone()), (meant, false));
    }
}
