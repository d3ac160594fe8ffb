//! Reads JSON as input without converting it. The engine's benchmark does the same.

use std::any::Any;

use rolecall_conversation::json::Json;
use rolecall_jinja::{InputEntry, InputValue, Inputs, Tag};

/// Reads JSON values in place.
pub struct JsonInputs;

impl Inputs for JsonInputs {
    fn value<'a>(&'a self, node: &'a dyn Any) -> InputValue<'a> {
        match node.downcast_ref::<Json>() {
            None | Some(Json::Null) => InputValue::Null,
            Some(Json::Bool(value)) => InputValue::Bool(*value),
            Some(Json::Number(number)) => InputValue::Number(number.spelling()),
            Some(Json::String(text)) => InputValue::Str(text),
            Some(Json::Array(_)) => InputValue::List,
            Some(Json::Object(_)) => InputValue::Dict,
        }
    }

    fn len(&self, node: &dyn Any) -> usize {
        match node.downcast_ref::<Json>() {
            Some(Json::Array(items)) => items.len(),
            Some(Json::Object(object)) => object.len(),
            _ => 0,
        }
    }

    fn item<'a>(&'a self, list: &'a dyn Any, index: usize) -> Option<&'a dyn Any> {
        match list.downcast_ref::<Json>()? {
            Json::Array(items) => items.get(index).map(|item| item as &dyn Any),
            _ => None,
        }
    }

    fn get<'a>(&'a self, dict: &'a dyn Any, key: &str) -> Option<&'a dyn Any> {
        match dict.downcast_ref::<Json>()? {
            Json::Object(object) => object.get(key).map(|value| value as &dyn Any),
            _ => None,
        }
    }

    fn entry<'a>(&'a self, dict: &'a dyn Any, index: usize) -> Option<InputEntry<'a>> {
        match dict.downcast_ref::<Json>()? {
            Json::Object(object) => {
                let (key, value) = object.iter().nth(index)?;
                // Common keys share their memory across conversations, but each value has its own
                // address.
                Some(InputEntry { key, key_tag: Tag(Tag::of(value).0 + 1), value })
            }
            _ => None,
        }
    }
}
