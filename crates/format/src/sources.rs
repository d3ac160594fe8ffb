//! The sources that every prompt has, followed by those of its conversation.

use rolecall_text::Source;

use crate::ControlId;

/// The format's literal text.
pub const FORMAT: Source = Source(0);

/// An empty piece at which the maker's code calls the tokenizer again.
pub const SEAM: Source = Source(1);

/// Text created while rendering that has no owner: a number, the braces of a printed value, or the
/// result of a filter on a template's literal. A user may control the number, so such text never
/// contributes to a control token.
pub const MADE: Source = Source(2);

const FIRST_CONTROL: u32 = 3;

/// Returns the source of a control token.
#[inline]
pub fn control(id: ControlId) -> Source {
    Source(FIRST_CONTROL + id.0 as u32)
}

/// Returns a further source, numbered from 0, of a format with this number of control tokens.
#[inline]
pub fn beyond(controls: usize, number: usize) -> Source {
    Source(FIRST_CONTROL + controls as u32 + number as u32)
}

/// Returns the id of a control token's source, or the number of a further source as an error.
#[inline]
pub fn read(source: Source, controls: usize) -> Option<Result<ControlId, usize>> {
    let number = source.0.checked_sub(FIRST_CONTROL)? as usize;
    Some(number.checked_sub(controls).map_or(Ok(ControlId(number)), Err))
}
