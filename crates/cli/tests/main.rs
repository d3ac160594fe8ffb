//! All tests of this crate in one binary, because each binary links every library again.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that panics has failed")]

#[cfg(feature = "parquet")]
mod batch;
mod cases;
#[cfg(feature = "gateway")]
mod chat;
mod common;
mod dialects;
#[cfg(feature = "tokenizers")]
mod doors;
mod not_built;
mod request_costs;
mod request_memory;
#[cfg(feature = "gateway")]
mod scenarios;
#[cfg(feature = "gateway")]
mod serve;
