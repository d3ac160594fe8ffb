use rolecall_conversation::json::write_string;

use super::schema::Schema;
use super::types::Types;
use super::{ReaderState, ValueReader};
use crate::JsonPolicy;

/// A raw text as a JSON value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TypedValue {
    pub json: String,
    /// Whether the text is of none of the allowed types, and a string all the same.
    pub is_misfit: bool,
}

/// Returns the types of a raw text by its schema, if there is one. A schema that lists the text itself allows only a
/// string.
pub(crate) fn types_of(raw: &str, schema: Option<Schema<'_>>) -> Types {
    match schema {
        Some(schema) if schema.lists_text(raw) => Types::STRING,
        Some(schema) => schema.types(),
        None => Types::ANY,
    }
}

/// Converts a complete raw text to a JSON value of one of these types.
///
/// If only strings are allowed, the value is a string. Otherwise, JSON and Python literals become the values they spell
/// if their types are allowed, and any other text becomes a string. Quoted text becomes a string that includes the
/// quotes.
pub(crate) fn typed(raw: &str, types: Types) -> TypedValue {
    let value = match types.is_within(Types::STRING) {
        true => None,
        false => {
            let text = raw.trim();
            let json = read(ValueReader::json(JsonPolicy::Lenient), text);
            let value = json.or_else(|| {
                let literal = || read(ValueReader::literal(JsonPolicy::Lenient, usize::MAX), text);
                may_be_literal(text, types).then(literal).flatten()
            });
            value.filter(|value| fits(value, types))
        }
    };
    let is_misfit = value.is_none() && types != Types::NONE && !Types::STRING.is_within(types);
    let as_string = || {
        let mut string = String::with_capacity(raw.len() + 2);
        write_string(&mut string, raw, false);
        string
    };
    TypedValue { json: value.unwrap_or_else(as_string), is_misfit }
}

/// Returns the JSON of a value that spans the whole text.
fn read(mut reader: ValueReader, text: &str) -> Option<String> {
    let mut value = String::with_capacity(text.len());
    let step = reader.push(text, &mut value);
    let state = if step.state == ReaderState::More { reader.end(&mut value) } else { step.state };
    (step.used == text.len() && state == ReaderState::Done).then_some(value)
}

/// Reports whether text that is not JSON may be a Python literal. If the schema also allows
/// strings, only the forms that Python prints are literals. Numbers such as `1_000` or `007.5`, and
/// tuples, are then text.
fn may_be_literal(text: &str, types: Types) -> bool {
    !Types::STRING.is_within(types) || text.starts_with(['[', '{']) || ["None", "True", "False"].contains(&text)
}

/// Reports whether a JSON text has one of these types.
fn fits(value: &str, types: Types) -> bool {
    let found = match value.bytes().next() {
        Some(b'{') => Types::OBJECT,
        Some(b'[') => Types::ARRAY,
        Some(b't' | b'f') => Types::BOOLEAN,
        // If strings are not allowed, `null` is accepted even if the schema does not list it.
        Some(b'n') if !Types::STRING.is_within(types) => return true,
        Some(b'n') => Types::NULL,
        Some(b'"') | None => return false,
        // A fraction is accepted for an integer, since it is still a number.
        Some(_) if Types::INTEGER.is_within(types) => return true,
        Some(_) => Types::of_number(value),
    };
    found.is_within(types)
}
