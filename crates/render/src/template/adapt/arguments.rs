use rolecall_conversation::json::{self, Layout, Object};
use rolecall_conversation::{Arguments, Json};

use super::super::ArgumentForm;

/// Returns a call with its arguments in another form, or `None` if they have it: missing arguments
/// become an empty object, JSON text becomes an object, or an object becomes JSON text. The text
/// was validated as JSON when the message was parsed.
///
/// If text became an object, the text of the values in it is returned too.
pub(super) fn adapted(call: &Json, form: ArgumentForm) -> Option<(Json, Source)> {
    let call = call.as_object()?;
    let Some(Json::Object(function)) = call.get("function") else {
        // `{"name": .., "arguments": ..}` without a wrapper
        let (arguments, source) = arguments_in(call, form)?;
        return Some((call.with("arguments", arguments).into(), source));
    };
    let (arguments, source) = arguments_in(function, form)?;
    Some((call.with("function", function.with("arguments", arguments).into()).into(), source))
}

/// The text that arguments were converted from.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// It is not known, or there was none.
    Unknown,
    /// Each value is spelled so.
    Spelled(Vec<String>),
    /// An object in it has a key twice, of which the last value is kept.
    KeyTwice,
}

fn arguments_in(function: &Object, form: ArgumentForm) -> Option<(Json, Source)> {
    let mut source = Source::Unknown;
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
                source = match json::spellings(&object, text) {
                    Some(spellings) => Source::Spelled(spellings),
                    None if json::parse_unique(text).is_err_and(|error| error.is_key_twice) => Source::KeyTwice,
                    None => Source::Unknown,
                };
                object
            }
            Err(_) => return None,
        },
        (Some(value @ Json::Object(_)), ArgumentForm::String) => Json::from(json::write(value, &Layout::default())),
        _ => return None,
    };
    Some((adapted, source))
}
