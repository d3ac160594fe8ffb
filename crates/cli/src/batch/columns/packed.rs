//! Packed sequences as columns.

use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::{ArrayRef, RecordBatch, StructArray};
use arrow_buffer::NullBuffer;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use rolecall_columns::packed;

use super::super::RowContents;
use super::super::packed_row::PackedRow;
use super::super::unwritten::Unwritten;
use super::{error_fields, under, write_batch};
use crate::row_kind::RowKind;

/// Returns the schema of packed rows, which docs/batches.md describes.
pub fn schema(wanted: RowContents) -> SchemaRef {
    let mut fields = packed::fields(wanted.weights);
    fields.push(Field::new("error", DataType::Struct(error_fields()), true));
    Arc::new(Schema::new(fields))
}

/// Adds packed rows to the bytes of a file.
pub fn write(kind: RowKind, rows: &[PackedRow], wanted: RowContents, out: &mut Vec<u8>) -> Result<(), Unwritten> {
    let ids = |row: &PackedRow| match row {
        PackedRow::Sequence(packed) => packed.ids.len(),
        PackedRow::Refused(_) => 0,
    };
    let (mut from, mut total) = (0, 0);
    for (at, row) in rows.iter().enumerate() {
        if at > from && total + ids(row) > packed::MOST_IDS {
            write_batch(kind, &batch(&rows[from..at], wanted)?, wanted, out)?;
            (from, total) = (at, 0);
        }
        total += ids(row);
    }
    match rows[from..].is_empty() {
        true => Ok(()),
        false => write_batch(kind, &batch(&rows[from..], wanted)?, wanted, out),
    }
}

fn batch(rows: &[PackedRow], wanted: RowContents) -> Result<RecordBatch, ArrowError> {
    let sequences = rows.iter().map(|row| match row {
        PackedRow::Sequence(packed) => Ok(packed),
        PackedRow::Refused(refused) => Err(refused.number),
    });
    let sequences: Vec<packed::PackedRow<'_>> = sequences.collect();
    let mut columns = packed::columns(&sequences, wanted.weights)?;
    let failed = NullBuffer::new(!packed::there(&sequences).inner());
    let (mut codes, mut messages) = (StringBuilder::new(), StringBuilder::new());
    for row in rows {
        let refused = match row {
            PackedRow::Sequence(_) => None,
            PackedRow::Refused(refused) => Some(refused),
        };
        codes.append_option(refused.map(|refused| refused.code));
        messages.append_option(refused.map(|refused| &refused.message));
    }
    let errors: Vec<ArrayRef> = vec![under(codes, &failed)?, under(messages, &failed)?];
    columns.push(Arc::new(StructArray::try_new(error_fields(), errors, Some(failed))?));
    RecordBatch::try_new(schema(wanted), columns)
}
