//! The keys of answers for training.

use std::ops::Range;

use rolecall_conversation::json::Number;
use rolecall_conversation::{Json, object};
use rolecall_render::LossNote;

use crate::loss::{LossSpan, TokenLoss, first_behind, note_code, note_message, note_text};
use crate::training::{Rewritten, SampleNumber, TruncationReport};

/// Returns `"loss_notes"`, `"truncated"` and `"sample"`, each if there is something to report.
pub(super) fn training_notes(
    loss: Option<TokenLoss<'_>>,
    truncated: Option<&TruncationReport>,
    part: Option<SampleNumber>,
) -> impl Iterator<Item = (&'static str, Json)> {
    let notes = loss.map(|loss| loss.loss.notes.as_slice()).filter(|notes| !notes.is_empty());
    let notes = notes.map(|notes| ("loss_notes", Json::Array(notes.iter().map(of_loss_note).collect())));
    let truncated = truncated.map(|truncated| ("truncated", of_truncated(truncated)));
    notes.into_iter().chain(truncated).chain(part.map(|part| ("sample", of_part(part))))
}

/// Returns `{"index", "of", "from", "rewritten"?: {"message"?, "by", "kept"}}`.
fn of_part(part: SampleNumber) -> Json {
    let mut object = object! {
        "index" => part.index as i64, "of" => part.of as i64, "from" => part.from as i64,
    };
    if let Some(Rewritten { message, by, kept }) = part.rewritten {
        let mut rewritten = object! { "by" => by as i64, "kept" => kept as i64 };
        if let Some(message) = message {
            rewritten.insert("message", Json::from(message as i64));
        }
        object.insert("rewritten", Json::Object(rewritten));
    }
    Json::Object(object)
}

/// Returns a note as `{"code", "message", "message_index"?}`.
pub(super) fn of_loss_note(note: &LossNote) -> Json {
    let mut object = object! { "code" => note_code(note), "message" => note_text(note) };
    if let Some(index) = note_message(note) {
        object.insert("message_index", Json::from(index as i64));
    }
    Json::Object(object)
}

/// Returns `{"by", "ids", "kept", "cut"?, "messages"?, "no_loss"?}`.
fn of_truncated(truncated: &TruncationReport) -> Json {
    let TruncationReport { by, ids, kept, cut, messages, no_loss } = truncated;
    let mut object = object! { "by" => by.name(), "ids" => *ids as i64, "kept" => *kept as i64 };
    if *cut > 0 {
        object.insert("cut", Json::from(*cut as i64));
    }
    if !messages.is_empty() {
        let messages = messages.iter().map(|message| Json::from(*message as i64));
        object.insert("messages", Json::Array(messages.collect()));
    }
    if *no_loss {
        object.insert("no_loss", Json::from(true));
    }
    Json::Object(object)
}

/// Returns a weight in the shortest spelling that gives the same value.
pub(super) fn of_weight(weight: f32) -> Json {
    Number::from_spelling(&weight.to_string()).map_or(Json::Null, Json::Number)
}

/// Cuts a range into pieces that carry loss or do not.
pub(super) fn cut(range: Range<usize>, loss: &[LossSpan]) -> Vec<(Range<usize>, bool)> {
    let mut pieces = Vec::new();
    let mut at = range.start;
    for span in first_behind(loss, range.start).iter().take_while(|span| span.range.start < range.end) {
        let (start, end) = (span.range.start.clamp(at, range.end), span.range.end.clamp(at, range.end));
        if at < start {
            pieces.push((at..start, false));
        }
        if start < end {
            pieces.push((start..end, true));
        }
        at = at.max(end);
    }
    if at < range.end {
        pieces.push((at..range.end, false));
    }
    pieces
}
