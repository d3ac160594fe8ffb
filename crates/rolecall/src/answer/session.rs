//! The results of sessions as JSON.

use std::ops::Range;

use rolecall_conversation::json::Object;
use rolecall_conversation::{Json, object};

use super::fields::numbers;
use super::reading::of_reading;
use super::training::{of_loss_note, of_weight};
use crate::session::{Break, Cut, Delta, Difference, Proof, Reply, Rewrite, Rollout, Segment, Session, SessionNote};

/// Returns what an operation changed as
/// `{"keep", "ids", "total", "segments", "reused", "proof", "notes"?}`.
///
/// `"reused"` is the share of all ids that the engine has already processed.
///
/// ```
/// use rolecall::answer;
/// use rolecall::conversation::json;
/// use rolecall::session::{Delta, Proof};
/// let delta = Delta { keep: 3, ids: vec![7], segments: Vec::new(), proof: Proof::Closing, notes: Vec::new() };
/// let text = json::write(&answer::of_delta(&delta), &json::Layout::compact());
/// assert_eq!(text, r#"{"keep":3,"ids":[7],"total":4,"segments":[],"reused":0.75,"proof":{"code":"closing"}}"#);
/// ```
pub fn of_delta(delta: &Delta) -> Json {
    let mut object = Object::new();
    insert_ids(&mut object, delta.keep, &delta.ids, &delta.segments);
    object.insert("reused", share(delta.keep, delta.total()));
    object.insert("proof", of_proof(&delta.proof));
    insert_notes(&mut object, &delta.notes);
    Json::Object(object)
}

/// Returns a reply that a session accepted as `{"keep", "ids", "total", "segments", "message_index",
/// "message", "finish_reason", "malformed", "stop", "unfinished", "in_reasoning", "notes"?}`.
///
/// `keep` is the number of ids before the reply; the ids of the reply and their segments follow.
pub fn of_reply(reply: &Reply, keep: usize, ids: &[u32], segments: &[Segment]) -> Json {
    let mut object = Object::new();
    insert_ids(&mut object, keep, ids, segments);
    object.insert("message_index", Json::from(reply.message as i64));
    if let Json::Object(reading) = of_reading(None, &reply.reading) {
        reading.iter().for_each(|(key, value)| object.insert(key, value.clone()));
    }
    object.insert("stop", reply.stop.map_or(Json::Null, |id| Json::from(i64::from(id))));
    object.insert("unfinished", Json::from(reply.is_unfinished));
    object.insert("in_reasoning", Json::from(reply.in_reasoning));
    insert_notes(&mut object, &reply.notes);
    Json::Object(object)
}

/// Returns runs of ids as
/// `[{"author", "message"?, "part", "ids": [first, end], "weight"}, ..]`.
pub fn of_segments(segments: &[Segment]) -> Json {
    Json::Array(segments.iter().map(of_segment).collect())
}

fn of_segment(segment: &Segment) -> Json {
    let mut object = object! { "author" => segment.author.name() };
    if let Some(message) = segment.message {
        object.insert("message", Json::from(message as i64));
    }
    object.insert("part", Json::from(segment.part.name()));
    object.insert("ids", of_range(&segment.ids));
    object.insert("weight", of_weight(segment.weight));
    Json::Object(object)
}

/// Returns what truncation removed as `{"dropped": [first, end], "before", "after", ..}`, with the keys
/// of [`of_delta`].
pub fn of_cut(cut: &Cut) -> Json {
    let mut object = object! {
        "dropped" => of_range(&cut.dropped), "before" => cut.before as i64, "after" => cut.after as i64,
    };
    if let Json::Object(delta) = of_delta(&cut.delta) {
        delta.iter().for_each(|(key, value)| object.insert(key, value.clone()));
    }
    Json::Object(object)
}

/// Returns how a session differs from the stock rendering as `{"stock_text", "stock_ids", "gaps":
/// [{"code", "message"?, "session", "stock", "byte", "id", "ids", "stock_ids"}, ..]}`.
pub fn of_difference(difference: &Difference) -> Json {
    let gaps = difference.gaps.iter().map(|gap| {
        let mut object = object! { "code" => gap.code() };
        if let Some(message) = gap.message {
            object.insert("message", Json::from(message as i64));
        }
        object.insert("session", Json::from(gap.session.as_str()));
        object.insert("stock", Json::from(gap.stock.as_str()));
        object.insert("byte", Json::from(gap.byte as i64));
        object.insert("id", Json::from(gap.id as i64));
        object.insert("ids", Json::from(gap.ids as i64));
        object.insert("stock_ids", Json::from(gap.stock_ids as i64));
        Json::Object(object)
    });
    Json::Object(object! {
        "stock_text" => difference.has_stock_text(),
        "stock_ids" => difference.has_stock_ids,
        "gaps" => Json::Array(gaps.collect()),
    })
}

