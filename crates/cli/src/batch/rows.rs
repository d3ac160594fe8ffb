//! Converts the results of a block of lines to bytes that only need to be concatenated.

use rolecall::conversation::Json;
use rolecall::conversation::json::Layout;

use super::columns::{Columns, write};
use super::packed_row::{LineError, PackedItem};
use super::row::{BatchRow, LONGEST};
use super::unwritten::Unwritten;
use super::{AnsweredRows, RowContents};
use crate::refusal::Refusal;
use crate::row_kind::RowKind;

/// The rows of a block.
pub enum Rows {
    /// JSON lines.
    Lines(String),
    /// Samples that are packed later.
    Samples {
        wanted: RowContents,
        length: u32,
        items: Vec<PackedItem>,
    },
    Columns {
        kind: RowKind,
        wanted: RowContents,
        open: Box<Columns>,
        written: Vec<u8>,
    },
}

impl Rows {
    pub fn new(kind: RowKind, wanted: RowContents) -> Rows {
        if let Some(length) = wanted.pack {
            // JSON has weights wherever there are any.
            let wanted = RowContents { weights: wanted.weights || kind == RowKind::Jsonl, ..wanted };
            return Rows::Samples { wanted, length, items: Vec::new() };
        }
        match kind {
            RowKind::Jsonl => Rows::Lines(String::new()),
            RowKind::Arrow | RowKind::Parquet => {
                Rows::Columns { kind, wanted, open: Box::new(Columns::new(wanted)), written: Vec::new() }
            }
        }
    }

    /// Checks that a line of this many bytes is not too long.
    pub fn admit(&self, bytes: usize) -> Result<(), Refusal> {
        match self {
            Rows::Columns { .. } if bytes > LONGEST => Err(Refusal::TooLong { what: "line", bytes, most: LONGEST }),
            _ => Ok(()),
        }
    }

    /// Adds a conversation to columns.
    pub fn push(&mut self, row: &BatchRow<'_>) -> Result<(), Refusal> {
        match self {
            Rows::Columns { open, .. } => open.push(row),
            Rows::Lines(_) | Rows::Samples { .. } => Ok(()),
        }
    }

    /// Adds a result that has no columns.
    pub fn push_json(&mut self, result: &Json) {
        if let Rows::Lines(text) = self {
            text.push_str(&rolecall::conversation::json::write(result, &Layout::compact()));
        }
    }

    /// Returns where the JSON lines end.
    pub fn end(&self) -> usize {
        if let Rows::Lines(text) = self { text.len() } else { 0 }
    }

    /// Removes what a refused line added to JSON lines after this end.
    pub fn undo(&mut self, end: usize) {
        if let Rows::Lines(text) = self {
            text.truncate(end);
        }
    }

    /// Adds the error of a refused line.
    pub fn refuse(&mut self, number: u64, id: Option<&Json>, refusal: &Refusal) {
        match self {
            Rows::Lines(text) => {
                text.push_str(&rolecall::conversation::json::write(&refusal.to_json(id), &Layout::compact()));
            }
            Rows::Columns { open, .. } => open.refuse(number, id, refusal),
            Rows::Samples { items, .. } => {
                // Of a line, either all samples are packed, or none.
                while items.pop_if(|item| matches!(item, PackedItem::Sample(slot) if slot.source == number)).is_some() {
                }
                items.push(PackedItem::Refused(LineError::new(number, id, refusal)));
            }
        }
    }

    /// Starts the next row of the same line.
    pub fn next_of_line(&mut self) {
        if let Rows::Lines(text) = self {
            text.push('\n');
        }
    }

    /// Ends the rows of a line.
    pub fn end_row(&mut self) -> Result<(), Unwritten> {
        match self {
            Rows::Lines(text) => {
                text.push('\n');
                Ok(())
            }
            Rows::Columns { open, .. } if open.is_full() => self.write_out(),
            Rows::Columns { .. } | Rows::Samples { .. } => Ok(()),
        }
    }

    /// Returns the bytes of all rows, or the samples to be packed.
    pub fn into_answered(mut self) -> Result<AnsweredRows, Unwritten> {
        self.write_out()?;
        Ok(match self {
            Rows::Lines(text) => AnsweredRows::Bytes(text.into_bytes()),
            Rows::Columns { written, .. } => AnsweredRows::Bytes(written),
            Rows::Samples { items, .. } => AnsweredRows::Items(items),
        })
    }

    fn write_out(&mut self) -> Result<(), Unwritten> {
        let Rows::Columns { kind, wanted, open, written } = self else { return Ok(()) };
        if open.is_empty() {
            return Ok(());
        }
        let columns = std::mem::replace(&mut **open, Columns::new(*wanted));
        write(*kind, columns, *wanted, written)
    }
}
