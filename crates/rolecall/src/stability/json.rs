//! Comparisons as JSON.

use rolecall_conversation::json::Object;
use rolecall_conversation::{Json, object};
use rolecall_render::Error as Refusal;

use super::{ByteSource, KeptLength, Report, Stability, Step};
use crate::{Error, answer};

impl Report {
    /// Returns the report as
    /// `{"stable", "conversations": [{"name", "tells"?, "stable", "steps"}]}`, with the steps of
    /// [`to_json`].
    pub fn to_json(&self) -> Json {
        let cases = self.cases.iter().map(|(case, found)| {
            let mut object = object! { "name" => case.name.as_str() };
            if !case.tells.is_empty() {
                object.insert("tells", Json::from(case.tells.as_str()));
            }
            insert(&mut object, found);
            Json::Object(object)
        });
        let is_stable = self.is_stable() && self.says_anything();
        Json::Object(object! { "stable" => is_stable, "conversations" => Json::Array(cases.collect()) })
    }
}

/// Returns a comparison as
/// `{"id"?, "stable", "steps": [{"messages", "added", "history", "generation_prompt"?}]}`.
pub fn to_json(id: Option<&Json>, found: &Stability) -> Json {
    let mut object = answer::with_id(id);
    insert(&mut object, found);
    Json::Object(object)
}

fn insert(object: &mut Object, found: &Stability) {
    object.insert("stable", Json::from(found.is_stable() && found.says_anything()));
    object.insert("steps", Json::Array(found.steps.iter().map(of_step).collect()));
}

fn of_step(step: &Step) -> Json {
    let added = object! {
        "role" => step.added.role.as_str(), "reasoning" => step.added.reasoning, "calls" => step.added.calls,
    };
    let mut object = object! {
        "messages" => count(step.messages), "added" => Json::Object(added), "history" => of_kept(&step.history),
    };
    if let Some(generation) = &step.generation {
        object.insert("generation_prompt", of_kept(generation));
    }
    Json::Object(object)
}

fn of_kept(kept: &Result<KeptLength, Refusal>) -> Json {
    let kept = match kept {
        Ok(kept) => kept,
        Err(refusal) => return answer::of_error(None, &Error::Render(refusal.clone())),
    };
    let mut object = object! {
        "stable" => kept.is_stable(), "bytes" => count(kept.bytes), "characters" => count(kept.characters),
    };
    if let Some(ids) = kept.ids {
        object.insert("ids", Json::Object(object! { "of" => count(ids.of), "kept" => count(ids.kept) }));
    }
    if let Some(change) = &kept.change {
        let mut inner = object! {
            "byte" => count(change.byte), "character" => count(change.character),
            "lost_bytes" => count(kept.lost_bytes()), "earlier" => of_written(&change.earlier),
        };
        if let Some(later) = &change.later {
            inner.insert("later", of_written(later));
        }
        object.insert("change", Json::Object(inner));
    }
    Json::Object(object)
}

fn of_written(written: &ByteSource) -> Json {
    let mut object = object! { "text" => written.text.as_str(), "origin" => answer::of_origin(&written.origin) };
    if let Some(message) = written.message {
        object.insert("message", count(message));
    }
    if let Some(slot) = written.slot {
        object.insert("layout", Json::from(slot.key()));
    }
    if let Some(spot) = written.spot {
        object.insert("line", Json::from(i64::from(spot.line)));
        object.insert("column", Json::from(i64::from(spot.column)));
    }
    Json::Object(object)
}

fn count(count: usize) -> Json {
    Json::from(count as i64)
}