/// Returns a rollout as `{"messages", "ids", "loss_weights", "segments", "breaks", "branches"?,
/// "loss_notes"?}`.
///
/// Segments have their `"text"` too, in which bytes that are not UTF-8 are U+FFFD. A break is
/// `{"id", "code", "message", "rewrite"?}`. The branches are the ids that were replaced.
pub fn of_rollout(session: &Session, rollout: &Rollout) -> Json {
    let messages = rollout.messages.iter().map(|message| Json::Object(message.as_object().clone()));
    let weights = rollout.weights.iter().map(|weight| of_weight(*weight));
    let segments = rollout.segments.iter().map(|segment| {
        let mut of = of_segment(segment);
        if let Json::Object(object) = &mut of {
            let bytes = session.bytes_of(segment.ids.clone());
            object.insert("text", Json::from(String::from_utf8_lossy(&bytes).into_owned()));
        }
        of
    });
    let mut object = object! {
        "messages" => Json::Array(messages.collect()),
        "ids" => numbers(rollout.ids.clone()),
        "loss_weights" => Json::Array(weights.collect()),
        "segments" => Json::Array(segments.collect()),
        "breaks" => Json::Array(rollout.breaks.iter().map(of_break).collect()),
    };
    let branches: Vec<Json> = session.branches().map(numbers).collect();
    if !branches.is_empty() {
        object.insert("branches", Json::Array(branches));
    }
    if !rollout.notes.is_empty() {
        object.insert("loss_notes", Json::Array(rollout.notes.iter().map(of_loss_note).collect()));
    }
    Json::Object(object)
}

/// Returns a break as `{"id", "code", "message", "rewrite"?}`.
pub fn of_break(found: &Break) -> Json {
    let mut object = object! { "id" => found.id as i64 };
    if let Json::Object(note) = of_session_note(&found.note) {
        note.iter().for_each(|(key, value)| object.insert(key, value.clone()));
    }
    Json::Object(object)
}

/// Returns what a template rewrites as
/// `{"byte", "message"?, "line"?, "column"?, "ids", "before", "after"}`.
pub fn of_rewrite(rewrite: &Rewrite) -> Json {
    let mut object = object! { "byte" => rewrite.byte as i64 };
    if let Some(message) = rewrite.message {
        object.insert("message", Json::from(message as i64));
    }
    if let Some(spot) = rewrite.line {
        object.insert("line", Json::from(i64::from(spot.line)));
        object.insert("column", Json::from(i64::from(spot.column)));
    }
    object.insert("ids", Json::from(rewrite.ids as i64));
    object.insert("before", Json::from(rewrite.before.as_str()));
    object.insert("after", Json::from(rewrite.after.as_str()));
    Json::Object(object)
}

/// Returns a proof as `{"code"}`, with `"start"` for `growth`, and for `whole` with the `"reason"` why
/// the new part could not be rendered alone and its `"message"`.
pub fn of_proof(proof: &Proof) -> Json {
    let mut object = object! { "code" => proof.code() };
    match proof {
        Proof::Growth { start } => object.insert("start", Json::from(*start as i64)),
        Proof::Whole { why: Some(why) } => {
            object.insert("reason", Json::from(why.code()));
            object.insert("message", Json::from(why.to_string()));
        }
        _ => {}
    }
    Json::Object(object)
}

/// Returns a note as `{"code", "message", "rewrite"?}`.
pub fn of_session_note(note: &SessionNote) -> Json {
    let mut object = object! { "code" => note.code(), "message" => note.to_string() };
    if let SessionNote::Kept(rewrite) = note {
        object.insert("rewrite", of_rewrite(rewrite));
    }
    Json::Object(object)
}

fn insert_notes(object: &mut Object, notes: &[SessionNote]) {
    if !notes.is_empty() {
        object.insert("notes", Json::Array(notes.iter().map(of_session_note).collect()));
    }
}

fn insert_ids(object: &mut Object, keep: usize, ids: &[u32], segments: &[Segment]) {
    object.insert("keep", Json::from(keep as i64));
    object.insert("ids", numbers(ids.to_vec()));
    object.insert("total", Json::from((keep + ids.len()) as i64));
    object.insert("segments", of_segments(segments));
}

/// Returns a share with three digits after the point, or 0 of nothing.
fn share(part: usize, of: usize) -> Json {
    let thousandths = part.saturating_mul(1000).checked_div(of).unwrap_or(0);
    of_weight(thousandths as f32 / 1000.0)
}

fn of_range(range: &Range<usize>) -> Json {
    Json::Array(vec![Json::from(range.start as i64), Json::from(range.end as i64)])
}
