//! Rows as columns, for Arrow and Parquet.

mod arrow;
mod origins;
mod packed;
mod parquet;

use std::io;
use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::{ArrayRef, Float32Array, Int32Array, RecordBatch, StructArray, UInt8Array, UInt32Array, UInt64Array};
use arrow_buffer::{BooleanBufferBuilder, NullBuffer};
use arrow_schema::{ArrowError, DataType, Field, Fields, Schema, SchemaRef};
use rolecall::conversation::{Json, json};
use rolecall::dataset::Side;
use rolecall_columns::{Accounts, list, list_of, under};

use self::origins::{OriginRun, origin_runs};
pub use self::packed::write as write_packed;
use super::RowContents;
use super::row::{BatchRow, LONGEST};
use super::unwritten::Unwritten;
use crate::refusal::Refusal;
use crate::row_kind::RowKind;

/// The number of bytes after which rows are written out, even if their block has more.
const FULL: usize = 64 << 20;

/// Whether this build writes columns.
pub const ARE_BUILT: bool = true;

/// Rows stored by column. A row without ids has an error instead.
pub struct Columns {
    wanted: RowContents,
    rows: Vec<u64>,
    names: StringBuilder,
    sides: StringBuilder,
    there: BooleanBufferBuilder,
    id_ends: Vec<i32>,
    ids: Vec<u32>,
    weights: Vec<f32>,
    truncated_from: Vec<Option<u64>>,
    starts: Vec<u32>,
    ends: Vec<u32>,
    origin_ends: Vec<i32>,
    origins: Origins,
    texts: StringBuilder,
    accounts: Accounts,
    codes: StringBuilder,
    messages: StringBuilder,
    bytes: usize,
}

#[derive(Default)]
struct Origins {
    starts: Vec<u32>,
    ends: Vec<u32>,
    kinds: StringBuilder,
    indices: Vec<Option<i32>>,
    roles: StringBuilder,
    fields: StringBuilder,
}

/// Returns the beginning of a file of this kind.
pub fn head(kind: RowKind, wanted: RowContents) -> Result<Vec<u8>, Unwritten> {
    match kind {
        RowKind::Arrow => arrow::head(wanted),
        RowKind::Parquet | RowKind::Jsonl => Ok(Vec::new()),
    }
}

/// Returns the end of a file of this kind.
pub fn end(kind: RowKind) -> &'static [u8] {
    match kind {
        RowKind::Arrow => &arrow::END,
        RowKind::Parquet | RowKind::Jsonl => &[],
    }
}

/// Adds rows to the bytes of a file of this kind.
pub fn write(kind: RowKind, columns: Columns, wanted: RowContents, out: &mut Vec<u8>) -> Result<(), Unwritten> {
    write_batch(kind, &columns.into_batch()?, wanted, out)
}

fn write_batch(kind: RowKind, batch: &RecordBatch, wanted: RowContents, out: &mut Vec<u8>) -> Result<(), Unwritten> {
    match kind {
        RowKind::Parquet => parquet::write(batch, wanted, out),
        RowKind::Arrow | RowKind::Jsonl => arrow::write(batch, wanted, out),
    }
}

/// Joins the written blocks into one Parquet file.
pub fn join(parts: &Path, joined: &Path, wanted: RowContents) -> io::Result<()> {
    parquet::join(parts, joined, wanted)
}

/// Returns the schema of the columns, which docs/batches.md describes.
pub fn schema(wanted: RowContents) -> SchemaRef {
    if wanted.pack.is_some() {
        return packed::schema(wanted);
    }
    let mut fields = vec![
        Field::new("row", DataType::UInt64, false),
        Field::new("id", DataType::Utf8, true),
        Field::new("side", DataType::Utf8, true),
        Field::new("ids", list_of(DataType::UInt32), true),
        Field::new("spans", list_of(DataType::Struct(span_fields())), true),
        Field::new("origins", list_of(DataType::Struct(origin_fields())), true),
    ];
    if wanted.mask {
        fields.insert(4, Field::new("loss_mask", list_of(DataType::UInt8), true));
    }
    if wanted.weights {
        fields.insert(5, Field::new("loss_weights", list_of(DataType::Float32), true));
    }
    if wanted.truncated {
        fields.push(Field::new("truncated_from", DataType::UInt64, true));
    }
    if wanted.text {
        fields.push(Field::new("prompt", DataType::Utf8, true));
    }
    fields.push(Accounts::field());
    fields.push(Field::new("error", DataType::Struct(error_fields()), true));
    Arc::new(Schema::new(fields))
}

fn span_fields() -> Fields {
    Fields::from(vec![Field::new("start", DataType::UInt32, false), Field::new("end", DataType::UInt32, false)])
}

fn origin_fields() -> Fields {
    Fields::from(vec![
        Field::new("start", DataType::UInt32, false),
        Field::new("end", DataType::UInt32, false),
        Field::new("kind", DataType::Utf8, false),
        Field::new("index", DataType::Int32, true),
        Field::new("role", DataType::Utf8, true),
        Field::new("field", DataType::Utf8, true),
    ])
}

fn error_fields() -> Fields {
    Fields::from(vec![Field::new("code", DataType::Utf8, false), Field::new("message", DataType::Utf8, false)])
}

impl Columns {
    pub fn new(wanted: RowContents) -> Columns {
        Columns {
            wanted,
            rows: Vec::new(),
            names: StringBuilder::new(),
            sides: StringBuilder::new(),
            there: BooleanBufferBuilder::new(0),
            id_ends: vec![0],
            ids: Vec::new(),
            weights: Vec::new(),
            truncated_from: Vec::new(),
            starts: Vec::new(),
            ends: Vec::new(),
            origin_ends: vec![0],
            origins: Origins::default(),
            texts: StringBuilder::new(),
            accounts: Accounts::default(),
            codes: StringBuilder::new(),
            messages: StringBuilder::new(),
            bytes: 0,
        }
    }

