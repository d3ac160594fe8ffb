//! Which keys of a vector's options an operation looks at.

use rolecall::conversation::json::Object;

use crate::Verdict;

/// A failure, if the options have a key that nothing here looks at: what it says would go untested.
pub(super) fn unread(options: &Object, read: &[&str]) -> Option<Verdict> {
    let unread: Vec<&str> = options.iter().map(|(key, _)| key).filter(|key| !read.contains(key)).collect();
    (!unread.is_empty()).then(|| Verdict::Failed {
        expected: "options that the runner knows".into(),
        found: format!("it does not look at `{}`", unread.join("`, `")),
    })
}
