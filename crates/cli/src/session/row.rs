//! Writes the result of a step as JSON.

use rolecall::answer;
use rolecall::conversation::json::Object;
use rolecall::conversation::{Json, object};

use super::{BadStep, Done};
use crate::refusal::Refusal;

/// Returns `{"step", "id"?, "operation", "session", ..}`.
pub fn of_done(step: usize, id: Option<&Json>, operation: &str, session: &str, done: &Done) -> Json {
    let mut row = head(step, id, Some(operation), session);
    let facts = match done {
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
        Done::Named { name, total } => Json::Object(object! { "name" => name.as_str(), "total" => *total as i64 }),
    };
    if let Json::Object(facts) = facts {
        facts.iter().for_each(|(key, value)| row.insert(key, value.clone()));
    }
    Json::Object(row)
}

/// Returns `{"step", "id"?, "operation"?, "session", "line", "column"?, "error"}`.
pub fn of_refusal(
    step: usize,
    id: Option<&Json>,
    operation: Option<&str>,
    session: &str,
    line: usize,
    refusal: &Refusal,
) -> Json {
    let mut row = head(step, id, operation, session);
    row.insert("line", Json::from(line as i64));
    if let Refusal::BadStep(BadStep::NotJson(error)) = refusal {
        row.insert("column", Json::from(error.column as i64));
    }
    if let Json::Object(error) = refusal.to_json(None) {
        error.iter().for_each(|(key, value)| row.insert(key, value.clone()));
    }
    if let (Refusal::Library(rolecall::Error::Session(error)), Some(Json::Object(inner))) =
        (refusal, row.get_mut("error"))
        && let rolecall::session::SessionError::Rewrites(rewrite) = error
    {
        inner.insert("rewrite", answer::of_rewrite(rewrite));
    }
    Json::Object(row)
}

fn head(step: usize, id: Option<&Json>, operation: Option<&str>, session: &str) -> Object {
    let mut row = object! { "step" => step as i64 };
    if let Some(id) = id {
        row.insert("id", id.clone());
    }
    if let Some(operation) = operation {
        row.insert("operation", Json::from(operation));
    }
    row.insert("session", Json::from(session));
    row
}
