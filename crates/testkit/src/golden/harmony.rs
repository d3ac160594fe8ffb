//! Rows of the harmony format. The rows that are not pending check that a template gives harmony's
//! ids where the row says so.

use rolecall::conversation::json::{self, Layout, Object};
use rolecall::conversation::{Json, object};

use super::parity::same_ids;
use super::{Context, text};
use crate::Verdict;

/// Compares the ids of the completed prompt with those of every template that the row marks as
/// equal.
///
/// Returns `None` if the row names no template: not every harmony conversation can be expressed in
/// the shape that templates take.
pub(super) fn template_ids(row: &Object, context: &mut Context) -> Option<Verdict> {
    let (Some(Json::Object(chat)), Some(Json::Object(templates))) = (row.get("chat"), row.get("templates")) else {
        return None;
    };
    let same = templates.iter().filter(|(_, agreement)| {
        agreement.as_object().is_some_and(|agreement| text(agreement, "completion_ids") == "same")
    });
    let same: Vec<Json> = same.map(|(template, _)| Json::from(template)).collect();
    if same.is_empty() {
        return None;
    }
    let wanted = row.get("expected").and_then(Json::as_object).and_then(|expected| ids_at(expected, "completion_ids"));
    let Some(wanted) = wanted else {
        return Some(Verdict::cannot_run("the row has no `completion_ids`"));
    };
    let through = object! { "templates" => same, "tokenizer" => "gptoss" };
    Some(same_ids(&through, &request(chat), &wanted, |_| false, context))
}

/// Returns the ids: given in full, or as `{"ids_then": [..]}`, which appends a tail to `ids`.
pub(super) fn ids_at(expected: &Object, key: &str) -> Option<Vec<Json>> {
    match expected.get(key)? {
        Json::Array(ids) => Some(ids.clone()),
        Json::Object(more) => {
            let ids = expected.get("ids")?.as_array()?;
            Some(ids.iter().chain(more.get("ids_then")?.as_array()?).cloned().collect())
        }
        _ => None,
    }
}

pub(super) fn written(value: &Json) -> String {
    json::write(value, &Layout::default())
}

/// Makes a request in which the chat's other keys are template switches.
pub(super) fn request(chat: &Object) -> Object {
    let mut request = object! { "add_generation_prompt" => true };
    let mut switches = Object::new();
    for (key, value) in chat.iter().filter(|(_, value)| !value.is_null()) {
        match key {
            "messages" | "tools" => request.insert(key, value.clone()),
            _ => switches.insert(key, value.clone()),
        }
    }
    request.insert("chat_template_kwargs", Json::Object(switches));
    request
}
