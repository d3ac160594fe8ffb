//! What the tests of this crate share: JSON as input, and the reference files beside the project.

#![allow(dead_code, reason = "each test uses its own part")]
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::any::Any;
use std::collections::HashMap;
use std::path::PathBuf;

use rolecall_conversation::json::Json;
use rolecall_jinja::{InputEntry, InputValue, Inputs, Tag};

/// Cases in files, as the whole workspace has them.
#[path = "../../../testkit/src/fixture.rs"]
pub mod fixture;

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

/// The project's root.
pub fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// A folder of reference files beside the project, where there is one.
pub fn shared(name: &str) -> Option<PathBuf> {
    let path = root().join("../shared").join(name);
    if path.exists() {
        return Some(path);
    }
    eprintln!("SKIPPED: there is no ../shared/{name} beside the project");
    None
}

/// What each tag below a value stands for: a path as one would write it.
pub fn paths(root: &str, value: &Json) -> HashMap<Tag, String> {
    let mut paths = HashMap::new();
    walk(root.to_owned(), value, &mut paths);
    paths
}

fn walk(path: String, value: &Json, paths: &mut HashMap<Tag, String>) {
    match value {
        Json::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                walk(format!("{path}[{index}]"), item, paths);
            }
        }
        Json::Object(object) => {
            for (key, item) in object.iter() {
                let inner = if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
                paths.insert(Tag(Tag::of(item).0 + 1), format!("key {inner}"));
                walk(inner, item, paths);
            }
        }
        _ => {}
    }
    paths.insert(Tag::of(value), path);
}
