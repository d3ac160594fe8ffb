//! Rows to columns of samples, on several threads.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use rolecall::Model;
use rolecall::conversation::Json;
use rolecall::dataset;
use rolecall::guard::guard;
use rolecall::pipeline::{self, PipelineStep};
use rolecall::training::{PackedSamples, Packer, RowError, Slot};

use crate::packed::{self, PackedRow};
use crate::plan::{ColumnNames, ColumnPlan};
use crate::samples::{self, Sample, Samples, list_of};
use crate::{SampleError, Table, error_fields, errors};

/// The number of rows that a thread encodes at once. Between two blocks, the caller can stop the run.
const BLOCK: usize = 64;
/// How long to wait for a block before the caller is asked whether to go on.
const PATIENCE: Duration = Duration::from_millis(50);
/// The maximum size of a prompt in bytes, as in the command's batches.
const LONGEST: usize = 256 << 20;

/// The note of a row from which a null was removed that may have been meant.
const UNCLEAR_NULLS: &str = "unclear_nulls";

/// The rows of a dataset.
pub enum Rows {
    /// In Arrow's memory.
    Table(Table),
    /// JSON values, or why a row is none.
    Values(Vec<Result<Json, SampleError>>),
    /// Rows of columns of JSON values, each with whether a null was removed that may have been meant.
    Columns(Vec<Result<(Json, bool), SampleError>>),
}

/// What was done so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counts {
    /// The number of rows.
    pub rows: u64,
    /// The number of rows with an error.
    pub refused: u64,
    /// The number of samples.
    pub samples: u64,
    /// The number of ids.
    pub tokens: u64,
    /// The number of packed sequences.
    pub sequences: u64,
    /// The number of rows with each note: what was truncated, where no stop token is.
    pub notes: BTreeMap<&'static str, u64>,
}

/// Columns of samples.
#[derive(Clone, Debug)]
pub struct SampleColumns {
    /// The fields, which do not depend on the rows.
    pub schema: SchemaRef,
    /// The rows in order.
    pub batches: Vec<RecordBatch>,
    /// What was done.
    pub counts: Counts,
}

/// Why there are no columns at all. `E` is the caller's reason to stop.
#[derive(Debug)]
pub enum Error<E> {
    /// The caller stopped the run.
    Stopped(E),
    /// The columns could not be built.
    Arrow(ArrowError),
    /// The model has no tokenizer, or it cannot be loaded.
    Library(rolecall::Error),
    /// No thread could be started, or one has died.
    Threads(String),
}

/// Encodes rows. A row that cannot be encoded becomes a row with an error.
///
/// `watch` is called between blocks of rows, at least 20 times a second, and may stop the run.
pub fn encode<E>(
    rows: Rows,
    model: &Model,
    plan: ColumnPlan,
    threads: NonZeroUsize,
    watch: &mut dyn FnMut(&Counts) -> Result<(), E>,
) -> Result<SampleColumns, Error<E>> {
    // Without a tokenizer every row would have the same error.
    model.tokenizer().map_err(Error::Library)?;
    let count = rows.len();
    let mut gathered = PendingColumns::new(plan.clone());
    let mut starts = (0..count).step_by(BLOCK);
    let mut next = move || starts.next().map(|start| start..(start + BLOCK).min(count));
    if threads.get() == 1 || count <= BLOCK {
        while let Some(range) = next() {
            watch(&gathered.counts).map_err(Error::Stopped)?;
            gathered.add(encode_block(&rows, range, model, &plan))?;
        }
    } else {
        let model = model.clone();
        let threads = threads.min(NonZeroUsize::new(count.div_ceil(BLOCK)).unwrap_or(NonZeroUsize::MIN));
        let work = move |range: Range<usize>| encode_block(&rows, range, &model, &plan);
        let started = pipeline::start(threads, next, work);
        let mut ordered = started.map_err(|error| Error::Threads(error.to_string()))?;
        loop {
            match ordered.next(PATIENCE) {
                Ok(PipelineStep::Done(block)) => gathered.add(block)?,
                Ok(PipelineStep::Late) => {}
                Ok(PipelineStep::End) => break,
                Err(pipeline::LostWorker) => return Err(Error::Threads("a thread died while it encoded rows".into())),
            }
            watch(&gathered.counts).map_err(Error::Stopped)?;
        }
    }
    gathered.finish()
}

