//! Finds text in a conversation that spells a control token.

use std::ops::Range;

use crate::model::explain::Marks;
use crate::{Origin, Prompt};

use super::tokens::Tokens;

/// A place where a conversation spells a control token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forgery<'a> {
    pub span: Range<usize>,
    pub origin: Origin,
    /// The control token's text.
    pub token: &'a str,
    /// Whether it was encoded to the control token's id, which only the reference encoding does.
    pub succeeded: bool,
}

/// Returns all places in order, without overlaps.
pub fn find<'a, 's>(
    marks: &'s Marks<'a>,
    prompt: &'s Prompt,
    tokens: Option<&'s Tokens>,
) -> impl Iterator<Item = Forgery<'a>> + use<'a, 's> {
    marks.find(prompt).map(move |(span, token, origin)| {
        let succeeded = tokens.is_some_and(|tokens| becomes_control(tokens, &span));
        Forgery { span, origin, token, succeeded }
    })
}

fn becomes_control(tokens: &Tokens, span: &Range<usize>) -> bool {
    tokens.behind(span.start).take_while(|token| token.start < span.end).any(|token| token.control)
}
