//! Shared code of this crate's tests: JSON as input, and the reference files next to the
//! repository.

#![allow(dead_code, unused_imports, reason = "each test uses its own part")]
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::collections::HashMap;
use std::path::PathBuf;

use rolecall_conversation::json::Json;
use rolecall_jinja::Tag;

pub mod attacks;
mod json_inputs;
pub mod usage;

pub use json_inputs::JsonInputs;
pub use rolecall_fixture::{root, say_skipped, shared};

/// Returns a reference file or folder next to the repository, if it exists. Otherwise reports that
/// `what` was skipped.
pub fn reference(name: &str, what: &str) -> Option<PathBuf> {
    let path = shared().map(|folder| folder.join(name)).filter(|path| path.exists());
    if path.is_none() {
        say_skipped(what);
    }
    path
}

/// Returns the path of each value and key below a value, by tag.
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
