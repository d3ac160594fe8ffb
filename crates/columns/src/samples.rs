//! Samples as columns.

use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::{
    ArrayRef, Float32Array, Int64Array, ListArray, RecordBatch, StringArray, UInt8Array, UInt32Array, UInt64Array,
};
use arrow_buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use rolecall::conversation::{Json, json};
use rolecall::dataset::Side;
use rolecall::training::RowNote;

use crate::plan::{ColumnNames, ColumnPlan};
use crate::{Accounts, SampleError, error_fields, errors};

/// The number of ids after which a record batch ends, since offsets have 32 bits.
const MOST_IDS: usize = 1 << 24;

/// Rows stored by column. A row without ids has an error instead.
#[derive(Default)]
pub struct Samples {
    rows: Vec<u64>,
    names: StringBuilder,
    sides: StringBuilder,
    ends: Vec<i32>,
    ids: Vec<u32>,
    weights: Vec<f32>,
    truncated_from: Vec<Option<u64>>,
    accounts: Accounts,
    faults: Vec<Option<SampleError>>,
}

/// A sample of a row.
pub struct Sample {
    pub row: u64,
    pub id: Option<Json>,
    pub side: Option<Side>,
    pub ids: Vec<u32>,
    pub weights: Vec<f32>,
    pub truncated_from: Option<u64>,
    pub account: Vec<RowNote>,
}

/// Returns the schema of the columns.
pub fn schema(plan: &ColumnPlan) -> SchemaRef {
    let mut fields = vec![
        Field::new("row", DataType::UInt64, false),
        Field::new("id", DataType::Utf8, true),
        Field::new("side", DataType::Utf8, true),
    ];
    fields.extend(id_fields(plan));
    fields.push(Field::new("length", DataType::UInt32, true));
    fields.push(Field::new("truncated_from", DataType::UInt64, true));
    fields.push(Accounts::field());
    fields.push(Field::new("error", DataType::Struct(error_fields()), true));
    Arc::new(Schema::new(fields))
}

/// Returns the fields of ids, with the loss.
pub fn id_fields(plan: &ColumnPlan) -> Vec<Field> {
    let mut fields = match plan.layout {
        ColumnNames::Rolecall => vec![Field::new("ids", list_of(DataType::UInt32), true)],
        ColumnNames::Trl => vec![Field::new("input_ids", list_of(DataType::Int64), true)],
    };
    if plan.recipe.policy.is_some() {
        fields.push(match plan.layout {
            ColumnNames::Rolecall => Field::new("loss_mask", list_of(DataType::UInt8), true),
            ColumnNames::Trl => Field::new("labels", list_of(DataType::Int64), true),
        });
        if plan.weights {
            fields.push(Field::new("loss_weights", list_of(DataType::Float32), true));
        }
    }
    fields
}

/// Returns the columns of ids, with the loss.
pub fn id_columns(
    plan: &ColumnPlan,
    ends: &[i32],
    ids: Vec<u32>,
    weights: Vec<f32>,
    there: &NullBuffer,
) -> Result<Vec<ArrayRef>, ArrowError> {
    let of =
        |item: DataType, values: ArrayRef| list(ends, Field::new("item", item, false), values, Some(there.clone()));
    let has_loss = plan.recipe.policy.is_some();
    let loss: Option<ArrayRef> = has_loss.then(|| match plan.layout {
        ColumnNames::Rolecall => {
            let mask = weights.iter().map(|weight| u8::from(*weight > 0.0));
            Arc::new(UInt8Array::from_iter_values(mask)) as ArrayRef
        }
        ColumnNames::Trl => {
            let labels = ids.iter().zip(&weights).map(|(id, weight)| if *weight > 0.0 { i64::from(*id) } else { -100 });
            Arc::new(Int64Array::from_iter_values(labels))
        }
    });
    let mut columns = vec![match plan.layout {
        ColumnNames::Rolecall => of(DataType::UInt32, Arc::new(UInt32Array::from(ids)))?,
        ColumnNames::Trl => {
            of(DataType::Int64, Arc::new(Int64Array::from_iter_values(ids.into_iter().map(i64::from))))?
        }
    }];
    if let Some(loss) = loss {
        columns.push(of(loss.data_type().clone(), loss)?);
        if plan.weights {
            columns.push(of(DataType::Float32, Arc::new(Float32Array::from(weights)))?);
        }
    }
    Ok(columns)
}

