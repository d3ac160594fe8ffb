//! All tests of this crate in one binary, because each binary links every library again.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that panics has failed")]

mod common;
mod hostile_outputs;
mod hostile_tokenizers;
mod tokenizer_files;
