//! A prompt that ends inside the last message. transformers puts a mark behind that message's text, renders, and searches
//! the output for the mark; here the mark counts only where the origin is that message, or a literal of the template that
//! is the mark itself. A mark in any other text is text.

use rolecall_conversation::{Conversation, Json};
use rolecall_format::codec::is_python_space;
use rolecall_jinja as jinja;

use super::adapt::Adapted;
use super::prepare::Inputs;
use crate::{Error, Origin};

/// What stands behind the text that is to be continued, so that a template does not see an end where there is none. The
/// space is what transformers has there: where a template takes it off, it takes off the text's own white space too.
const MARK: &str = "CONTINUE_FINAL_MESSAGE_TAG ";

/// A message whose content was given a mark behind its text.
pub(super) struct Continued {
    message: usize,
    /// The bytes of the text before the mark.
    length: usize,
}

/// Gives the last message's content the mark, if the model is to go on with it.
pub(super) fn mark(conversation: &Conversation, adapted: &mut Adapted) -> Result<Option<Continued>, Error> {
    if !conversation.continue_final_message {
        return Ok(None);
    }
    let message = conversation.messages.len().saturating_sub(1);
    let nothing = |what| Err(Error::NothingToContinue { message, what });
    let Some(last) = conversation.messages.last() else { return nothing("there is no message") };
    let mut content = match last.as_object().get("content") {
        None | Some(Json::Null) => return nothing("it has no text"),
        Some(content) => content.clone(),
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
    Ok(Some(Continued { message, length }))
}

impl Continued {
    /// Whether a tag stands for the text that is continued.
    fn is_its(&self, inputs: &Inputs<'_>, tag: jinja::Tag) -> bool {
        matches!(inputs.origin(tag), Some(Origin::Message { message, field })
            if message == self.message && field.starts_with("content"))
    }

    /// Where the output ends: behind the last byte of the text before the mark.
    pub fn cut(&self, inputs: &Inputs<'_>, output: &jinja::Output) -> Result<usize, Error> {
        let mark = MARK.trim_end();
        // The mark is the caller's text: it begins in a piece of it, at its own place there.
        let begins = |piece: &jinja::Piece<'_>| match piece.origin {
            jinja::Origin::Input { tag, offset } if self.is_its(inputs, tag) => match offset.get() {
                Some(offset) => {
                    let within = self.length.checked_sub(offset)?;
                    (piece.text.get(within..)?.starts_with(mark)).then_some(piece.start + within)
                }
                // A text that the template changed: the mark is in it as it is.
                None => piece.text.rfind(mark).map(|at| piece.start + at),
            },
            _ => None,
        };
        let pieces: Vec<jinja::Piece<'_>> = output.pieces().collect();
        // Some templates know the mark: they take it off the text and write it themselves, behind what else they have.
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
        // Where the template took white space off the end, it would have taken off the text's own.
        Ok(match text[at..].starts_with(MARK) {
            true => at,
            false => text[..at].trim_end_matches(is_python_space).len(),
        })
    }
}
