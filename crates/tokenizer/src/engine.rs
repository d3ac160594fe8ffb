/// What encodes: chosen when a tokenizer is loaded, and never seen in a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Engine {
    /// This library itself.
    Own,
    /// The reference crate, many times slower.
    Crate {
        /// What in the file this library does not do itself.
        why: String,
    },
}

impl std::fmt::Display for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Own => f.write_str("rolecall's own"),
            Self::Crate { why } => write!(f, "the tokenizers crate ({why})"),
        }
    }
}
