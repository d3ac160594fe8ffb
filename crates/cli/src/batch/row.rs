//! A conversation that is written as a row of columns.

use rolecall::dataset::Side;
use rolecall::training::{RowNote, TruncationReport};
use rolecall::{Encoded, Prompt, Request};

/// The maximum size of a line or a prompt in bytes. It keeps a block far below the 2 GiB limit of a
/// text column.
pub const LONGEST: usize = 256 << 20;

/// The data of a conversation that is written as a row.
#[cfg_attr(not(feature = "parquet"), expect(dead_code, reason = "nothing reads it without columns"))]
pub struct BatchRow<'a> {
    pub number: u64,
    pub request: &'a Request,
    /// Which answer of a preference pair it is.
    pub side: Option<Side>,
    pub prompt: &'a Prompt,
    pub encoded: &'a Encoded,
    /// The loss weight of each token, or empty if no mask was requested.
    pub weights: Vec<f32>,
    pub truncated: Option<&'a TruncationReport>,
    /// What is to be told about it; the account is a column.
    pub notes: &'a [RowNote],
}
