//! Trust in the bytes of a prompt: only text that the format or template wrote may become a control
//! token.

use std::ops::Range;

use rolecall_conversation::Role;
use rolecall_format::sources;
use rolecall_text::Piece;

use crate::Prompt;

/// Well-known role names. Some templates build control tokens from them.
pub const ROLES: [&str; 9] =
    ["system", "developer", "user", "assistant", "tool", "environment", "observation", "function", "ipython"];

/// How far a stretch of a prompt is trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// The format or template wrote the text literally, or it is a well-known role name, from which
    /// some templates build tokens (`'<|' + role + '|>'`). Control tokens are recognized in it.
    Written,
    /// The text was built while rendering: from a number, by a filter, or from a role that is not
    /// well known. A control token that includes such text is refused.
    Built,
    /// The text comes from the conversation. It never becomes a control token, whatever it spells.
    Said,
}

impl Prompt {
    /// Splits a byte range of the prompt into maximal stretches of equal trust, in order.
    pub fn stretches(&self, range: Range<usize>) -> Vec<(Range<usize>, Trust)> {
        let mut stretches: Vec<(Range<usize>, Trust)> = Vec::with_capacity(8);
        for piece in self.text.pieces_in(range).filter(|piece| !piece.text.is_empty()) {
            let trust = self.trust(&piece);
            let end = piece.start + piece.text.len();
            match stretches.last_mut() {
                Some((last, same)) if *same == trust => last.end = end,
                _ => stretches.push((piece.start..end, trust)),
            }
        }
        stretches
    }

    pub(crate) fn trust(&self, piece: &Piece<'_>) -> Trust {
        match sources::read(piece.source, self.controls.len()) {
            _ if piece.source == sources::MADE => Trust::Built,
            None | Some(Ok(_)) => Trust::Written,
            Some(Err(number)) if self.origins.is_role(number) => match Role::from_name(piece.text) {
                Role::Other(_) => Trust::Built,
                _ => Trust::Written,
            },
            Some(Err(_)) => Trust::Said,
        }
    }
}