impl Rows {
    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        match self {
            Rows::Table(table) => table.len(),
            Rows::Values(values) => values.len(),
            Rows::Columns(rows) => rows.len(),
        }
    }

    /// Reports whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a row, and whether a null was removed from it that may have been meant.
    fn row(&self, row: usize) -> Result<(Json, bool), SampleError> {
        match self {
            Rows::Table(table) => table.row(row).map(|value| (value, false)),
            Rows::Values(values) => values[row].clone().map(|value| (value, false)),
            Rows::Columns(rows) => rows[row].clone(),
        }
    }
}

/// The results of a block of rows.
struct RowBlock {
    rows: Result<Vec<RecordBatch>, ArrowError>,
    /// The samples to be packed, or a row's error.
    items: Vec<Result<Slot<u64>, (u64, SampleError)>>,
    counts: Counts,
}

fn encode_block(rows: &Rows, range: Range<usize>, model: &Model, plan: &ColumnPlan) -> RowBlock {
    let mut counts = Counts::default();
    let (mut open, mut batches, mut items) = (Samples::default(), Vec::new(), Vec::new());
    let mut failed = None;
    for row in range {
        let number = row as u64;
        let mut id = None;
        counts.rows += 1;
        // A mistake of ours in one row, or damaged memory of another library, must not end a job of
        // millions.
        let answered = guard(|| {
            let (value, is_unclear) = rows.row(row)?;
            id = dataset::id_in(&value);
            let mut answer = encode_row(value, number, model, plan)?;
            answer.notes.extend(is_unclear.then_some((UNCLEAR_NULLS, ())));
            Ok(answer)
        });
        let answered = answered.unwrap_or_else(|bug| Err(RowError::from(bug).into()));
        match answered {
            Ok(answer) => {
                counts.samples += answer.samples.len() as u64;
                for code in answer.notes.keys() {
                    *counts.notes.entry(code).or_default() += 1;
                }
                for sample in answer.samples {
                    counts.tokens += sample.ids.len() as u64;
                    match plan.pack {
                        Some(_) => items.push(Ok(Slot { source: number, ids: sample.ids, weights: sample.weights })),
                        None => open.push(sample),
                    }
                }
            }
            Err(fault) => {
                counts.refused += 1;
                match plan.pack {
                    Some(_) => items.push(Err((number, fault))),
                    None => open.refuse(number, id.as_ref(), fault),
                }
            }
        }
        if open.is_full() {
            match std::mem::take(&mut open).into_batch(plan) {
                Ok(batch) => batches.push(batch),
                Err(error) => failed = Some(error),
            }
        }
    }
    if !open.is_empty() {
        match open.into_batch(plan) {
            Ok(batch) => batches.push(batch),
            Err(error) => failed = Some(error),
        }
    }
    RowBlock { rows: failed.map_or(Ok(batches), Err), items, counts }
}

/// The samples of a row, and what a trainer should know about them.
struct RowSamples {
    samples: Vec<Sample>,
    notes: BTreeMap<&'static str, ()>,
}

fn encode_row(value: Json, row: u64, model: &Model, plan: &ColumnPlan) -> Result<RowSamples, SampleError> {
    let (_, all) = plan.recipe.read(model, value)?;
    let mut answer = RowSamples { samples: Vec::with_capacity(all.len()), notes: BTreeMap::new() };
    for (side, ready) in all {
        let bytes = ready.prompt.text().len();
        if bytes > LONGEST {
            let message = format!("the prompt has {bytes} bytes, expected at most {LONGEST}");
            return Err(SampleError::at("too_long", message, None));
        }
        let notes = ready.notes();
        answer.notes.extend(notes.iter().map(|note| (note.code, ())));
        let (ids, weights) = match plan.pack {
            Some(length) => {
                let slot = ready.slot(row, side, plan.recipe.edges, length)?;
                (slot.ids, slot.weights)
            }
            None => {
                let ids = ready.encoded.as_ref().map(rolecall::Encoded::ids).unwrap_or_default();
                (ids, if plan.recipe.policy.is_some() { ready.weights(plan.recipe.edges) } else { Vec::new() })
            }
        };
        // A label either counts or does not. With a column of weights, the caller knows of it.
        if plan.layout == ColumnNames::Trl
            && !plan.weights
            && weights.iter().any(|weight| *weight != 0.0 && *weight != 1.0)
        {
            answer.notes.insert("partial_weights", ());
        }
        answer.samples.push(Sample {
            row,
            id: ready.prompt.request().id.clone(),
            side,
            ids,
            weights,
            truncated_from: ready.truncated.as_ref().map(|truncated| truncated.ids as u64),
            account: notes.into_iter().filter(|note| note.is_account).collect(),
        });
    }
    Ok(answer)
}

