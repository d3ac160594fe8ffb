//! Samples for a trainer: token ids with loss weights, truncated, split and packed.
//!
//! [`Sample::new`] turns a request into a sample. [`truncate`] makes it fit a length, [`as_served`]
//! splits a conversation that its template rewrites, and [`Packer`] puts several samples in one
//! sequence. Nothing is dropped silently: each step reports what it did.

mod oldest;
mod pack;
mod sample;
mod served;
mod truncate;

pub use pack::{Packed, Packer, Slot, TooLong};
pub use sample::{Prepared, Recipe, Sample, prepare};
pub use served::{Part, Rewritten, Samples, Served, as_served, restrict};
pub use truncate::{Limit, Truncate, Truncated, truncate};
