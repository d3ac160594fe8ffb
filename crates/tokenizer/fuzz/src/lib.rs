//! What the targets that encode share: texts made from an input's bytes, and tokenizers in several
//! engines that have to agree about them.

mod pair;
mod random;
mod text;

pub use pair::Pair;
pub use random::random_tokenizer;
pub use text::{Bytes, TextKind, text_of};
