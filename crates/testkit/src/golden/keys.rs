//! Checks that every key of a vector's options is read.

use rolecall::conversation::json::Object;

use crate::Verdict;

/// Returns a failure if the options have a key that the operation does not read: its effect would
/// go untested.
pub(super) fn unread(options: &Object, read: &[&str]) -> Option<Verdict> {
    let unread: Vec<&str> = options.iter().map(|(key, _)| key).filter(|key| !read.contains(key)).collect();
    (!unread.is_empty()).then(|| Verdict::Failed {
        expected: "options that the runner knows".into(),
        found: format!("keys that the operation does not read: `{}`", unread.join("`, `")),
    })
}
