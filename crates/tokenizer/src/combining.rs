//! Spans of combining marks.

use crate::Token;

/// Extends tokens over text that no token covers, up to the next white space, or up to `end` after
/// the last token.
///
/// If a normalizer joins a letter and the combining mark after it, the crate leaves the mark out of
/// the span.
pub(crate) fn cover_marks(text: &str, end: usize, tokens: &mut [Token]) {
    let mut next_start = end;
    let mut later: Option<(Token, usize)> = None;
    for token in tokens.iter_mut().rev() {
        let before = *token;
        if let Some(gap) = text.get(token.end as usize..next_start) {
            token.end += gap.find(char::is_whitespace).unwrap_or(gap.len()) as u32;
        } else if let Some((same, end)) = later
            && (same.start, same.end) == (token.start, token.end)
        {
            // Tokens that share a character also share the mark.
            token.end = end as u32;
        }
        later = Some((before, token.end as usize));
        next_start = next_start.min(token.start as usize);
    }
}
