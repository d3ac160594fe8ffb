use rolecall_conversation::Json;
use rolecall_format::CallIds;

use super::super::IdForm;
use crate::call_ids::NewIds;

/// Gives a call its new id, and reports whether it needs one.
pub(super) fn adapt(call: &mut Json, ids: &mut NewIds<'_>) -> bool {
    let Json::Object(call) = call else { return false };
    let function = call.get("function").and_then(Json::as_object).unwrap_or(call);
    let name = function.get("name").and_then(Json::as_str).unwrap_or_default().to_owned();
    let old = call.get("id").and_then(Json::as_str);
    let new = ids.of_call(old, &name);
    let is_new = new.is_some();
    if let Some(new) = new {
        call.insert("id", Json::from(new));
    }
    is_new
}

impl IdForm {
    /// Returns the equivalent rule.
    pub(super) fn rule(self) -> CallIds {
        let text = match self {
            IdForm::NineCharacters => "nine-characters",
            IdForm::FunctionAndNumber => "functions.{name}:{index}",
        };
        CallIds::from_text(text).expect("both are rules")
    }
}
