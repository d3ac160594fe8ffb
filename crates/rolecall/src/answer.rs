//! Results as JSON, in one shape for the command line, servers and Python.

mod account;
mod fields;
mod format;
mod json_sink;
mod openai;
mod reading;
mod session;
mod stream;
mod template;
mod tokenizer;
mod training;
mod visit;

use rolecall_conversation::{Json, object};
use rolecall_encode::Encoded;
use rolecall_render::Prompt;

pub use self::account::{of_account, of_leaf, of_leaf_group};
pub(crate) use self::fields::with_id;
pub use self::fields::{of_generation, of_origin};
pub use self::format::{of_format, of_format_in_short};
use self::json_sink::JsonSink;
pub use self::openai::{Chunks, Completion};
pub use self::reading::{add_warnings, finish_reason, of_event, of_reading, to_message};
pub use self::session::{
    of_break, of_cut, of_delta, of_difference, of_proof, of_reply, of_rewrite, of_rollout, of_segments, of_session_note,
};
use self::stream::append;
pub use self::stream::{Stream, StreamedAnswer, stream};
pub use self::template::{name_of_use, of_analysis};
pub use self::tokenizer::{AuditAnswer, of_audited};
use self::visit::{AnswerParts, visit};
use crate::Error;
use crate::dataset::Side;
use crate::identify::{Clues, Evidence, Identification};
use crate::loss::TokenLoss;
use crate::training::{SampleNumber, TruncationReport};

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
    pub truncated: Option<&'a TruncationReport>,
    /// Which of several samples of the conversation it is.
    pub part: Option<SampleNumber>,
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
/// use rolecall::render::{Options, Writer};
/// let registry = registry();
/// let conversation = Conversation::new(vec![Message::user("Hi")]);
/// let prompt = Writer::format(registry.get("chatml").expect("built in").clone(), Options::default()).render(&conversation)?;
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
    let notes = encoded.map_or(&[][..], |encoded| &encoded.notes);
    let parts = AnswerParts { id, side, prompt, notes, loss, truncated, part };
    append(text, &parts, encoded.map(|encoded| || encoded.tokens.iter()));
}

/// Returns a prompt as
/// `{"id"?, "prompt", "segments", "stop", "stop_ids", "generation", "left_out"?, "account"?, "unusual"?}`.
///
/// ```
/// use rolecall::answer;
/// use rolecall::conversation::{Conversation, Message, json};
/// use rolecall::format::registry;
/// use rolecall::render::{Options, Writer};
/// let registry = registry();
/// let conversation = Conversation::new(vec![Message::user("Hi")]);
/// let prompt = Writer::format(registry.get("chatml").expect("built in").clone(), Options::default()).render(&conversation)?;
/// let text = json::write(&answer::of_prompt(None, &prompt), &json::Layout::compact());
/// assert!(text.contains(r#"{"text":"Hi","origin":{"message":0,"field":"content"}}"#));
/// # Ok::<(), rolecall::Error>(())
/// ```
pub fn of_prompt(id: Option<&Json>, prompt: &Prompt) -> Json {
    value(id, prompt, None, None)
}

/// Returns the answer of [`of_prompt`] with `"ids"`, the `"control_ids"` among them, and `"notes"`
/// if there are any.
pub fn of_encoded(id: Option<&Json>, prompt: &Prompt, encoded: &Encoded) -> Json {
    value(id, prompt, Some(encoded), None)
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
    value(id, prompt, encoded, Some(loss.into()))
}

fn value(id: Option<&Json>, prompt: &Prompt, encoded: Option<&Encoded>, loss: Option<TokenLoss<'_>>) -> Json {
    let notes = encoded.map_or(&[][..], |encoded| &encoded.notes);
    let parts = AnswerParts { id, side: None, prompt, notes, loss, truncated: None, part: None };
    let mut sink = JsonSink::default();
    // Memory takes all.
    let _ = visit(&parts, encoded.map(|encoded| || encoded.tokens.iter()), &mut sink);
    Json::Object(sink.object)
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
            inner.insert("field", Json::from(&*place.field));
        }
    }
    if let Some(help) = error.help() {
        inner.insert("help", Json::from(help));
    }
    let mut answer = with_id(id);
    answer.insert("error", Json::Object(inner));
    Json::Object(answer)
}

/// Returns an identified format as
/// `{"model", "format", "title", "evidence", "warnings", "dialects"}`.
pub fn of_model(model: &Clues, identified: &Identification<'_>) -> Json {
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
