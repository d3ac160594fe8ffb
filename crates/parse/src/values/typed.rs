use rolecall_conversation::json::write_string;

use super::schema::Schema;
use super::types::Types;
use super::{State, ValueReader};
use crate::JsonPolicy;

/// A whole raw text as the JSON value that it stands for, by its schema if there is one.
///
/// Where a string alone may stand, it is one, whatever it looks like. Elsewhere JSON and Python's literals are the values that they spell, if
/// these are of a type that may stand there; anything else is a string. Text in quotes is text that has quotes.
pub(crate) fn typed(raw: &str, schema: Option<Schema<'_>>) -> String {
    let types = schema.map_or(Types::ANY, Schema::types);
    let is_listed = schema.is_some_and(|schema| schema.lists_text(raw));
    let value = match types.is_within(Types::STRING) || is_listed {
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
    value.unwrap_or_else(|| {
        let mut string = String::with_capacity(raw.len() + 2);
        write_string(&mut string, raw, false);
        string
    })
}

/// The JSON of a value that takes the whole text.
fn read(mut reader: ValueReader, text: &str) -> Option<String> {
    let mut value = String::with_capacity(text.len());
    let step = reader.push(text, &mut value);
    let state = if step.state == State::More { reader.end(&mut value) } else { step.state };
    (step.used == text.len() && state == State::Done).then_some(value)
}

/// Whether text that is no JSON may be one of Python's literals. Where it may be a string too, it is one unless Python prints values so: a
/// number such as `1_000` or `007.5`, or a tuple, is text that somebody wrote.
fn may_be_literal(text: &str, types: Types) -> bool {
    !Types::STRING.is_within(types) || text.starts_with(['[', '{']) || ["None", "True", "False"].contains(&text)
}

/// Whether a JSON text is of one of these types.
fn fits(value: &str, types: Types) -> bool {
    let found = match value.bytes().next() {
        Some(b'{') => Types::OBJECT,
        Some(b'[') => Types::ARRAY,
        Some(b't' | b'f') => Types::BOOLEAN,
        // Where no string may stand, a null was meant.
        Some(b'n') if !Types::STRING.is_within(types) => return true,
        Some(b'n') => Types::NULL,
        Some(b'"') | None => return false,
        // A fraction where a whole number is due is still a number.
        Some(_) if Types::INTEGER.is_within(types) => return true,
        Some(_) => Types::of_number(value),
    };
    found.is_within(types)
}
