//! All tests of this crate.

mod agent;
mod common;
mod escapes;
mod files;
mod kernel;
mod scenarios;
mod tools;