/// The results so far.
struct PendingColumns {
    plan: ColumnPlan,
    packer: Option<Packer<u64>>,
    waiting: Vec<Result<PackedSamples<u64>, (u64, SampleError)>>,
    waiting_ids: usize,
    batches: Vec<RecordBatch>,
    counts: Counts,
}

impl PendingColumns {
    fn new(plan: ColumnPlan) -> PendingColumns {
        let packer = plan.pack.map(Packer::new);
        PendingColumns {
            plan,
            packer,
            waiting: Vec::new(),
            waiting_ids: 0,
            batches: Vec::new(),
            counts: Counts::default(),
        }
    }

    fn add<E>(&mut self, block: RowBlock) -> Result<(), Error<E>> {
        self.batches.extend(block.rows.map_err(Error::Arrow)?);
        self.counts.rows += block.counts.rows;
        self.counts.refused += block.counts.refused;
        self.counts.samples += block.counts.samples;
        self.counts.tokens += block.counts.tokens;
        for (code, count) in block.counts.notes {
            *self.counts.notes.entry(code).or_default() += count;
        }
        let Some(packer) = &mut self.packer else { return Ok(()) };
        for item in block.items {
            match item {
                Err(refused) => self.waiting.push(Err(refused)),
                Ok(slot) => {
                    let row = slot.source;
                    match packer.push(slot) {
                        Ok(sequences) => {
                            self.waiting_ids += sequences.iter().map(|packed| packed.ids.len()).sum::<usize>();
                            self.waiting.extend(sequences.into_iter().map(Ok));
                        }
                        Err(error) => {
                            self.waiting.push(Err((row, SampleError::at("not_packed", error.to_string(), None))));
                        }
                    }
                }
            }
        }
        if self.waiting_ids >= packed::MOST_IDS { self.write_packed() } else { Ok(()) }
    }

    fn finish<E>(mut self) -> Result<SampleColumns, Error<E>> {
        if let Some(packer) = &mut self.packer {
            self.waiting.extend(packer.finish().into_iter().map(Ok));
            self.counts.sequences = packer.sequences();
            self.write_packed()?;
        }
        let schema = match self.plan.pack {
            Some(_) => packed_schema(&self.plan),
            None => samples::schema(&self.plan),
        };
        Ok(SampleColumns { schema, batches: self.batches, counts: self.counts })
    }

    fn write_packed<E>(&mut self) -> Result<(), Error<E>> {
        let rows = std::mem::take(&mut self.waiting);
        self.waiting_ids = 0;
        // A window of sequences can be longer than a batch.
        let (mut from, mut ids) = (0, 0);
        for (at, row) in rows.iter().enumerate() {
            let more = row.as_ref().map_or(0, |packed| packed.ids.len());
            if at > from && ids + more > packed::MOST_IDS {
                self.batches.push(packed_batch(&rows[from..at], &self.plan).map_err(Error::Arrow)?);
                (from, ids) = (at, 0);
            }
            ids += more;
        }
        if from < rows.len() {
            self.batches.push(packed_batch(&rows[from..], &self.plan).map_err(Error::Arrow)?);
        }
        Ok(())
    }
}

