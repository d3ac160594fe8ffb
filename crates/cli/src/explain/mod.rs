//! In: a prompt with its conversation and, if there is a tokenizer, its tokens. Out: a picture of where every piece comes from.
//! Between: `turns` finds where each message's turn begins, `forgery` finds text that spells control tokens, `view` cuts the prompt into rows of
//! pieces, one after the other, so that a picture of a long prompt is never in memory.
//! `terminal` and `html` draw the same view, `legend` says what stands below it, `json` gives the facts alone.

mod forgery;
mod html;
mod json;
mod legend;
mod terminal;
mod tokens;
mod turns;
mod view;

use std::ops::Range;

use rolecall::Prompt;
use rolecall::conversation::Conversation;
use rolecall::encode::Note;
use rolecall::format::Format;
use rolecall::tokenizer::AddedToken;

pub use html::draw as draw_html;
pub use json::write as write_json;
pub use legend::counted;
pub use terminal::draw as draw_terminal;
pub use tokens::Tokens;
pub use view::{View, mark_of};

/// All that is known of a prompt.
#[derive(Clone, Copy)]
pub struct Explained<'a> {
    pub conversation: &'a Conversation,
    pub format: &'a Format,
    pub prompt: &'a Prompt,
    pub tokens: Option<&'a Tokens>,
    /// What may be wrong at the ends of the prompt.
    pub notes: &'a [Note],
    /// The tokens that plain text must never become, where a tokenizer is given.
    pub added: &'a [AddedToken],
    /// The bytes that a training loss may touch, where that is asked for.
    pub loss: Option<&'a [Range<usize>]>,
}
