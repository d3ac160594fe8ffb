//! Which bytes of a prompt carry loss, and which of its ids.

use std::ops::Range;

use rolecall_encode::{Encoded, EncodedToken};
pub use rolecall_render::{LossPolicy, loss_spans as spans};

/// Whether each id carries loss; one that straddles a border does.
pub fn mask(encoded: &Encoded, spans: &[Range<usize>]) -> impl Iterator<Item = bool> {
    encoded.tokens.iter().map(|token| is_learned(token, spans))
}

pub(crate) fn is_learned(token: &EncodedToken, spans: &[Range<usize>]) -> bool {
    first_behind(spans, token.start).first().is_some_and(|span| span.start < token.end)
}

/// The spans, which are in order, from the first that ends behind a place.
pub(crate) fn first_behind(spans: &[Range<usize>], at: usize) -> &[Range<usize>] {
    &spans[spans.partition_point(|span| span.end <= at)..]
}
