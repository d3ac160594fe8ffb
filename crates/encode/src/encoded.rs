/// Token ids of a prompt, each with the bytes that it stands for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Encoded {
    /// The tokens in order.
    pub tokens: Vec<EncodedToken>,
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

    /// The control tokens' ids alone, in order.
    pub fn control_ids(&self) -> Vec<u32> {
        self.tokens.iter().filter(|token| token.control).map(|token| token.id).collect()
    }
}
