//! JSON as input, read where it lies. The benchmark of the engine reads it so too.

use std::any::Any;

use rolecall_conversation::json::Json;
use rolecall_jinja::{InputEntry, InputValue, Inputs, Tag};

/// Reads JSON where it lies.
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
                // Keys that all conversations have share their memory; a value does not share its own.
                Some(InputEntry { key, key_tag: Tag(Tag::of(value).0 + 1), value })
            }
            _ => None,
        }
    }
}
