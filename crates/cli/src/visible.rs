//! Escaping of text from an input, which the library does.

pub use rolecall::visible::{escape, is_steering, padded, push_escaped, width};
