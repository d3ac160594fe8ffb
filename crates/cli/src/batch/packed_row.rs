//! Rows of packed output, and what they are made of.

use rolecall::conversation::Json;
use rolecall::training::{PackedSamples, Slot};

use crate::refusal::Refusal;

/// A result of a line, before it is packed.
pub enum PackedItem {
    /// A sample, with the number of its line.
    Sample(Slot<u64>),
    Refused(LineError),
}

/// The error of a line.
#[cfg_attr(not(feature = "parquet"), expect(dead_code, reason = "nothing reads all of it without columns"))]
pub struct LineError {
    pub number: u64,
    pub json: Json,
    pub code: &'static str,
    pub message: String,
}

/// A row of packed output.
pub enum PackedRow {
    Sequence(PackedSamples<u64>),
    Refused(LineError),
}

impl LineError {
    pub fn new(number: u64, id: Option<&Json>, refusal: &Refusal) -> LineError {
        let mut json = refusal.to_json(id);
        if let Json::Object(object) = &mut json {
            object.insert("rows", Json::Array(vec![Json::from(number as i64)]));
        }
        LineError { number, json, code: refusal.code(), message: refusal.to_string() }
    }
}
