//! Packed sequences as columns.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Float32Array, Int32Array, UInt8Array, UInt32Array, UInt64Array};
use arrow_buffer::NullBuffer;
use arrow_schema::{ArrowError, DataType, Field};
use rolecall::training::PackedSamples;

use crate::samples::{list, list_of};

/// The number of ids after which a record batch should end, since offsets have 32 bits.
pub const MOST_IDS: usize = 1 << 24;

/// A row of packed columns: a sequence, or the number of a row that has no sample.
pub type PackedRow<'a> = Result<&'a PackedSamples<u64>, u64>;

/// Returns the fields of packed columns, which docs/batches.md describes, without the errors.
pub fn fields(weights: bool) -> Vec<Field> {
    let mut fields = vec![
        Field::new("rows", list_of(DataType::UInt64), false),
        Field::new("ids", list_of(DataType::UInt32), true),
        Field::new("loss_mask", list_of(DataType::UInt8), true),
    ];
    if weights {
        fields.push(Field::new("loss_weights", list_of(DataType::Float32), true));
    }
    fields.push(Field::new("position_ids", list_of(DataType::UInt32), true));
    fields.push(Field::new("cu_seqlens", list_of(DataType::Int32), true));
    fields.push(Field::new("max_seqlen", DataType::UInt32, true));
    fields
}

/// Returns the packed columns, without the errors.
pub fn columns(rows: &[PackedRow<'_>], weights: bool) -> Result<Vec<ArrayRef>, ArrowError> {
    let there = there(rows);
    let mut columns = vec![sources(rows)?];
    columns.push(of_each::<UInt32Array, _>(rows, &there, |packed| packed.ids.clone())?);
    let mask = |packed: &PackedSamples<u64>| packed.weights.iter().map(|weight| u8::from(*weight > 0.0)).collect();
    columns.push(of_each::<UInt8Array, _>(rows, &there, mask)?);
    if weights {
        columns.push(of_each::<Float32Array, _>(rows, &there, |packed| packed.weights.clone())?);
    }
    columns.push(of_each::<UInt32Array, _>(rows, &there, PackedSamples::position_ids)?);
    columns.push(of_each::<Int32Array, _>(rows, &there, PackedSamples::cu_seqlens)?);
    columns.push(longest(rows));
    Ok(columns)
}

/// Returns which rows have a sequence.
pub fn there(rows: &[PackedRow<'_>]) -> NullBuffer {
    rows.iter().map(Result::is_ok).collect()
}

/// Returns the numbers of the rows in each sequence.
pub fn sources(rows: &[PackedRow<'_>]) -> Result<ArrayRef, ArrowError> {
    let sources = rows.iter().map(|row| match row {
        Ok(packed) => packed.sources.clone(),
        Err(number) => vec![*number],
    });
    lists::<UInt64Array, _>(sources, None)
}

/// Returns the number of ids of the longest sample of each sequence.
pub fn longest(rows: &[PackedRow<'_>]) -> ArrayRef {
    let longest = rows.iter().map(|row| row.as_ref().ok().map(|packed| packed.max_seqlen() as u32));
    Arc::new(longest.collect::<UInt32Array>())
}

/// Returns a column of lists, which is null where a row has no sequence.
pub fn of_each<A, T>(
    rows: &[PackedRow<'_>],
    there: &NullBuffer,
    values: impl Fn(&PackedSamples<u64>) -> Vec<T>,
) -> Result<ArrayRef, ArrowError>
where
    A: Array + From<Vec<T>> + 'static,
{
    let each = rows.iter().map(|row| row.as_ref().map_or_else(|_| Vec::new(), |packed| values(packed)));
    lists::<A, T>(each, Some(there.clone()))
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
