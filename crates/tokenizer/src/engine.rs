/// The implementation that encodes. It is chosen when a tokenizer is loaded and does not affect
/// results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Engine {
    /// This library.
    Native,
    /// The reference crate, which is many times slower.
    Crate {
        /// The feature of the file that this library does not implement.
        why: String,
    },
}

impl std::fmt::Display for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Native => f.write_str("rolecall's own"),
            Self::Crate { why } => write!(f, "the tokenizers crate ({why})"),
        }
    }
}
