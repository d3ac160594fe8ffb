//! The values of an answer's keys.

use rolecall_conversation::json::{Number, Object};
use rolecall_conversation::{Json, object};
use rolecall_encode::Note;
use rolecall_format::Generation;
use rolecall_render::{Account, Leaf, LeftOut, Origin, Prompt, Unusual};

use super::account::of_account;

/// Inserts the keys that follow the segments.
pub(super) fn insert_end(answer: &mut Object, prompt: &Prompt) {
    answer.insert("stop", Json::Array(prompt.stops().into_iter().map(Json::from).collect()));
    answer.insert("stop_ids", numbers(prompt.stop_ids()));
    answer.insert("generation", of_generation(&prompt.generation));
    if !prompt.dropped().is_empty() {
        answer.insert(
            "left_out",
            Json::Array(prompt.left_out().iter().map(|left_out| of_left_out(left_out, prompt)).collect()),
        );
    }
    if let Some(account) = prompt.account()
        && (account.leaves().iter().any(Leaf::is_telling) || !account.forms().is_empty())
    {
        answer.insert("account", of_account(account));
    }
    if !prompt.unusual.is_empty() {
        answer.insert("unusual", Json::Array(prompt.unusual.iter().map(of_unusual).collect()));
    }
}

fn of_unusual(unusual: &Unusual) -> Json {
    let usual = unusual.usual.iter().map(|value| Json::from(value.as_str())).collect();
    let (option, value) = (unusual.option.as_str(), unusual.value.as_str());
    Json::Object(object! { "option" => option, "value" => value, "usual" => Json::Array(usual) })
}

/// Returns a kind of omission as
/// `{"why", "count", "message"?, "field", "by_design"?, "as_wanted"?}`.
///
/// `"message"` and `"field"` are the place of the first omission. `"as_wanted"` is set if the
/// template writes the calls in the form of [`Forms::AsWanted`](crate::template::Forms).
fn of_left_out(left_out: &LeftOut<'_>, prompt: &Prompt) -> Json {
    let mut object = object! { "why" => left_out.why, "count" => left_out.count as i64 };
    if let Some(index) = left_out.first.message {
        object.insert("message", Json::from(index as i64));
    }
    object.insert("field", Json::from(&*left_out.first.field));
    if left_out.by_design {
        object.insert("by_design", Json::from(true));
    }
    if left_out.first.field.starts_with("tool_calls") && prompt.account().is_some_and(Account::offers_forms) {
        object.insert("as_wanted", Json::from(true));
    }
    Json::Object(object)
}

/// Returns an origin as `"control"`, `"format"`, `{"message": 0, "field": "content"}`,
/// `{"tool": 0}`, `{"document": 0}` or `{"option": "date_string"}`.
pub fn of_origin(origin: &Origin) -> Json {
    match origin {
        Origin::Control(_) => Json::from("control"),
        Origin::Format => Json::from("format"),
        Origin::Message { message, field } => {
            Json::Object(object! { "message" => *message as i64, "field" => field.as_ref() })
        }
        Origin::Tool { tool } => Json::Object(object! { "tool" => *tool as i64 }),
        Origin::Document { document } => Json::Object(object! { "document" => *document as i64 }),
        Origin::Option { name } => Json::Object(object! { "option" => name.as_str() }),
    }
}

/// Returns the sampling defaults. Unknown values are missing.
pub fn of_generation(generation: &Generation) -> Json {
    let mut object = Object::new();
    let whole = [
        ("session_len", generation.session_len),
        ("max_new_tokens", generation.max_new_tokens),
        ("top_k", generation.top_k),
    ];
    for (key, value) in whole {
        if let Some(value) = value {
            object.insert(key, Json::from(value as i64));
        }
    }
    let real = [
        ("temperature", generation.temperature),
        ("top_p", generation.top_p),
        ("min_p", generation.min_p),
        ("repetition_penalty", generation.repetition_penalty),
    ];
    for (key, value) in real {
        if let Some(number) = value.and_then(|value| Number::from_spelling(&format!("{value:?}"))) {
            object.insert(key, Json::Number(number));
        }
    }
    Json::Object(object)
}

/// Returns a note about the ends of a prompt as `{"code", "message"}`.
pub(super) fn of_note(note: &Note) -> Json {
    Json::Object(object! { "code" => note.code(), "message" => note.to_string() })
}

pub(super) fn numbers(ids: Vec<u32>) -> Json {
    Json::Array(ids.into_iter().map(|id| Json::from(i64::from(id))).collect())
}

/// Returns an object with the id of the request, if it has one.
pub(crate) fn with_id(id: Option<&Json>) -> Object {
    id.map_or_else(Object::new, |id| object! { "id" => id.clone() })
}
