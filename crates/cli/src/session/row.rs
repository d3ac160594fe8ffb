//! Writes the result of a step as JSON.

use rolecall::answer;
use rolecall::conversation::json::Object;
use rolecall::conversation::{Json, json, object};
use rolecall::session::SessionError;

use super::play::PlayedStep;
use super::{BadStep, Done};
use crate::refusal::Refusal;

/// Returns `{"step", "id"?, "operation"?, "session", ..}`, or for a step that was refused
/// `{"step", "id"?, "operation"?, "session", "line", "column"?, "error"}`.
pub fn of_played(played: &PlayedStep<'_>) -> Json {
    let mut row = object! { "step" => played.step as i64 };
    if let Some(id) = &played.id {
        row.insert("id", id.clone());
    }
    if let Some(operation) = played.operation {
        row.insert("operation", Json::from(operation));
    }
    row.insert("session", Json::from(played.session.as_str()));
    match &played.outcome {
        Ok(done) => add(&mut row, of_done(done)),
        Err(refusal) => {
            row.insert("line", Json::from(played.line as i64));
            if let Refusal::BadStep(BadStep::NotJson(error)) = refusal {
                row.insert("column", Json::from(error.column as i64));
            }
            add(&mut row, refusal.to_json(None));
            if let Refusal::Library(rolecall::Error::Session(SessionError::Rewrites(rewrite))) = refusal
                && let Some(Json::Object(error)) = row.get_mut("error")
            {
                error.insert("rewrite", answer::of_rewrite(rewrite));
            }
        }
    }
    Json::Object(row)
}

fn of_done(done: &Done) -> Json {
    match done {
        Done::Began { messages } => Json::Object(object! { "messages" => *messages as i64 }),
        Done::Planned { rewrite } => {
            let mut facts = object! { "stable" => rewrite.is_none() };
            if let Some(rewrite) = rewrite {
                facts.insert("rewrite", answer::of_rewrite(rewrite));
            }
            Json::Object(facts)
        }
        Done::Changed(delta) => answer::of_delta(delta),
        Done::Accepted { reply, keep, ids, segments } => answer::of_reply(reply, *keep, ids, segments),
        Done::Truncated(cut) => answer::of_cut(cut),
        Done::Saved(saved) => {
            let saved = json::parse(saved).unwrap_or_else(|_| Json::from(saved.as_str()));
            Json::Object(object! { "saved" => saved })
        }
        Done::Restored { messages, total, is_open } => Json::Object(object! {
            "messages" => *messages as i64, "total" => *total as i64, "open" => *is_open,
        }),
        Done::Compared(difference) => answer::of_difference(difference),
        Done::Named { name, total } => Json::Object(object! { "name" => name.as_str(), "total" => *total as i64 }),
    }
}

fn add(row: &mut Object, facts: Json) {
    if let Json::Object(facts) = facts {
        facts.iter().for_each(|(key, value)| row.insert(key, value.clone()));
    }
}
