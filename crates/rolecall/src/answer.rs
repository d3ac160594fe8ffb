//! Results as JSON, in one shape for the command line, servers and Python.

mod account;
mod format;
mod openai;
mod reading;
mod session;
mod stream;
mod template;
mod tokenizer;
mod training;

use std::fmt::Write;
use std::ops::Range;

use rolecall_conversation::json::{Layout, Number, Object, write_into, write_string};
use rolecall_conversation::{Json, object};
use rolecall_encode::{Encoded, Note};
use rolecall_format::Generation;
use rolecall_render::{Leaf, LeftOut, Origin, Prompt, Unusual};

pub use self::account::{of_account, of_leaf, of_leaf_group};
pub use self::format::{of_format, of_format_in_short};
pub use self::openai::{Chunks, Completion};
pub use self::reading::{add_warnings, finish_reason, of_event, of_reading, to_message};
pub use self::session::{
    of_break, of_cut, of_delta, of_difference, of_proof, of_reply, of_rewrite, of_rollout, of_segments, of_session_note,
};
pub use self::stream::{Stream, Streamed, stream};
pub use self::template::{name_of_use, of_analysis};
pub use self::tokenizer::{Audited, of_audited};
use self::training::{cut, of_weight, training_notes, weights};
use crate::Error;
use crate::dataset::Side;
use crate::identify::{Clues, Evidence, Identified};
use crate::loss::TokenLoss;
use crate::training::{Part, Truncated};

/// The parts of an answer.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    /// The id of the request, if it has one.
    pub id: Option<&'a Json>,
    /// For a preference pair, which answer the conversation ends with. Written as `"side"`.
    pub side: Option<Side>,
    /// The rendered conversation.
    pub prompt: &'a Prompt,
    /// The token ids, if they were requested.
    pub encoded: Option<&'a Encoded>,
    /// The byte ranges that carry loss, if they were requested.
    pub loss: Option<TokenLoss<'a>>,
    /// What truncation removed from the ids.
    pub truncated: Option<&'a Truncated>,
    /// Which of several samples of the conversation it is.
    pub part: Option<Part>,
}

/// Appends the answer of [`of_prompt`], [`of_encoded`] or [`of_training`] to a string, as compact
/// JSON.
///
/// The text is the same as that of the JSON value. This function does not build the value, so it is
/// faster for many answers.
///
/// ```
/// use rolecall::answer;
/// use rolecall::answer::Answer;
/// use rolecall::conversation::{Conversation, Json, Message, json};
/// use rolecall::format::registry;
/// use rolecall::render::{Options, render};
/// let registry = registry();
/// let conversation = Conversation::new(vec![Message::user("Hi")]);
/// let prompt = render(&conversation, registry.get("chatml").expect("built in"), &Options::default())?;
/// let id = Json::from(7);
/// let mut text = String::new();
/// answer::write(&mut text, &Answer {
///     id: Some(&id), side: None, prompt: &prompt, encoded: None, loss: None, truncated: None, part: None,
/// });
/// assert_eq!(text, json::write(&answer::of_prompt(Some(&id), &prompt), &json::Layout::compact()));
/// # Ok::<(), rolecall::Error>(())
/// ```
pub fn write(text: &mut String, answer: &Answer<'_>) {
    let Answer { id, side, prompt, encoded, loss, truncated, part } = *answer;
    text.push('{');
    if let Some(id) = id {
        text.push_str("\"id\":");
        write_into(text, id, &Layout::compact());
        text.push(',');
    }
    if let Some(side) = side {
        text.push_str(match side {
            Side::Chosen => "\"side\":\"chosen\",",
            Side::Rejected => "\"side\":\"rejected\",",
        });
    }
    text.push_str("\"prompt\":");
    write_string(text, prompt.text(), false);
    text.push_str(",\"segments\":[");
    let mut first = true;
    let mut write_segment = |span: Range<usize>, origin: &Origin, learned: Option<bool>| {
        text.push_str(if std::mem::take(&mut first) { "{\"text\":" } else { ",{\"text\":" });
        write_string(text, &prompt.text()[span], false);
        text.push_str(",\"origin\":");
        write_origin(text, origin);
        text.push_str(match learned {
            None => "}",
            Some(true) => ",\"loss\":true}",
            Some(false) => ",\"loss\":false}",
        });
    };
    for segment in prompt.segments() {
        let span = segment.start..segment.start + segment.text.len();
        match loss {
            None => write_segment(span, &segment.origin, None),
            Some(loss) => {
                for (span, learned) in cut(span, &loss.loss.spans) {
                    write_segment(span, &segment.origin, Some(learned));
                }
            }
        }
    }
    text.push(']');
    let mut end = Object::new();
    insert_end(&mut end, prompt);
    for (key, value) in end.iter() {
        text.push(',');
        write_string(text, key, false);
        text.push(':');
        write_into(text, value, &Layout::compact());
    }
    if let Some(encoded) = encoded {
        write_numbers(text, "ids", encoded.tokens.iter().map(|token| token.id));
        write_numbers(text, "control_ids", encoded.tokens.iter().filter(|token| token.control).map(|token| token.id));
        if !encoded.notes.is_empty() {
            text.push_str(",\"notes\":");
            write_into(text, &notes(encoded), &Layout::compact());
        }
        if let Some(loss) = loss {
            let mut weigher = loss.weigher();
            let mask = encoded.tokens.iter().map(|token| u32::from(weigher.weight(token) > 0.0));
            write_numbers(text, "loss_mask", mask);
            if !loss.loss.is_uniform() {
                text.push_str(",\"loss_weights\":");
                write_into(text, &weights(encoded, loss), &Layout::compact());
            }
        }
    }
    for (key, value) in training_notes(loss, truncated, part) {
        let _ = write!(text, ",\"{key}\":");
        write_into(text, &value, &Layout::compact());
    }
    text.push('}');
}