impl Samples {
    /// Adds a sample.
    pub fn push(&mut self, sample: Sample) {
        self.open(sample.row, sample.id.as_ref());
        self.sides.append_option(sample.side.map(Side::name));
        self.ids.extend(sample.ids);
        self.weights.extend(sample.weights);
        self.truncated_from.push(sample.truncated_from);
        self.accounts.push(&sample.account);
        self.faults.push(None);
        self.ends.push(self.ids.len() as i32);
    }

    /// Adds the error of a row.
    pub fn refuse(&mut self, row: u64, id: Option<&Json>, fault: SampleError) {
        self.open(row, id);
        self.sides.append_null();
        self.truncated_from.push(None);
        self.accounts.push(&[]);
        self.faults.push(Some(fault));
        self.ends.push(self.ids.len() as i32);
    }

    fn open(&mut self, row: u64, id: Option<&Json>) {
        self.rows.push(row);
        match id {
            None => self.names.append_null(),
            Some(Json::String(text)) => self.names.append_value(text),
            Some(other) => self.names.append_value(json::write(other, &json::Layout::compact())),
        }
    }

    /// Reports whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Reports whether the rows should become a batch.
    pub fn is_full(&self) -> bool {
        self.ids.len() >= MOST_IDS
    }

    /// Converts the rows to a record batch.
    pub fn into_batch(mut self, plan: &ColumnPlan) -> Result<RecordBatch, ArrowError> {
        let there = NullBuffer::from_iter(self.faults.iter().map(Option::is_none));
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let lengths = starts.zip(&self.ends).zip(&self.faults);
        let lengths = lengths.map(|((start, end), fault)| fault.is_none().then_some((end - start) as u32));
        let lengths: UInt32Array = lengths.collect();
        let ends: Vec<i32> = std::iter::once(0).chain(self.ends).collect();
        let mut columns: Vec<ArrayRef> =
            vec![Arc::new(UInt64Array::from(self.rows)), Arc::new(self.names.finish()), Arc::new(self.sides.finish())];
        columns.extend(id_columns(plan, &ends, self.ids, self.weights, &there)?);
        columns.push(Arc::new(lengths));
        columns.push(Arc::new(UInt64Array::from(self.truncated_from)));
        columns.push(self.accounts.finish(there)?);
        columns.push(errors(self.faults.iter().map(Option::as_ref))?);
        RecordBatch::try_new(schema(plan), columns)
    }
}

/// Returns the type of lists whose items are never null.
pub fn list_of(item: DataType) -> DataType {
    DataType::List(Arc::new(Field::new("item", item, false)))
}

/// Returns a column of lists. `ends` begins with 0.
pub fn list(ends: &[i32], item: Field, values: ArrayRef, nulls: Option<NullBuffer>) -> Result<ArrayRef, ArrowError> {
    let offsets = OffsetBuffer::new(ScalarBuffer::from(ends.to_vec()));
    Ok(Arc::new(ListArray::try_new(Arc::new(item), offsets, values, nulls)?))
}

/// Returns texts with the null buffer of the struct that contains them.
pub fn under(mut texts: StringBuilder, there: &NullBuffer) -> Result<ArrayRef, ArrowError> {
    let (offsets, values, _) = texts.finish().into_parts();
    Ok(Arc::new(StringArray::try_new(offsets, values, Some(there.clone()))?))
}
