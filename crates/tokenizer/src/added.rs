/// A token outside the learned vocabulary, with the flags from the tokenizer's file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AddedToken {
    /// The token's text.
    pub text: String,
    /// The token's id.
    pub id: u32,
    /// Whether decoders omit the token from readable text. Some markers are not special.
    pub special: bool,
    /// Whether the reference matches the token against normalized text.
    pub normalized: bool,
    /// Whether the token absorbs the white space before it in the reference.
    pub lstrip: bool,
    /// Whether the token absorbs the white space after it in the reference.
    pub rstrip: bool,
    /// Whether the reference matches the token only as a whole word.
    pub single_word: bool,
}

impl AddedToken {
    /// Returns a control token that is matched against raw text.
    pub fn special(text: String, id: u32) -> Self {
        Self { text, id, special: true, normalized: false, lstrip: false, rstrip: false, single_word: false }
    }

    /// Reports whether this token is text rather than a marker, so that content may encode to it.
    ///
    /// Model makers add runs of white space, full-width letters and doubled dashes along with their
    /// markers. Ordinary content is full of those and its ids must not change, and a run of one
    /// character cannot pass for a marker. Runs of ASCII punctuation (`###`) can, so they stay
    /// protected.
    pub(super) fn is_text(&self) -> bool {
        let flagged = self.special || self.lstrip || self.rstrip || self.single_word;
        !flagged && spells_text(&self.text)
    }
}

pub(super) fn spells_text(text: &str) -> bool {
    let mut characters = text.chars();
    let Some(first) = characters.next() else { return false };
    is_space(text) || (characters.all(|c| c == first) && !first.is_ascii_punctuation())
}

/// Reports whether a text consists only of white space, including the space sign U+2581.
pub fn is_space(text: &str) -> bool {
    text.chars().all(|c| c.is_whitespace() || c == '\u{2581}')
}
