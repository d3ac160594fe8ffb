//! All tests of this crate in one binary, because each binary links every library again.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that panics has failed")]

mod every_cap;
mod headers;
mod nothing_lost;
mod places;
mod reading;
mod spellings;
mod split;
