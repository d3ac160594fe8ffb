//! Explaining a prompt: the origin of every byte, and where the conversation spells a control token.
//!
//! [`Model::explain`](crate::Model::explain) returns an [`Explanation`], which can be drawn whole.
//! The rest of this module draws the parts of one: a [`View`] of a prompt, its conversation and
//! optionally its tokens.
//!
//! `turns` finds where each message's turn begins, `forgery` finds text that spells control tokens,
//! and `view` cuts the prompt into rows of pieces. It produces them one after the other, so that a
//! long prompt is never drawn in memory. `terminal` and `html` draw the same view, `legend` writes
//! the facts below it, and `json` writes only the facts.

mod forgery;
mod html;
mod json;
mod legend;
mod paint;
mod piece;
mod seen;
mod terminal;
mod tokens;
mod turns;
mod view;

use crate::Prompt;
use crate::conversation::Conversation;
use crate::encode::Note;
use crate::format::Format;
use crate::loss::TokenLoss;
use crate::tokenizer::AddedToken;

pub use crate::model::explain::*;
pub use html::draw as draw_html;
pub use json::write as write_json;
pub use legend::counted;
pub use paint::{Paint, Style};
pub use piece::mark_of;
pub use terminal::draw as draw_terminal;
pub use tokens::{Tokens, TooLong};
pub use view::View;

/// A prompt with everything that is known about it.
#[derive(Clone, Copy)]
pub struct ExplainedPrompt<'a> {
    /// The conversation that it was rendered from.
    pub conversation: &'a Conversation,
    /// The format that wrote it, or one that only has the name and title to show.
    pub format: &'a Format,
    /// The prompt.
    pub prompt: &'a Prompt,
    /// Its tokens.
    pub tokens: Option<&'a Tokens>,
    /// Possible problems at the ends of the prompt.
    pub notes: &'a [Note],
    /// The tokens that plain text must never be encoded to, if a tokenizer is given.
    pub added: &'a [AddedToken],
    /// The text that carries loss, if requested.
    pub loss: Option<TokenLoss<'a>>,
}
