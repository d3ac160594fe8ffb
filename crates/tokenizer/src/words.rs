//! Checks word boundaries around tokens that only match whole words (`single_word`).

use std::ops::Range;

/// Reports whether a span does not touch a word character on either side.
///
/// Word characters are those that match `\w` in the reference crate, which includes combining marks
/// and joiners but not circled numbers.
pub fn stands_alone(text: &str, span: &Range<usize>) -> bool {
    let before = text[..span.start].chars().next_back();
    let after = text[span.end..].chars().next();
    !before.is_some_and(is_word) && !after.is_some_and(is_word)
}

fn is_word(character: char) -> bool {
    // This fails only if the build lacks the Unicode tables.
    regex_syntax::try_is_word_character(character).unwrap_or_else(|_| character.is_alphanumeric() || character == '_')
}
