/// A token that stands outside the learned vocabulary, with the flags the tokenizer's maker gave it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AddedToken {
    /// What it is spelled like.
    pub text: String,
    /// Its number.
    pub id: u32,
    /// Whether decoders leave it out of readable text; markers that are not special exist too.
    pub special: bool,
    /// Whether the reference looks for it in normalized text.
    pub normalized: bool,
    /// Whether the reference takes the white space before it into it.
    pub lstrip: bool,
    /// Whether the reference takes the white space behind it into it.
    pub rstrip: bool,
    /// Whether the reference matches it only where no word goes on before or behind it.
    pub single_word: bool,
}

impl AddedToken {
    /// A control token that is looked for as it is spelled.
    pub fn special(text: String, id: u32) -> Self {
        Self { text, id, special: true, normalized: false, lstrip: false, rstrip: false, single_word: false }
    }

    /// Whether this token is text and no marker, so that content may become it.
    ///
    /// Makers add runs of white space, full-width letters and doubled dashes beside their markers. Honest content
    /// is full of those and its ids must not change, while a run of one character cannot pass for a marker. Runs
    /// of ASCII punctuation (`###`) can, and stay protected.
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

/// Whether a text is white space alone, in the sign for it too.
pub fn is_space(text: &str) -> bool {
    text.chars().all(|c| c.is_whitespace() || c == '\u{2581}')
}
