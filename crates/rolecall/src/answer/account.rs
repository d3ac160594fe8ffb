//! The account of a request as JSON.

use rolecall_conversation::json::Object;
use rolecall_conversation::{Json, object};
use rolecall_render::{Account, FormChange, Leaf, LeafGroup, LeafKind};

/// Returns an account as `{"counts": {"written", "left_out"?, ..}, "leaves": [..], "forms"?: [..]}`.
///
/// `"counts"` has the number of leaves of each kind that occurs. `"leaves"` has those that are not
/// written as they were given, each as [`of_leaf`] returns it, without roles, types and ids. `"forms"`
/// has what the template received in another form, each as `{"how", "count", "message"?, "field"}` with
/// the place of the first one.
///
/// ```
/// use rolecall::{Model, Request, answer};
/// use rolecall::conversation::json;
/// let text = r#"{"messages": [{"role": "user", "content": "Hi", "label": "greeting"}]}"#;
/// let prompt = Model::open("qwen2.5")?.prompt(Request::from_text(text)?)?;
/// let account = json::write(&answer::of_account(prompt.account()), &json::Layout::compact());
/// assert_eq!(account, concat!(
///     r#"{"counts":{"written":1,"read":1,"left_out":1},"leaves":[{"kind":"left_out","message":0,"field":"label","#,
///     r#""why":"nothing reads this key of a message"}]}"#));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn of_account(account: &Account) -> Json {
    let mut counts = Object::new();
    for kind in LeafKind::ALL {
        let count = account.count(kind);
        if count > 0 || kind == LeafKind::Written {
            counts.insert(kind.name(), Json::from(count as i64));
        }
    }
    let leaves = account.leaves().iter().filter(|leaf| leaf.is_telling()).map(of_leaf);
    let mut all = object! { "counts" => Json::Object(counts), "leaves" => Json::Array(leaves.collect()) };
    if !account.forms().is_empty() {
        all.insert("forms", Json::Array(account.forms().iter().map(of_form_change).collect()));
    }
    Json::Object(all)
}

fn of_form_change(change: &FormChange) -> Json {
    let mut object = object! { "how" => change.kind.name(), "count" => change.count as i64 };
    if let Some(index) = change.first.message {
        object.insert("message", Json::from(index as i64));
    }
    object.insert("field", Json::from(&*change.first.field));
    Json::Object(object)
}

/// Returns a leaf as
/// `{"kind", "message"?, "field", "how"?, "rule"?, "missing"?, "why", "leaves"?, "remedy"?}`.
///
/// `"how"` is how it was changed, `"missing"` has the byte ranges of its text that are not in the
/// prompt, and `"leaves"` is the number of leaves that it stands for, if there are several.
pub fn of_leaf(leaf: &Leaf) -> Json {
    Json::Object(object_of(leaf, None))
}

/// Returns a group of leaves as [`of_leaf`] returns its first one, with `"count"`, the number of
/// places.
pub fn of_leaf_group(group: &LeafGroup<'_>) -> Json {
    Json::Object(object_of(group.first, Some(group.count)))
}

fn object_of(leaf: &Leaf, count: Option<usize>) -> Object {
    let mut object = object! { "kind" => leaf.kind.name() };
    if let Some(count) = count {
        object.insert("count", Json::from(count as i64));
    }
    if let Some(index) = leaf.place.message {
        object.insert("message", Json::from(index as i64));
    }
    object.insert("field", Json::from(&*leaf.place.field));
    if let Some(change) = leaf.change {
        object.insert("how", Json::from(change.name()));
    }
    if let Some(rule) = leaf.rule {
        object.insert("rule", Json::from(rule.name()));
    }
    if !leaf.missing.is_empty() {
        let range = |range: &std::ops::Range<usize>| {
            Json::Array(vec![Json::from(range.start as i64), Json::from(range.end as i64)])
        };
        object.insert("missing", Json::Array(leaf.missing.iter().map(range).collect()));
    }
    object.insert("why", Json::from(leaf.why));
    if leaf.count > 1 {
        object.insert("leaves", Json::from(leaf.count as i64));
    }
    if let Some(remedy) = leaf.remedy {
        object.insert("remedy", Json::from(remedy.name()));
    }
    object
}
