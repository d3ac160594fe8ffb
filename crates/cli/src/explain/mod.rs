//! Explains where every piece of a prompt comes from, given the prompt, its conversation and
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
mod piece;
mod seen;
mod terminal;
mod tokens;
mod turns;
mod view;

use rolecall::Prompt;
use rolecall::conversation::Conversation;
use rolecall::encode::Note;
use rolecall::format::Format;
use rolecall::loss::TokenLoss;
use rolecall::tokenizer::AddedToken;

pub use html::draw as draw_html;
pub use json::write as write_json;
pub use legend::counted;
pub use piece::mark_of;
pub use terminal::draw as draw_terminal;
pub use tokens::Tokens;
pub use view::View;

/// A prompt with everything that is known about it.
#[derive(Clone, Copy)]
pub struct Explained<'a> {
    pub conversation: &'a Conversation,
    pub format: &'a Format,
    pub prompt: &'a Prompt,
    pub tokens: Option<&'a Tokens>,
    /// Possible problems at the ends of the prompt.
    pub notes: &'a [Note],
    /// The tokens that plain text must never be encoded to, if a tokenizer is given.
    pub added: &'a [AddedToken],
    /// The text that carries loss, if requested.
    pub loss: Option<TokenLoss<'a>>,
}
