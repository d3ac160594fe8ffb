//! Packed sequences as columns.

use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::{
    Array, ArrayRef, Float32Array, Int32Array, RecordBatch, StructArray, UInt8Array, UInt32Array, UInt64Array,
};
use arrow_buffer::NullBuffer;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use rolecall::training::Packed;

use super::super::Wanted;
use super::super::packing::PackedRow;
use super::super::unwritten::Unwritten;
use super::{error_fields, list, list_of, under, write_batch};
use crate::row_kind::RowKind;

/// The number of ids after which a record batch or row group ends, since offsets have 32 bits.
const MOST_IDS: usize = 1 << 24;

/// Returns the schema of packed rows, which docs/batches.md describes.
pub fn schema(wanted: Wanted) -> SchemaRef {
    let mut fields = vec![
        Field::new("rows", list_of(DataType::UInt64), false),
        Field::new("ids", list_of(DataType::UInt32), true),
        Field::new("loss_mask", list_of(DataType::UInt8), true),
    ];
    if wanted.weights {
        fields.push(Field::new("loss_weights", list_of(DataType::Float32), true));
    }
    fields.push(Field::new("position_ids", list_of(DataType::UInt32), true));
    fields.push(Field::new("cu_seqlens", list_of(DataType::Int32), true));
    fields.push(Field::new("max_seqlen", DataType::UInt32, true));
    fields.push(Field::new("error", DataType::Struct(error_fields()), true));
    Arc::new(Schema::new(fields))
}

/// Adds packed rows to the bytes of a file.
pub fn write(kind: RowKind, rows: &[PackedRow], wanted: Wanted, out: &mut Vec<u8>) -> Result<(), Unwritten> {
    let ids = |row: &PackedRow| match row {
        PackedRow::Sequence(packed) => packed.ids.len(),
        PackedRow::Refused(_) => 0,
    };
    let (mut from, mut total) = (0, 0);
    for (at, row) in rows.iter().enumerate() {
        if at > from && total + ids(row) > MOST_IDS {
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

fn batch(rows: &[PackedRow], wanted: Wanted) -> Result<RecordBatch, ArrowError> {
    let sequences = rows.iter().map(|row| match row {
        PackedRow::Sequence(packed) => Some(packed),
        PackedRow::Refused(_) => None,
    });
    let sequences: Vec<Option<&Packed<u64>>> = sequences.collect();
    let there: NullBuffer = sequences.iter().map(Option::is_some).collect();
    let sources = rows.iter().map(|row| match row {
        PackedRow::Sequence(packed) => packed.sources.clone(),
        PackedRow::Refused(refused) => vec![refused.number],
    });
    let mut columns = vec![lists::<UInt64Array, _>(sources, None)?];
    columns.push(of_each::<UInt32Array, _>(&sequences, &there, |packed| packed.ids.clone())?);
    let mask = |packed: &Packed<u64>| packed.weights.iter().map(|weight| u8::from(*weight > 0.0)).collect();
    columns.push(of_each::<UInt8Array, _>(&sequences, &there, mask)?);
    if wanted.weights {
        columns.push(of_each::<Float32Array, _>(&sequences, &there, |packed| packed.weights.clone())?);
    }
    columns.push(of_each::<UInt32Array, _>(&sequences, &there, Packed::position_ids)?);
    columns.push(of_each::<Int32Array, _>(&sequences, &there, Packed::cu_seqlens)?);
    let longest = sequences.iter().map(|packed| packed.map(|packed| packed.max_seqlen() as u32));
    columns.push(Arc::new(longest.collect::<UInt32Array>()));
    let failed = NullBuffer::new(!there.inner());
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

/// Returns a column of lists, which is null where a row has no sequence.
fn of_each<A, T>(
    sequences: &[Option<&Packed<u64>>],
    there: &NullBuffer,
    values: impl Fn(&Packed<u64>) -> Vec<T>,
) -> Result<ArrayRef, ArrowError>
where
    A: Array + From<Vec<T>> + 'static,
{
    lists::<A, T>(sequences.iter().map(|packed| packed.map(&values).unwrap_or_default()), Some(there.clone()))
}

fn lists<A, T>(rows: impl Iterator<Item = Vec<T>>, there: Option<NullBuffer>) -> Result<ArrayRef, ArrowError>
where
    A: Array + From<Vec<T>> + 'static,
{
    let (mut all, mut ends) = (Vec::new(), vec![0]);
    for row in rows {
        all.extend(row);
        ends.push(all.len() as i32);
    }
    let values = A::from(all);
    let item = Field::new("item", values.data_type().clone(), false);
    list(&ends, item, Arc::new(values), there)
}
