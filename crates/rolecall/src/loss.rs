//! Which bytes and which tokens of a training text carry loss.

use std::ops::Range;

use rolecall_encode::{Encoded, EncodedToken};
pub use rolecall_render::{LossPolicy, loss_spans as spans};

/// Returns, for each token, whether it carries loss. A token that straddles the border of a span
/// carries loss.
pub fn mask(encoded: &Encoded, spans: &[Range<usize>]) -> impl Iterator<Item = bool> {
    encoded.tokens.iter().map(|token| is_learned(token, spans))
}

pub(crate) fn is_learned(token: &EncodedToken, spans: &[Range<usize>]) -> bool {
    first_behind(spans, token.start).first().is_some_and(|span| span.start < token.end)
}

/// Returns the spans, which are sorted, starting with the first that ends after `at`.
pub(crate) fn first_behind(spans: &[Range<usize>], at: usize) -> &[Range<usize>] {
    &spans[spans.partition_point(|span| span.end <= at)..]
}
