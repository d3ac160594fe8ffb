//! The keys of an answer, in order, for the text and the JSON value of an answer alike.

use std::borrow::Borrow;
use std::io;

use rolecall_conversation::Json;
use rolecall_conversation::json::Object;
use rolecall_encode::{EncodedToken, Note};
use rolecall_render::{Origin, Prompt};

use super::fields::{insert_end, of_note};
use super::training::{cut, of_weight, training_notes};
use crate::dataset::Side;
use crate::loss::TokenLoss;
use crate::training::{SampleNumber, TruncationReport};

/// Takes the keys of an answer with their values.
pub(super) trait KeySink {
    fn insert(&mut self, key: &str, value: &Json) -> io::Result<()>;

    fn insert_text(&mut self, key: &str, text: &str) -> io::Result<()>;

    fn insert_numbers(&mut self, key: &str, numbers: impl Iterator<Item = u32>) -> io::Result<()>;

    fn insert_list(&mut self, key: &str, values: impl Iterator<Item = Json>) -> io::Result<()>;

    /// Begins the list of segments.
    fn begin_segments(&mut self);

    /// Takes a segment with its text and origin, and whether it carries loss, if that was asked.
    fn segment(&mut self, text: &str, origin: &Origin, learned: Option<bool>) -> io::Result<()>;

    fn end_segments(&mut self);
}

/// The parts of an answer apart from its tokens.
#[derive(Clone, Copy)]
pub(super) struct AnswerParts<'a> {
    pub id: Option<&'a Json>,
    pub side: Option<Side>,
    pub prompt: &'a Prompt,
    pub notes: &'a [Note],
    pub loss: Option<TokenLoss<'a>>,
    pub truncated: Option<&'a TruncationReport>,
    pub part: Option<SampleNumber>,
}

/// Passes each key of an answer to a sink. `tokens` are iterated once for each list that is made of them.
pub(super) fn visit<I: Iterator<Item: Borrow<EncodedToken>>>(
    parts: &AnswerParts<'_>,
    tokens: Option<impl Fn() -> I>,
    sink: &mut impl KeySink,
) -> io::Result<()> {
    let AnswerParts { id, side, prompt, notes, loss, truncated, part } = *parts;
    if let Some(id) = id {
        sink.insert("id", id)?;
    }
    if let Some(side) = side {
        let name = match side {
            Side::Chosen => "chosen",
            Side::Rejected => "rejected",
        };
        sink.insert_text("side", name)?;
    }
    sink.insert_text("prompt", prompt.text())?;
    sink.begin_segments();
    for segment in prompt.segments() {
        match loss {
            None => sink.segment(segment.text, &segment.origin, None)?,
            Some(loss) => {
                for (span, learned) in cut(segment.start..segment.start + segment.text.len(), &loss.loss.spans) {
                    sink.segment(&prompt.text()[span], &segment.origin, Some(learned))?;
                }
            }
        }
    }
    sink.end_segments();
    let mut end = Object::new();
    insert_end(&mut end, prompt);
    for (key, value) in end.iter() {
        sink.insert(key, value)?;
    }
    if let Some(tokens) = tokens {
        sink.insert_numbers("ids", tokens().map(|token| token.borrow().id))?;
        sink.insert_numbers(
            "control_ids",
            tokens().filter(|token| token.borrow().control).map(|token| token.borrow().id),
        )?;
        if !notes.is_empty() {
            sink.insert_list("notes", notes.iter().map(of_note))?;
        }
        if let Some(loss) = loss {
            let mut weigher = loss.weigher();
            sink.insert_numbers("loss_mask", tokens().map(|token| u32::from(weigher.weight(token.borrow()) > 0.0)))?;
            if !loss.loss.is_uniform() {
                let mut weigher = loss.weigher();
                sink.insert_list("loss_weights", tokens().map(|token| of_weight(weigher.weight(token.borrow()))))?;
            }
        }
    }
    for (key, value) in training_notes(loss, truncated, part) {
        sink.insert(key, &value)?;
    }
    Ok(())
}
