//! Text of a conversation that spells a control token.

use std::ops::Range;

use rolecall::explain::Marks;
use rolecall::{Origin, Prompt};

use super::tokens::Tokens;

/// A place where a conversation spells a control token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forgery<'a> {
    pub span: Range<usize>,
    pub origin: Origin,
    /// The control token's text.
    pub token: &'a str,
    /// Whether a control token's id came out for it: only the reference encoding does that.
    pub succeeded: bool,
}

/// All places in order; none lies within another.
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
