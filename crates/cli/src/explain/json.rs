use rolecall::json::Object;
use rolecall::{Json, answer, object};

use super::view::View;

/// The library's answer with `"tokens"`, and `"spelled"` where the conversation spells control tokens.
pub fn to_json(id: Option<&Json>, view: &View<'_>) -> Json {
    let prompt = view.explained.prompt;
    let answered = match (view.explained.loss, view.explained.encoded) {
        (Some(loss), encoded) => answer::of_training(id, prompt, encoded, loss),
        (None, Some(encoded)) => answer::of_encoded(id, prompt, encoded),
        (None, None) => answer::of_prompt(id, prompt),
    };
    let mut object = match answered {
        Json::Object(object) => object,
        other => object! { "prompt" => other },
    };
    if let Some(encoded) = view.explained.encoded {
        let tokens = encoded.tokens.iter().map(|token| {
            let mut inner: Object = object! {
                "id" => i64::from(token.id),
                "text" => prompt.text().get(token.start..token.end).unwrap_or_default(),
                "start" => token.start as i64,
                "end" => token.end as i64,
                "control" => token.control,
            };
            if let Some(origin) = prompt.origin_at(token.start) {
                inner.insert("origin", answer::of_origin(&origin));
            }
            Json::Object(inner)
        });
        object.insert("tokens", Json::Array(tokens.collect()));
    }
    if !view.forgeries.is_empty() {
        let spelled = view.forgeries.iter().map(|forgery| {
            Json::Object(object! {
                "token" => forgery.token.as_str(),
                "start" => forgery.span.start as i64,
                "end" => forgery.span.end as i64,
                "origin" => answer::of_origin(&forgery.origin),
                "control" => forgery.succeeded,
            })
        });
        object.insert("spelled", Json::Array(spelled.collect()));
    }
    Json::Object(object)
}
