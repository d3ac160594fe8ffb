//! Where a word goes on beside a token that must stand alone (`single_word`).

use std::ops::Range;

/// Whether no word goes on before or after a span.
///
/// A character of a word is what `\w` is to the reference crate, which counts marks and joiners and leaves numbers in circles out.
pub fn stands_alone(text: &str, span: &Range<usize>) -> bool {
    let before = text[..span.start].chars().next_back();
    let after = text[span.end..].chars().next();
    !before.is_some_and(is_word) && !after.is_some_and(is_word)
}

fn is_word(character: char) -> bool {
    // It fails only where the tables of Unicode were left out of the build.
    regex_syntax::try_is_word_character(character).unwrap_or_else(|_| character.is_alphanumeric() || character == '_')
}
