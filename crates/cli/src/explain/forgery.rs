//! Text of a conversation that spells a control token.

use std::ops::Range;

use rolecall::tokenizer::AddedToken;
use rolecall::{Encoded, Origin, Prompt};

/// A place where a conversation spells a control token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forgery {
    pub span: Range<usize>,
    pub origin: Origin,
    /// The control token's text.
    pub token: String,
    /// Whether a control token's id came out for it: only the reference encoding does that.
    pub succeeded: bool,
}

/// All of them in order; none lies within another.
/// A template's control tokens are those that the tokenizer has added.
pub fn find_forgeries(prompt: &Prompt, encoded: Option<&Encoded>, added: &[AddedToken]) -> Vec<Forgery> {
    // A control token such as `sop` is a piece of ordinary words.
    let is_mark = |text: &&str| text.chars().any(|character| !character.is_alphanumeric());
    let own = prompt.controls().iter().flat_map(|control| control.texts());
    let added = added.iter().map(|token| token.text.as_str()).filter(|_| prompt.controls().is_empty());
    let mut marks: Vec<&str> = own.chain(added).filter(is_mark).collect();
    marks.sort_by_key(|text| std::cmp::Reverse(text.len()));
    let mut found: Vec<Forgery> = Vec::new();
    for segment in prompt.segments().filter(|segment| !segment.origin.is_format()) {
        let first = found.len();
        for mark in &marks {
            for (at, _) in segment.text.match_indices(mark) {
                let span = segment.start + at..segment.start + at + mark.len();
                let succeeded = encoded.is_some_and(|encoded| becomes_control(encoded, &span));
                found.push(Forgery { span, origin: segment.origin.clone(), token: (*mark).to_owned(), succeeded });
            }
        }
        // Stable: of two that begin together the longer mark stays first.
        found[first..].sort_by_key(|forgery| forgery.span.start);
    }
    let mut end = 0;
    found.retain(|forgery| {
        let free = forgery.span.start >= end;
        if free {
            end = forgery.span.end;
        }
        free
    });
    found
}

fn becomes_control(encoded: &Encoded, span: &Range<usize>) -> bool {
    let first = encoded.tokens.partition_point(|token| token.end <= span.start);
    encoded.tokens[first..].iter().take_while(|token| token.start < span.end).any(|token| token.control)
}