    /// Adds a conversation.
    pub fn push(&mut self, row: &BatchRow<'_>) -> Result<(), Refusal> {
        let text = row.prompt.text();
        if text.len() > LONGEST {
            return Err(Refusal::TooLong { what: "prompt", bytes: text.len(), most: LONGEST });
        }
        // What may panic comes first, so that no row is left half written.
        let runs = origin_runs(row.prompt, row.encoded, &row.request.conversation);
        self.open_row(row.number, row.request.id.as_ref(), true);
        self.sides.append_option(row.side.map(Side::name));
        self.ids.extend(row.encoded.tokens.iter().map(|token| token.id));
        // The prompt's length was checked above, so offsets fit.
        self.starts.extend(row.encoded.tokens.iter().map(|token| token.start as u32));
        self.ends.extend(row.encoded.tokens.iter().map(|token| token.end as u32));
        self.weights.extend(&row.weights);
        self.truncated_from.push(row.truncated.map(|truncated| truncated.ids as u64));
        runs.iter().for_each(|run| self.origins.push(run));
        if self.wanted.text {
            self.texts.append_value(text);
        }
        self.accounts.push(row.notes);
        self.codes.append_null();
        self.messages.append_null();
        self.close_row();
        self.bytes += text.len() + 13 * row.encoded.tokens.len();
        Ok(())
    }

    /// Adds the error of a refused line.
    pub fn refuse(&mut self, number: u64, id: Option<&Json>, refusal: &Refusal) {
        self.open_row(number, id, false);
        self.sides.append_null();
        self.truncated_from.push(None);
        self.texts.append_null();
        self.accounts.push(&[]);
        self.codes.append_value(refusal.code());
        let message = refusal.to_string();
        self.messages.append_value(&message);
        self.close_row();
        self.bytes += message.len();
    }

    fn open_row(&mut self, number: u64, id: Option<&Json>, there: bool) {
        self.rows.push(number);
        self.there.append(there);
        match id {
            None => self.names.append_null(),
            Some(Json::String(text)) => self.names.append_value(text),
            Some(other) => self.names.append_value(json::write(other, &json::Layout::compact())),
        }
    }

    fn close_row(&mut self) {
        self.id_ends.push(self.ids.len() as i32);
        self.origin_ends.push(self.origins.starts.len() as i32);
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Reports whether the rows should be written out.
    pub fn is_full(&self) -> bool {
        self.bytes >= FULL
    }

    /// Converts the rows to an Arrow record batch.
    pub fn into_batch(mut self) -> Result<RecordBatch, ArrowError> {
        let there = self.there.finish();
        let nulls = Some(NullBuffer::new(there.clone()));
        let failed = NullBuffer::new(!&there);
        let ids_of = |item: DataType, values: ArrayRef| {
            list(&self.id_ends, Field::new("item", item, false), values, nulls.clone())
        };
        let spans = vec![numbers(self.starts), numbers(self.ends)];
        let spans = StructArray::try_new(span_fields(), spans, None)?;
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(UInt64Array::from(self.rows)),
            Arc::new(self.names.finish()),
            Arc::new(self.sides.finish()),
            ids_of(DataType::UInt32, numbers(self.ids))?,
            ids_of(DataType::Struct(span_fields()), Arc::new(spans))?,
        ];
        let origins = self.origins.into_array()?;
        let item = Field::new("item", DataType::Struct(origin_fields()), false);
        columns.push(list(&self.origin_ends, item, Arc::new(origins), nulls.clone())?);
        if self.wanted.mask {
            let mask = UInt8Array::from_iter_values(self.weights.iter().map(|weight| u8::from(*weight > 0.0)));
            columns.insert(4, ids_of(DataType::UInt8, Arc::new(mask))?);
        }
        if self.wanted.weights {
            columns.insert(5, ids_of(DataType::Float32, Arc::new(Float32Array::from(self.weights)))?);
        }
        if self.wanted.truncated {
            columns.push(Arc::new(UInt64Array::from(self.truncated_from)));
        }
        if self.wanted.text {
            columns.push(Arc::new(self.texts.finish()));
        }
        columns.push(self.accounts.finish(NullBuffer::new(there.clone()))?);
        let errors: Vec<ArrayRef> = vec![under(self.codes, &failed)?, under(self.messages, &failed)?];
        columns.push(Arc::new(StructArray::try_new(error_fields(), errors, Some(failed))?));
        RecordBatch::try_new(schema(self.wanted), columns)
    }
}

impl Origins {
    fn push(&mut self, run: &OriginRun<'_>) {
        self.starts.push(run.ids.start as u32);
        self.ends.push(run.ids.end as u32);
        self.kinds.append_value(run.kind);
        self.indices.push(run.index.map(|index| index as i32));
        self.roles.append_option(run.role);
        self.fields.append_option(run.field.as_deref());
    }

    fn into_array(mut self) -> Result<StructArray, ArrowError> {
        let columns: Vec<ArrayRef> = vec![
            numbers(self.starts),
            numbers(self.ends),
            Arc::new(self.kinds.finish()),
            Arc::new(Int32Array::from(self.indices)),
            Arc::new(self.roles.finish()),
            Arc::new(self.fields.finish()),
        ];
        StructArray::try_new(origin_fields(), columns, None)
    }
}

fn numbers(values: Vec<u32>) -> ArrayRef {
    Arc::new(UInt32Array::from(values))
}