fn write_origin(text: &mut String, origin: &Origin) {
    match origin {
        Origin::Control(_) => text.push_str("\"control\""),
        Origin::Format => text.push_str("\"format\""),
        // Most segments come from messages, so they are written directly.
        Origin::Message { message, field } => {
            let _ = write!(text, "{{\"message\":{message},\"field\":");
            write_string(text, field, false);
            text.push('}');
        }
        other => write_into(text, &of_origin(other), &Layout::compact()),
    }
}

/// Writes `,"key":[1,2]`.
fn write_numbers(text: &mut String, key: &str, numbers: impl Iterator<Item = u32>) {
    let _ = write!(text, ",\"{key}\":[");
    let mut digits = [0; 10];
    for (at, number) in numbers.enumerate() {
        if at > 0 {
            text.push(',');
        }
        text.push_str(decimal(number, &mut digits));
    }
    text.push(']');
}

/// Formats a number. This is several times faster than the standard library.
fn decimal(mut number: u32, digits: &mut [u8; 10]) -> &str {
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    std::str::from_utf8(&digits[at..]).unwrap_or_default()
}

/// Returns a prompt as
/// `{"id"?, "prompt", "segments", "stop", "stop_ids", "generation", "left_out"?, "account"?, "unusual"?}`.
///
/// ```
/// use rolecall::answer;
/// use rolecall::conversation::{Conversation, Message, json};
/// use rolecall::format::registry;
/// use rolecall::render::{Options, render};
/// let registry = registry();
/// let conversation = Conversation::new(vec![Message::user("Hi")]);
/// let prompt = render(&conversation, registry.get("chatml").expect("built in"), &Options::default())?;
/// let text = json::write(&answer::of_prompt(None, &prompt), &json::Layout::compact());
/// assert!(text.contains(r#"{"text":"Hi","origin":{"message":0,"field":"content"}}"#));
/// # Ok::<(), rolecall::Error>(())
/// ```
pub fn of_prompt(id: Option<&Json>, prompt: &Prompt) -> Json {
    Json::Object(prompt_object(id, prompt))
}

/// Returns the notes about the ends of a prompt as `[{"code", "message"}, ..]`.
fn notes(encoded: &Encoded) -> Json {
    Json::Array(encoded.notes.iter().map(of_note).collect())
}

fn of_note(note: &Note) -> Json {
    Json::Object(object! { "code" => note.code(), "message" => note.to_string() })
}

