//! Packs the samples of a batch in sequences and writes them as rows.

use std::fmt::Write;

use rolecall::conversation::json::{self, Layout};
use rolecall::training::Packer;

use super::packed_row::{PackedItem, PackedRow};
use super::unwritten::Unwritten;
use super::{RowContents, columns};
use crate::diagnostic::{Diagnostic, DiagnosticPlace, Severity};
use crate::explain::counted;
use crate::row_kind::RowKind;

/// The number of rows that are written at once, if no sequence comes between them.
const MOST_ROWS: usize = 1000;

/// Packs samples in the order of their lines, whatever the blocks and threads are.
pub struct Packing {
    packer: Packer<u64>,
    length: u32,
    kind: RowKind,
    wanted: RowContents,
    rows: Vec<PackedRow>,
    samples: u64,
}

impl Packing {
    pub fn new(length: u32, kind: RowKind, wanted: RowContents) -> Packing {
        Packing { packer: Packer::new(length), length, kind, wanted, rows: Vec::new(), samples: 0 }
    }

    /// Adds the results of a block, and returns the bytes of the rows that are complete.
    pub fn take(&mut self, items: Vec<PackedItem>) -> Result<Vec<u8>, Unwritten> {
        let mut is_due = false;
        for item in items {
            match item {
                PackedItem::Sample(slot) => {
                    self.samples += 1;
                    let sequences = self.packer.push(slot).map_err(|error| Unwritten(error.to_string()))?;
                    is_due |= !sequences.is_empty();
                    self.rows.extend(sequences.into_iter().map(PackedRow::Sequence));
                }
                PackedItem::Refused(refused) => self.rows.push(PackedRow::Refused(refused)),
            }
        }
        match is_due || self.rows.len() >= MOST_ROWS {
            true => self.write_out(),
            false => Ok(Vec::new()),
        }
    }

    /// Returns the bytes of all rows that are left.
    pub fn finish(&mut self) -> Result<Vec<u8>, Unwritten> {
        self.rows.extend(self.packer.finish().into_iter().map(PackedRow::Sequence));
        self.write_out()
    }

    fn write_out(&mut self) -> Result<Vec<u8>, Unwritten> {
        let rows = std::mem::take(&mut self.rows);
        let mut out = Vec::new();
        match self.kind {
            RowKind::Jsonl => {
                let mut text = String::new();
                rows.iter().for_each(|row| write_line(&mut text, row, self.wanted));
                out = text.into_bytes();
            }
            kind => columns::write_packed(kind, &rows, self.wanted, &mut out)?,
        }
        Ok(out)
    }

    /// Returns how full the sequences are.
    pub fn report(&self) -> Diagnostic<'static> {
        let sequences = self.packer.sequences() as usize;
        let fill = match sequences {
            0 => String::new(),
            _ => format!(", {:.1} % full", self.packer.fill_rate() * 100.0),
        };
        Diagnostic {
            severity: Severity::Note,
            code: "packed",
            message: format!(
                "{} in {} of at most {} ids{fill}",
                counted(self.samples as usize, "sample"),
                counted(sequences, "sequence"),
                self.length
            ),
            place: DiagnosticPlace::Nowhere,
            help: Vec::new(),
        }
    }
}

/// Writes a row as a line of JSON.
fn write_line(text: &mut String, row: &PackedRow, wanted: RowContents) {
    match row {
        PackedRow::Refused(refused) => json::write_into(text, &refused.json, &Layout::compact()),
        PackedRow::Sequence(packed) => {
            text.push('{');
            list(text, "rows", packed.sources.iter());
            list(text, "ids", packed.ids.iter());
            list(text, "loss_mask", packed.weights.iter().map(|weight| u8::from(*weight > 0.0)));
            if wanted.weights || packed.weights.iter().any(|weight| *weight != 0.0 && *weight != 1.0) {
                list(text, "loss_weights", packed.weights.iter());
            }
            list(text, "position_ids", packed.position_ids().iter());
            list(text, "cu_seqlens", packed.cu_seqlens().iter());
            let _ = write!(text, "\"max_seqlen\":{}}}", packed.max_seqlen());
        }
    }
    text.push('\n');
}

/// Writes `"key":[1,2],`.
fn list(text: &mut String, key: &str, numbers: impl Iterator<Item = impl std::fmt::Display>) {
    let _ = write!(text, "\"{key}\":[");
    for (at, number) in numbers.enumerate() {
        let _ = write!(text, "{}{number}", if at > 0 { "," } else { "" });
    }
    text.push_str("],");
}
