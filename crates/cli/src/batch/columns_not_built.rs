//! What stands for columns in a build without the feature `parquet`: `--output` refuses them, so that none of this is called.

use std::io;
use std::path::Path;

use rolecall::conversation::Json;

use super::RowContents;
use super::packed_row::PackedRow;
use super::row::BatchRow;
use super::unwritten::Unwritten;
use crate::refusal::Refusal;
use crate::row_kind::RowKind;

pub const ARE_BUILT: bool = false;

pub struct Columns;

impl Columns {
    pub fn new(_: RowContents) -> Columns {
        Columns
    }

    pub fn push(&mut self, _: &BatchRow<'_>) -> Result<(), Refusal> {
        Ok(())
    }

    pub fn refuse(&mut self, _: u64, _: Option<&Json>, _: &Refusal) {}

    pub fn is_empty(&self) -> bool {
        true
    }

    pub fn is_full(&self) -> bool {
        false
    }
}

pub fn head(_: RowKind, _: RowContents) -> Result<Vec<u8>, Unwritten> {
    Ok(Vec::new())
}

pub fn end(_: RowKind) -> &'static [u8] {
    &[]
}

pub fn write(_: RowKind, _: Columns, _: RowContents, _: &mut Vec<u8>) -> Result<(), Unwritten> {
    Ok(())
}

pub fn write_packed(_: RowKind, _: &[PackedRow], _: RowContents, _: &mut Vec<u8>) -> Result<(), Unwritten> {
    Ok(())
}

pub fn join(_: &Path, _: &Path, _: RowContents) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
