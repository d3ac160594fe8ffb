//! All tests of this crate.

mod common;
mod escapes;
mod files;
mod kernel;
