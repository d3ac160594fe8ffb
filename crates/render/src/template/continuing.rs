//! Prompts that end inside the last message.
//!
//! transformers appends a marker to that message's text, renders, and searches the output for the
//! marker. Here, the marker counts only if its origin is that message, or a literal of the template
//! that is the marker itself. A marker in any other text is plain text.

use rolecall_conversation::{Conversation, Json};
use rolecall_format::codec::is_python_space;
use rolecall_jinja as jinja;

use super::adapt::ReplacementValues;
use super::prepare::Inputs;
use crate::{Error, Origin};

/// The marker after the text to continue, which prevents a template from treating the text as
/// complete. transformers also appends the space. If a template strips the space, it would strip
/// the text's own trailing whitespace too.
pub(super) const MARK: &str = "CONTINUE_FINAL_MESSAGE_TAG ";

/// A message whose content has a marker after its text.
pub(super) struct ContinuedMessage {
    message: usize,
    /// The length in bytes of the text before the marker.
    length: usize,
}

/// Appends the marker to the last message's content, if the model is to continue it.
pub(super) fn mark(
    conversation: &Conversation,
    adapted: &mut ReplacementValues,
) -> Result<Option<ContinuedMessage>, Error> {
    if !conversation.continue_final_message {
        return Ok(None);
    }
    let message = conversation.messages.len().saturating_sub(1);
    let nothing = |what| Err(Error::NothingToContinue { message, what });
    let Some(last) = conversation.messages.last() else { return nothing("there is no message") };
    let mut content = match last.as_object().get("content") {
        None | Some(Json::Null) => return nothing("it has no text"),
        Some(content) => adapted.value_of(message, "content").unwrap_or(content).clone(),
    };
    let text = match &mut content {
        Json::String(text) => Some(text),
        Json::Array(parts) => parts.iter_mut().rev().find_map(|part| match part {
            Json::Object(part) => match part.get_mut("text") {
                Some(Json::String(text)) => Some(text),
                _ => None,
            },
            _ => None,
        }),
        _ => None,
    };
    let Some(text) = text else { return nothing("it has no text") };
    let length = text.len();
    text.push_str(MARK);
    adapted.replace(message, "content", content);
    Ok(Some(ContinuedMessage { message, length }))
}

impl ContinuedMessage {
    /// Reports whether a tag belongs to the text to continue.
    fn is_its(&self, inputs: &Inputs<'_>, tag: jinja::Tag) -> bool {
        matches!(inputs.origin(tag), Some(Origin::Message { message, field })
            if message == self.message && field.starts_with("content"))
    }

    /// Returns the end of the output: the offset after the last byte of the text before the marker.
    pub fn cut(&self, inputs: &Inputs<'_>, output: &jinja::Output) -> Result<usize, Error> {
        let mark = MARK.trim_end();
        // The marker is in the caller's text, so it begins in a piece of that text, at its known
        // offset.
        let begins = |piece: &jinja::Piece<'_>| match piece.origin {
            jinja::Origin::Input { tag, offset } if self.is_its(inputs, tag) => match offset.get() {
                Some(offset) => {
                    let within = self.length.checked_sub(offset)?;
                    (piece.text.get(within..)?.starts_with(mark)).then_some(piece.start + within)
                }
                // The template changed the text, but the marker is unchanged in it.
                None => piece.text.rfind(mark).map(|at| piece.start + at),
            },
            _ => None,
        };
        let pieces: Vec<jinja::Piece<'_>> = output.pieces().collect();
        // Some templates know the marker. They strip it from the text and write it themselves,
        // after other output.
        let rewritten = |piece: &jinja::Piece<'_>| match piece.origin {
            jinja::Origin::Literal { .. } => piece.text.starts_with(mark).then_some(piece.start),
            _ => None,
        };
        let found = pieces.iter().rev().find_map(begins).or_else(|| pieces.iter().rev().find_map(rewritten));
        let Some(at) = found else {
            let what = "the template does not print its text";
            return Err(Error::NothingToContinue { message: self.message, what });
        };
        let text = output.text();
        // If the template stripped whitespace at the end, it would also have stripped the text's
        // own.
        Ok(match text[at..].starts_with(MARK) {
            true => at,
            false => text[..at].trim_end_matches(is_python_space).len(),
        })
    }
}
