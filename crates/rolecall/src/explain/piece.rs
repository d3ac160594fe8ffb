//! A run of characters as it is drawn.

use std::borrow::Cow;

use crate::Origin;
use crate::conversation::Role;

use crate::visible;

/// A run of characters with the same properties.
pub struct DrawnPiece<'a, 's> {
    pub kind: PieceKind,
    pub origin: &'s Origin,
    /// Whether a token begins here and both it and the token before are ordinary tokens.
    pub edge: bool,
    /// The ids of the tokens that this piece is part of.
    pub ids: &'s [u32],
    /// Whether this piece carries loss.
    pub learned: bool,
    pub(super) text: &'a str,
    /// For each byte of the text, whether it is a space shown as a dot.
    pub(super) dots: &'s [bool],
}

/// Characters as they are printed. Marks represent white space and unprintable characters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    pub text: String,
    pub mark: bool,
}

/// The approximate maximum number of bytes in one [`Shown`].
const SHOWN: usize = 1 << 14;

/// The kind of a piece, which determines its style.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PieceKind {
    Control,
    Format,
    /// Text of a message with this role.
    Said(Role),
    /// Text of an offered tool or a document.
    Offered,
    /// Text of an option.
    Chosen,
    /// Text of the conversation that spells a control token.
    Spelled,
    /// Text of the conversation that became a control token.
    Forged,
}

impl DrawnPiece<'_, '_> {
    /// Returns the printed form of the piece's characters, in runs of limited length.
    pub fn shown(&self) -> impl Iterator<Item = Shown> {
        let mut characters = self.text.char_indices().peekable();
        std::iter::from_fn(move || {
            let mut shown: Option<Shown> = None;
            while let Some((at, character)) = characters.peek().copied() {
                let mark = mark_of(character).filter(|_| character != ' ' || self.dots[at]).unwrap_or_default();
                let is_mark = !mark.is_empty();
                let shown = match &mut shown {
                    Some(shown) if shown.mark != is_mark || shown.text.len() >= SHOWN => break,
                    Some(shown) => shown,
                    none => none.insert(Shown { text: String::new(), mark: is_mark }),
                };
                match is_mark {
                    true => shown.text.push_str(&mark),
                    false => shown.text.push(character),
                }
                characters.next();
            }
            shown
        })
    }
}

/// Returns the mark for a character that is white space, a control or invisible character, or one
/// of the marks itself.
pub fn mark_of(character: char) -> Option<Cow<'static, str>> {
    match character {
        '\n' => Some("⏎".into()),
        '\t' => Some("→".into()),
        '\r' => Some("␍".into()),
        ' ' => Some("·".into()),
        c if visible::is_steering(c) || is_own_mark(c) => Some(format!("\\u{{{:x}}}", c as u32).into()),
        _ => None,
    }
}

/// Reports whether a character could be used to fake a control token, a line break or another mark.
fn is_own_mark(character: char) -> bool {
    matches!(character, '⟦' | '⟧' | '⏎' | '▏' | '‹' | '›')
}