/// Returns the answer of [`of_prompt`] with `"ids"`, the `"control_ids"` among them, and `"notes"`
/// if there are any.
pub fn of_encoded(id: Option<&Json>, prompt: &Prompt, encoded: &Encoded) -> Json {
    let mut answer = prompt_object(id, prompt);
    answer.insert("ids", numbers(encoded.ids()));
    answer.insert("control_ids", numbers(encoded.control_ids()));
    if !encoded.notes.is_empty() {
        answer.insert("notes", notes(encoded));
    }
    Json::Object(answer)
}

/// Returns the answer of [`of_prompt`] or [`of_encoded`] for training.
///
/// Segments are cut where loss begins or ends, and `"loss"` of each segment states whether it
/// carries loss. `"loss_mask"` has 1 or 0 for each id. `"loss_weights"` has the weight of each id,
/// unless all weights are 1. `"loss_notes"` has what a trainer should know, if there is anything.
pub fn of_training<'a>(
    id: Option<&Json>,
    prompt: &Prompt,
    encoded: Option<&Encoded>,
    loss: impl Into<TokenLoss<'a>>,
) -> Json {
    let loss = loss.into();
    let mut answer = match encoded {
        Some(encoded) => of_encoded(id, prompt, encoded),
        None => of_prompt(id, prompt),
    };
    if let Json::Object(answer) = &mut answer {
        let mut segments = Vec::new();
        for segment in prompt.segments() {
            for (span, learned) in cut(segment.start..segment.start + segment.text.len(), &loss.loss.spans) {
                let text = &prompt.text()[span];
                let origin = of_origin(&segment.origin);
                segments.push(Json::Object(object! { "text" => text, "origin" => origin, "loss" => learned }));
            }
        }
        answer.insert("segments", Json::Array(segments));
        if let Some(encoded) = encoded {
            let mut weigher = loss.weigher();
            let mask = encoded.tokens.iter().map(|token| Json::from(i64::from(weigher.weight(token) > 0.0)));
            answer.insert("loss_mask", Json::Array(mask.collect()));
            if !loss.loss.is_uniform() {
                answer.insert("loss_weights", weights(encoded, loss));
            }
        }
        for (key, value) in training_notes(Some(loss), None, None) {
            answer.insert(key, value);
        }
    }
    answer
}

/// Returns an error as
/// `{"id"?, "error": {"code", "message", "message_index"?, "field"?, "help"?}}`.
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

/// Returns an identified format as
/// `{"model", "format", "title", "evidence", "warnings", "dialects"}`.
pub fn of_model(model: &Clues, identified: &Identified<'_>) -> Json {
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

/// Returns evidence as `[{"kind", "text", "pattern"?}, ..]`, strongest first.
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
    insert_end(&mut answer, prompt);
    answer
}

/// Inserts the keys that follow the segments.
fn insert_end(answer: &mut Object, prompt: &Prompt) {
    answer.insert("stop", Json::Array(prompt.stops().into_iter().map(Json::from).collect()));
    answer.insert("stop_ids", numbers(prompt.stop_ids()));
    answer.insert("generation", of_generation(&prompt.generation));
    if !prompt.dropped.is_empty() {
        answer.insert(
            "left_out",
            Json::Array(prompt.left_out().iter().map(|left_out| of_left_out(left_out, prompt)).collect()),
        );
    }
    if let Some(account) = prompt.account()
        && account.leaves().iter().any(Leaf::is_telling)
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
/// template writes the calls in the form of [`CallForm::AsWanted`](crate::template::CallForm).
fn of_left_out(left_out: &LeftOut<'_>, prompt: &Prompt) -> Json {
    let mut object = object! { "why" => left_out.why, "count" => left_out.count as i64 };
    if let Some(index) = left_out.first.message {
        object.insert("message", Json::from(index as i64));
    }
    object.insert("field", Json::from(left_out.first.field.as_str()));
    if left_out.by_design {
        object.insert("by_design", Json::from(true));
    }
    if prompt.calls_as_wanted && left_out.first.field.starts_with("tool_calls") {
        object.insert("as_wanted", Json::from(true));
    }
    Json::Object(object)
}

pub(crate) fn with_id(id: Option<&Json>) -> Object {
    id.map_or_else(Object::new, |id| object! { "id" => id.clone() })
}

fn numbers(ids: Vec<u32>) -> Json {
    Json::Array(ids.into_iter().map(|id| Json::from(i64::from(id))).collect())
}
