use rolecall_conversation::json::{self, Layout, Object};
use rolecall_conversation::{Arguments, Json};

use super::super::ArgumentForm;

/// Converts the arguments of a call to a form: missing arguments become an empty object, JSON text
/// becomes an object, or an object becomes JSON text. The text was validated as JSON when the
/// message was parsed.
///
/// If text became an object, returns the spellings of the values in it.
pub(super) fn adapt(call: &mut Json, form: ArgumentForm) -> Option<Vec<String>> {
    let Json::Object(call) = call else { return None };
    match call.get_mut("function") {
        Some(Json::Object(function)) => adapt_function(function, form),
        // `{"name": .., "arguments": ..}` without a wrapper
        _ => adapt_function(call, form),
    }
}

fn adapt_function(function: &mut Object, form: ArgumentForm) -> Option<Vec<String>> {
    let mut spellings = None;
    let empty = || match form {
        ArgumentForm::String => Json::from("{}"),
        ArgumentForm::Mapping | ArgumentForm::Either => Json::Object(Object::new()),
    };
    let adapted = match (function.get("arguments"), form) {
        (None | Some(Json::Null), _) => empty(),
        (Some(Json::String(text)), _) if text.trim().is_empty() => empty(),
        (Some(Json::String(text)), ArgumentForm::Mapping) => match Arguments::Text(text).to_object() {
            Ok(object) => {
                let object = Json::Object(object);
                spellings = json::spellings(&object, text);
                object
            }
            Err(_) => return None,
        },
        (Some(value @ Json::Object(_)), ArgumentForm::String) => Json::from(json::write(value, &Layout::default())),
        _ => return None,
    };
    function.insert("arguments", adapted);
    spellings
}
