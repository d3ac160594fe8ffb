//! Samples for a trainer: token ids with loss weights, truncated, split and packed.
//!
//! [`Sample::new`] turns a request into a sample. [`truncate`] makes it fit a length, [`as_served`]
//! splits a conversation that its template rewrites, and [`Packer`] puts several samples in one
//! sequence. [`RowRecipe`] does all of this to a row of a dataset, and [`RowOptions`] reads a recipe
//! from the words that the command and the Python package use. Nothing is dropped silently: each step
//! reports what it did.

mod loss_options;
mod note;
mod oldest;
mod options;
mod pack;
mod row;
mod sample;
mod served;
mod truncate;

pub use loss_options::{LossExemption, LossOptions, LossPart, MissingStop, Whose, read_part, read_role};
pub use note::RowNote;
pub use options::{OptionError, RowOptions, limit};
pub use pack::{PackedSamples, Packer, Slot, TooLong};
pub use row::{Ready, ReadyRow, RowEncoding, RowError, RowRecipe, check_replies, truncation_notes};
pub use sample::{PreparedSample, Recipe, Sample, prepare};
pub use served::{Rewritten, SampleNumber, Samples, ServedSample, as_served, restrict};
pub use truncate::{Limit, Truncate, TruncationReport, truncate};
