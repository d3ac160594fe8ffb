//! A refused template as JSON.

use rolecall::conversation::{Json, object};

use crate::refusal::Refusal;

/// Returns `{"name", "error": {..}}`.
pub fn of_refused(name: &str, refusal: &Refusal) -> Json {
    let mut answer = object! { "name" => name };
    if let Json::Object(refused) = refusal.to_json(None) {
        for (key, value) in refused.iter() {
            answer.insert(key, value.clone());
        }
    }
    Json::Object(answer)
}
