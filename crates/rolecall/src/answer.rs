//! Answers as JSON: one shape for the command line, the server and Python.

use std::ops::Range;

use rolecall_conversation::json::{Number, Object};
use rolecall_conversation::{Json, object};
use rolecall_encode::Encoded;
use rolecall_format::Generation;
use rolecall_render::{Origin, Prompt};

use crate::Error;
use crate::model::{Evidence, Identified, Model};

/// `{"id"?, "prompt", "segments", "stop", "stop_ids", "generation", "dropped"?}`
///
/// ```
/// use rolecall::{Conversation, Message, Options, Registry, answer, json, render};
/// let registry = Registry::builtin();
/// let conversation = Conversation::new(vec![Message::user("Hi")]);
/// let prompt = render(&conversation, registry.get("chatml").expect("built in"), &Options::default())?;
/// let text = json::write(&answer::of_prompt(None, &prompt), &json::Layout::compact());
/// assert!(text.contains(r#"{"text":"Hi","origin":{"message":0,"field":"content"}}"#));
/// # Ok::<(), rolecall::Error>(())
/// ```
pub fn of_prompt(id: Option<&Json>, prompt: &Prompt) -> Json {
    Json::Object(prompt_object(id, prompt))
}

/// The same with `"ids"` and the `"control_ids"` among them.
pub fn of_encoded(id: Option<&Json>, prompt: &Prompt, encoded: &Encoded) -> Json {
    let mut answer = prompt_object(id, prompt);
    answer.insert("ids", numbers(encoded.ids()));
    answer.insert("control_ids", numbers(encoded.control_ids()));
    Json::Object(answer)
}

/// The answer of [`of_prompt`] or [`of_encoded`] for training: each segment, cut where loss begins or ends, says whether it
/// carries loss (`"loss": true`); `"loss_mask"` says it of each id, 1 or 0. A token that straddles a border carries loss.
pub fn of_training(id: Option<&Json>, prompt: &Prompt, encoded: Option<&Encoded>, loss: &[Range<usize>]) -> Json {
    let mut answer = match encoded {
        Some(encoded) => of_encoded(id, prompt, encoded),
        None => of_prompt(id, prompt),
    };
    if let Json::Object(answer) = &mut answer {
        let mut segments = Vec::new();
        for segment in prompt.segments() {
            for (span, learned) in cut(segment.start..segment.start + segment.text.len(), loss) {
                let text = &prompt.text()[span];
                let origin = of_origin(&segment.origin);
                segments.push(Json::Object(object! { "text" => text, "origin" => origin, "loss" => learned }));
            }
        }
        answer.insert("segments", Json::Array(segments));
        if let Some(encoded) = encoded {
            let learned = |token: &rolecall_encode::EncodedToken| {
                first_behind(loss, token.start).first().is_some_and(|span| span.start < token.end)
            };
            let mask = encoded.tokens.iter().map(|token| Json::from(i64::from(learned(token)))).collect();
            answer.insert("loss_mask", Json::Array(mask));
        }
    }
    answer
}

/// The spans that do not end before a place.
fn first_behind(loss: &[Range<usize>], start: usize) -> &[Range<usize>] {
    &loss[loss.partition_point(|span| span.end <= start)..]
}

/// A range in pieces that carry loss or carry none.
fn cut(range: Range<usize>, loss: &[Range<usize>]) -> Vec<(Range<usize>, bool)> {
    let mut pieces = Vec::new();
    let mut at = range.start;
    for span in first_behind(loss, range.start).iter().take_while(|span| span.start < range.end) {
        let (start, end) = (span.start.clamp(at, range.end), span.end.clamp(at, range.end));
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

/// `{"id"?, "error": {"code", "message", "message_index"?, "field"?, "help"?}}`
pub fn of_error(id: Option<&Json>, error: &Error) -> Json {
    let mut inner = object! { "code" => error.code(), "message" => error.to_string() };
    if let Some(place) = error.place() {
        if let Some(index) = place.message {
            inner.insert("message_index", Json::from(index as i64));
        }
        if !place.field.is_empty() {
            inner.insert("field", Json::from(place.field));
        }
    }
    if let Some(help) = error.help() {
        inner.insert("help", Json::from(help));
    }
    let mut answer = with_id(id);
    answer.insert("error", Json::Object(inner));
    Json::Object(answer)
}

/// `"control"`, `"format"`, `{"message": 0, "field": "content"}`, `{"tool": 0}` or `{"option": "date_string"}`
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

/// The sampling defaults, each only where it is known.
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
        ("repetition_penalty", generation.repetition_penalty),
    ];
    for (key, value) in real {
        if let Some(number) = value.and_then(|value| Number::from_spelling(&format!("{value:?}"))) {
            object.insert(key, Json::Number(number));
        }
    }
    Json::Object(object)
}

/// `{"model", "format", "title", "evidence", "warnings", "dialects"}`
pub fn of_model(model: &Model, identified: &Identified<'_>) -> Json {
    let warnings = identified
        .warnings
        .iter()
        .map(|warning| Json::Object(object! { "code" => warning.code(), "message" => warning.to_string() }));
    let dialects = identified.dialects.iter().map(|dialect| {
        let mut object = object! { "format" => dialect.format.as_str(), "why" => dialect.why.as_str() };
        if let Some(warning) = &dialect.warning {
            object.insert("warning", Json::from(warning.as_str()));
        }
        Json::Object(object)
    });
    Json::Object(object! {
        "model" => model.name.as_str(),
        "format" => identified.format.name.as_str(),
        "title" => identified.format.title.as_str(),
        "evidence" => of_evidence(&identified.evidence),
        "warnings" => Json::Array(warnings.collect()),
        "dialects" => Json::Array(dialects.collect()),
    })
}

/// `[{"kind", "text", "pattern"?}, ..]`: why a model needs a format, the strongest first.
pub fn of_evidence(evidence: &[Evidence]) -> Json {
    let each = evidence.iter().map(|evidence| {
        let mut object = object! { "kind" => evidence.code(), "text" => evidence.to_string() };
        if let Some(pattern) = evidence.pattern() {
            object.insert("pattern", Json::from(pattern));
        }
        Json::Object(object)
    });
    Json::Array(each.collect())
}

fn prompt_object(id: Option<&Json>, prompt: &Prompt) -> Object {
    let segments = prompt
        .segments()
        .map(|segment| Json::Object(object! { "text" => segment.text, "origin" => of_origin(&segment.origin) }));
    let mut answer = with_id(id);
    answer.insert("prompt", Json::from(prompt.text()));
    answer.insert("segments", Json::Array(segments.collect()));
    answer.insert("stop", Json::Array(prompt.stops().into_iter().map(Json::from).collect()));
    answer.insert("stop_ids", numbers(prompt.stop_ids()));
    answer.insert("generation", of_generation(&prompt.generation));
    if !prompt.dropped.is_empty() {
        let dropped = prompt.dropped.iter().map(|dropped| {
            let mut object = Object::new();
            if let Some(index) = dropped.place.message {
                object.insert("message", Json::from(index as i64));
            }
            object.insert("field", Json::from(dropped.place.field.as_str()));
            object.insert("why", Json::from(dropped.why));
            Json::Object(object)
        });
        answer.insert("dropped", Json::Array(dropped.collect()));
    }
    answer
}

fn with_id(id: Option<&Json>) -> Object {
    id.map_or_else(Object::new, |id| object! { "id" => id.clone() })
}

fn numbers(ids: Vec<u32>) -> Json {
    Json::Array(ids.into_iter().map(|id| Json::from(i64::from(id))).collect())
}
