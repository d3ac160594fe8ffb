//! The sources that the text of every prompt has, before those of its conversation.

use rolecall_text::Source;

use crate::ControlId;

/// The format's literal text.
pub const FORMAT: Source = Source(0);

/// An empty piece where the tokenizer is called anew.
pub const SEAM: Source = Source(1);

/// Text that was made while rendering and is nobody's: a number, the braces of a printed value, what a filter made of a
/// template's literal. The number may be the user's, so that it holds no part of a control token.
pub const MADE: Source = Source(2);

const FIRST_CONTROL: u32 = 3;

/// A control token.
#[inline]
pub fn control(id: ControlId) -> Source {
    Source(FIRST_CONTROL + id.0 as u32)
}

/// What else a format with so many control tokens may number its sources with, from 0.
#[inline]
pub fn beyond(controls: usize, number: usize) -> Source {
    Source(FIRST_CONTROL + controls as u32 + number as u32)
}

/// The number of a control token's source, or how far a source lies beyond those of so many control tokens.
#[inline]
pub fn read(source: Source, controls: usize) -> Option<Result<ControlId, usize>> {
    let number = source.0.checked_sub(FIRST_CONTROL)? as usize;
    Some(number.checked_sub(controls).map_or(Ok(ControlId(number)), Err))
}
