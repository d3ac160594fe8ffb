//! Who answers for the bytes of a prompt: only what the format or template wrote may become a control token.

use std::ops::Range;

use rolecall_conversation::Role;
use rolecall_format::sources;
use rolecall_text::Piece;

use crate::Prompt;

/// The names of roles that everybody knows, of which some templates make control tokens.
pub const ROLES: [&str; 9] =
    ["system", "developer", "user", "assistant", "tool", "environment", "observation", "function", "ipython"];

/// Who answers for a stretch of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// The format or template wrote it letter by letter, or it is the name of a role that everybody knows, of which some
    /// templates make tokens (`'<|' + role + '|>'`): control tokens are found in it.
    Written,
    /// It was put together while rendering, of a number, by a filter, or of a role that only this message has: a
    /// control token that needs it is refused.
    Built,
    /// The conversation says it: text, whatever it spells.
    Said,
}

impl Prompt {
    /// The stretches of a part of the prompt in order, as long as they can be.
    pub fn stretches(&self, range: Range<usize>) -> Vec<(Range<usize>, Trust)> {
        let mut stretches: Vec<(Range<usize>, Trust)> = Vec::new();
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
