use crate::special::Note;

/// Token ids of a prompt, each with the bytes that it stands for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Encoded {
    /// The tokens in order.
    pub tokens: Vec<EncodedToken>,
    /// What may be wrong at the ends of the prompt.
    pub notes: Vec<Note>,
}

/// One token of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncodedToken {
    /// Its id.
    pub id: u32,
    /// The first byte of the prompt that it stands for.
    pub start: usize,
    /// The byte behind the last one.
    pub end: usize,
    /// Whether it is a control token, or another token that plain text must never become.
    pub control: bool,
}

impl Encoded {
    /// The ids alone.
    pub fn ids(&self) -> Vec<u32> {
        self.tokens.iter().map(|token| token.id).collect()
    }

    /// Keeps the first tokens, so many at most, as trainers cut what is too long.
    ///
    /// ```
    /// use rolecall_encode::{Encoded, EncodedToken};
    /// let token = |id| EncodedToken { id, start: 0, end: 1, control: false };
    /// let mut encoded = Encoded { tokens: vec![token(1), token(2)], ..Encoded::default() };
    /// encoded.cut(1);
    /// assert_eq!(encoded.ids(), [1]);
    /// ```
    pub fn cut(&mut self, length: usize) {
        self.tokens.truncate(length);
    }

    /// The control tokens' ids alone, in order.
    pub fn control_ids(&self) -> Vec<u32> {
        self.tokens.iter().filter(|token| token.control).map(|token| token.id).collect()
    }
}