/// Returns the schema of packed rows.
fn packed_schema(plan: &ColumnPlan) -> SchemaRef {
    let mut fields = match plan.layout {
        ColumnNames::Rolecall => packed::fields(plan.weights),
        ColumnNames::Trl => {
            let mut fields = vec![Field::new("rows", list_of(DataType::UInt64), false)];
            fields.extend(samples::id_fields(plan));
            fields.push(Field::new("seq_lengths", list_of(DataType::Int64), true));
            fields
        }
    };
    fields.push(Field::new("error", DataType::Struct(error_fields()), true));
    Arc::new(Schema::new(fields))
}

fn packed_batch(
    rows: &[Result<PackedSamples<u64>, (u64, SampleError)>],
    plan: &ColumnPlan,
) -> Result<RecordBatch, ArrowError> {
    let packed: Vec<PackedRow<'_>> = rows.iter().map(|row| row.as_ref().map_err(|(number, _)| *number)).collect();
    let mut columns: Vec<ArrayRef> = match plan.layout {
        ColumnNames::Rolecall => packed::columns(&packed, plan.weights)?,
        ColumnNames::Trl => {
            let there = packed::there(&packed);
            let mut columns = vec![packed::sources(&packed)?];
            let (mut ids, mut weights, mut ends) = (Vec::new(), Vec::new(), vec![0]);
            for row in &packed {
                if let Ok(row) = row {
                    ids.extend_from_slice(&row.ids);
                    weights.extend_from_slice(&row.weights);
                }
                ends.push(ids.len() as i32);
            }
            columns.extend(samples::id_columns(plan, &ends, ids, weights, &there)?);
            let lengths = |packed: &PackedSamples<u64>| packed.lengths.iter().map(|length| *length as i64).collect();
            columns.push(packed::of_each::<Int64Array, _>(&packed, &there, lengths)?);
            columns
        }
    };
    columns.push(errors(rows.iter().map(|row| row.as_ref().err().map(|(_, fault)| fault)))?);
    RecordBatch::try_new(packed_schema(plan), columns)
}

impl<E: fmt::Display> fmt::Display for Error<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Stopped(why) => write!(f, "{why}"),
            Error::Arrow(error) => write!(f, "{error}"),
            Error::Library(error) => write!(f, "{error}"),
            Error::Threads(why) => f.write_str(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use arrow_array::cast::AsArray;
    use rolecall::conversation::json;
    use rolecall::training::{RowEncoding, RowRecipe};
    use rolecall_testkit::Toy;

    use super::*;

    #[test]
    fn a_panic_in_one_row_is_its_error_and_the_others_go_on() {
        let toy = Toy::of(rolecall::format::registry().get("chatml").expect("a format")).panicking();
        let model = Model::builder().model("chatml").loaded_tokenizer(Arc::new(toy)).open().expect("a model");
        let row = |content: &str| {
            json::parse(&format!(r#"{{"messages": [{{"role": "user", "content": "{content}"}}]}}"#))
                .map_err(|_| SampleError::default())
        };
        // More than a block, so that several threads share them.
        let count = BLOCK + 10;
        let threads = NonZeroUsize::MIN.saturating_add(1);
        let recipe =
            RowRecipe { encoding: Some(RowEncoding { reference: false, limit: None }), ..RowRecipe::default() };
        let plan = ColumnPlan { recipe, ..ColumnPlan::default() };
        for plan in [plan.clone(), ColumnPlan { pack: Some(64), ..plan }] {
            let rows = Rows::Values((0..count).map(|at| row(if at % 7 == 3 { "\\u0007" } else { "Hi" })).collect());
            let encoded = encode::<Infallible>(rows, &model, plan, threads, &mut |_| Ok(())).expect("the rows");
            let planted = (0..count).filter(|at| at % 7 == 3).count() as u64;
            assert_eq!((encoded.counts.rows, encoded.counts.refused), (count as u64, planted));
            assert_eq!(encoded.counts.samples, count as u64 - planted);
            let errors =
                encoded.batches.iter().map(|batch| batch.column_by_name("error").expect("a column").as_struct());
            let codes: Vec<String> = errors
                .flat_map(|errors| {
                    errors.column(0).as_string::<i32>().iter().flatten().map(str::to_owned).collect::<Vec<_>>()
                })
                .collect();
            assert_eq!(codes.len() as u64, planted);
            assert!(codes.iter().all(|code| code == "internal"), "{codes:?}");
        }
    }
}
