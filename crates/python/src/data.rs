//! Rows of training datasets: Arrow and Python values in, columns out. `rolecall/data.py` is what users
//! call.

use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::{Duration, Instant};

use arrow_array::cast::AsArray;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{Float32Type, Int32Type, Int64Type, UInt8Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrowPrimitiveType, RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow_pyarrow::FromPyArrow;
use arrow_schema::DataType;
use numpy::PyArray1;
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyFloat, PyList, PyString};
use rolecall::conversation::{Json, Place};
use rolecall::training::RowOptions;
use rolecall_columns::{
    ColumnNames, ColumnPlan, Counts, Error, NullMeaning, Rows, SampleColumns, SampleError, Table, encode, of_columns,
};

use crate::error;
use crate::input::{self, Path};
use crate::model::Model;
use crate::once::prepare;

/// How often the caller is told about the progress.
const OFTEN: Duration = Duration::from_millis(250);

/// The keyword arguments of `rolecall.data.encode`, which checks and documents them.
pub struct EncodeOptions {
    rows: RowOptions,
    loss_weights: bool,
    json_column: Option<String>,
    trl: bool,
    threads: Option<usize>,
}

impl EncodeOptions {
    fn of(given: &Bound<'_, PyDict>) -> PyResult<EncodeOptions> {
        let value = |name: &str| Ok::<_, PyErr>(given.get_item(name)?.filter(|value| !value.is_none()));
        let text = |name: &str| value(name)?.map(|value| input::argument(&value, name)).transpose();
        let count = |name: &str| value(name)?.map(|value| input::count(name, &value)).transpose();
        let flag = |name: &str| value(name)?.map_or(Ok(false), |value| input::flag(name, &value));
        let words = |name: &str| match value(name)? {
            Some(words) => words.try_iter()?.map(|word| input::argument(&word?, name)).collect(),
            None => Ok(Vec::new()),
        };
        let pack = count("pack")?.map(|pack| u32::try_from(pack).unwrap_or(u32::MAX));
        let rows = RowOptions {
            for_training: text("for_training")?,
            loss_weight: words("loss_weight")?,
            loss_role: words("loss_role")?,
            edges: text("edges")?,
            final_stop: text("final_stop")?,
            allow: words("allow")?,
            max_tokens: count("max_tokens")?,
            truncate: text("truncate")?,
            samples: text("samples")?,
            pack,
            shape: text("shape")?,
            strict: flag("strict")?,
            reference_encoding: flag("reference_encoding")?,
        };
        Ok(EncodeOptions {
            rows,
            loss_weights: flag("loss_weights")?,
            json_column: text("json_column")?,
            trl: flag("trl")?,
            threads: count("threads")?,
        })
    }

    fn plan(&self, py: Python<'_>) -> PyResult<ColumnPlan> {
        let recipe = self.rows.recipe().map_err(|wrong| refuse(py, wrong.option, wrong.problem))?;
        let layout = if self.trl { ColumnNames::Trl } else { ColumnNames::Rolecall };
        Ok(ColumnPlan { recipe, pack: self.rows.pack, weights: self.loss_weights, layout })
    }

    fn threads(&self, py: Python<'_>) -> PyResult<NonZeroUsize> {
        match self.threads.map(NonZeroUsize::new) {
            Some(Some(threads)) => Ok(threads),
            Some(None) => Err(refuse(py, "threads", "expected a number of threads from 1, found 0".into())),
            None => Ok(thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)),
        }
    }
}

/// Encodes rows: the native part of `rolecall.data.encode`, which fills in all options. `watch` is called
/// about four times a second with the counts so far.
///
/// >>> import rolecall.data
/// >>> row = {"prompt": "Hi", "completion": "Hello"}
/// >>> len(rolecall.data.encode([row], rolecall.load("path/to/model")))
/// 1
#[pyfunction]
pub fn encode_rows(
    batch: &Bound<'_, PyAny>,
    model: &Bound<'_, Model>,
    options: &Bound<'_, PyDict>,
    watch: Option<Py<PyAny>>,
) -> PyResult<Columns> {
    let py = batch.py();
    let options = EncodeOptions::of(options)?;
    let (plan, threads) = (options.plan(py)?, options.threads(py)?);
    let rows = rows_of(batch, options.json_column.as_deref())?;
    let model = model.get().inner().clone();
    let mut told = Instant::now();
    let mut watched = |counts: &Counts| -> PyResult<()> {
        Python::attach(|py| {
            py.check_signals()?;
            if let Some(watch) = watch.as_ref().filter(|_| told.elapsed() >= OFTEN) {
                told = Instant::now();
                watch.call1(py, (counts_of(py, counts)?,))?;
            }
            Ok(())
        })
    };
    let encoded = py.detach(|| encode(rows, &model, plan, threads, &mut watched));
    let encoded = encoded.map_err(|failure| match failure {
        Error::Stopped(error) => error,
        Error::Library(failure) => error::of(py, &failure),
        Error::Arrow(failure) => PyRuntimeError::new_err(failure.to_string()),
        Error::Threads(why) => PyRuntimeError::new_err(why),
    })?;
    if let Some(watch) = watch {
        watch.call1(py, (counts_of(py, &encoded.counts)?,))?;
    }
    Ok(Columns { inner: encoded })
}

/// Columns of samples, in Arrow's memory.
///
/// `rolecall.data.encode` returns it for rows that are no object of a library. `len` is the number of rows.
///
/// >>> import rolecall.data
/// >>> model = rolecall.load("path/to/model")
/// >>> row = {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]}
/// >>> columns = rolecall.data.encode([row], model)
/// >>> columns.column_names[3:6], columns.counts["tokens"]
/// (['ids', 'loss_mask', 'length'], 12)
/// >>> columns.to_dict()["loss_mask"][0].tolist()
/// [0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0]
#[pyclass(frozen, module = "rolecall")]
pub struct Columns {
    inner: SampleColumns,
}

#[pymethods]
impl Columns {
    /// The names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.inner.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// What was done: `rows`, `refused`, `samples`, `tokens`, `sequences`, and `notes` with the number of
    /// rows that have each note.
    #[getter]
    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        counts_of(py, &self.inner.counts)
    }

    /// Returns the columns as Python values: lists of numbers are numpy arrays, errors are dicts, and
    /// what is missing is None.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (at, field) in self.inner.schema.fields().iter().enumerate() {
            let values = PyList::empty(py);
            for batch in &self.inner.batches {
                add_values(&values, batch.column(at).as_ref())?;
            }
            dict.set_item(field.name(), values)?;
        }
        Ok(dict)
    }

    /// The columns for any library that reads Arrow's PyCapsule interface.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // Another schema is only a wish, which the interface allows to be ignored.
        let _ = requested_schema;
        let batches: Vec<_> = self.inner.batches.iter().cloned().map(Ok).collect();
        let reader: Box<dyn RecordBatchReader + Send> =
            Box::new(RecordBatchIterator::new(batches, self.inner.schema.clone()));
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(reader), c"arrow_array_stream")
    }

    fn __len__(&self) -> usize {
        self.inner.batches.iter().map(RecordBatch::num_rows).sum()
    }

    fn __repr__(&self) -> String {
        format!("Columns({} rows: {})", self.__len__(), self.column_names().join(", "))
    }
}

fn counts_of<'py>(py: Python<'py>, counts: &Counts) -> PyResult<Bound<'py, PyDict>> {
    let Counts { rows, refused, samples, tokens, sequences, notes } = counts;
    let dict = PyDict::new(py);
    let numbers =
        [("rows", rows), ("refused", refused), ("samples", samples), ("tokens", tokens), ("sequences", sequences)];
    for (name, count) in numbers {
        dict.set_item(name, count)?;
    }
    dict.set_item("notes", notes)?;
    Ok(dict)
}

/// Adds the values of a column to a list.
fn add_values(list: &Bound<'_, PyList>, array: &dyn Array) -> PyResult<()> {
    let py = list.py();
    for at in 0..array.len() {
        if array.is_null(at) {
            list.append(py.None())?;
            continue;
        }
        match array.data_type() {
            DataType::Utf8 => list.append(array.as_string::<i32>().value(at))?,
            DataType::UInt64 => list.append(array.as_primitive::<UInt64Type>().value(at))?,
            DataType::UInt32 => list.append(array.as_primitive::<UInt32Type>().value(at))?,
            DataType::List(item) if matches!(item.data_type(), DataType::Struct(_)) => {
                let values = PyList::empty(py);
                add_values(&values, array.as_list::<i32>().value(at).as_ref())?;
                list.append(values)?;
            }
            DataType::List(_) => list.append(numbers(py, array.as_list::<i32>().value(at).as_ref())?)?,
            DataType::Struct(fields) => {
                let dict = PyDict::new(py);
                for (field, column) in fields.iter().zip(array.as_struct().columns()) {
                    let value = PyList::empty(py);
                    add_values(&value, column.slice(at, 1).as_ref())?;
                    dict.set_item(field.name(), value.get_item(0)?)?;
                }
                list.append(dict)?;
            }
            // There are no columns of other types.
            _ => list.append(py.None())?,
        }
    }
    Ok(())
}

fn numbers<'py>(py: Python<'py>, array: &dyn Array) -> PyResult<Bound<'py, PyAny>> {
    fn of<'py, T>(py: Python<'py>, array: &dyn Array) -> PyResult<Bound<'py, PyAny>>
    where
        T: ArrowPrimitiveType,
        T::Native: numpy::Element,
    {
        prepare(py)?;
        Ok(PyArray1::from_slice(py, array.as_primitive::<T>().values()).into_any())
    }
    Ok(match array.data_type() {
        DataType::UInt8 => of::<UInt8Type>(py, array)?,
        DataType::UInt32 => of::<UInt32Type>(py, array)?,
        DataType::UInt64 => of::<UInt64Type>(py, array)?,
        DataType::Int32 => of::<Int32Type>(py, array)?,
        DataType::Int64 => of::<Int64Type>(py, array)?,
        DataType::Float32 => of::<Float32Type>(py, array)?,
        _ => py.None().into_bound(py),
    })
}

/// Returns the rows of a batch: Arrow's, a mapping of columns, or an iterable of rows.
fn rows_of(batch: &Bound<'_, PyAny>, json: Option<&str>) -> PyResult<Rows> {
    let py = batch.py();
    if batch.hasattr("__arrow_c_stream__")? || batch.hasattr("__arrow_c_array__")? {
        return Ok(Rows::Table(Table::new(&batches_of(batch)?, json)));
    }
    if batch.hasattr("keys")? && batch.hasattr("__getitem__")? {
        return rows_of_columns(batch, json);
    }
    let is_rows = !batch.is_instance_of::<PyString>();
    let Some(rows) = batch.try_iter().ok().filter(|_| is_rows) else {
        let found = batch.get_type().name()?;
        let expected = "expected an Arrow table or record batch, a dict of columns, or a list of rows";
        return Err(refuse(py, "batch", format!("{expected}, found {found}")));
    };
    let mut values = Vec::new();
    for row in rows {
        py.check_signals()?;
        let row = input::json(&row?, &mut Path::of("row")).map_err(|error| fault_of(py, &error));
        values.push(row.and_then(|row| whole_row(row, json)));
    }
    Ok(Rows::Values(values))
}

/// Returns the row that a value of it holds as JSON text, if it has this key, and otherwise the row itself.
fn whole_row(row: Json, json: Option<&str>) -> Result<Json, SampleError> {
    let own = json.and_then(|name| Some((name, row.as_object()?.get(name)?.clone())));
    match own.filter(|(_, own)| !own.is_null()) {
        Some((name, own)) => of_columns([(name, Ok(own), NullMeaning::Meant)].into_iter(), json).map(|(row, _)| row),
        None => Ok(row),
    }
}

/// Returns the rows of a mapping from names to columns, as `datasets.map(batched=True)` passes it.
fn rows_of_columns(batch: &Bound<'_, PyAny>, json: Option<&str>) -> PyResult<Rows> {
    let py = batch.py();
    let name = |key: PyResult<Bound<'_, PyAny>>| key?.extract().map_err(|error: PyErr| of_type(py, error, "batch"));
    let names: Vec<String> = batch.call_method0("keys")?.try_iter()?.map(name).collect::<PyResult<_>>()?;
    let mut columns = Vec::new();
    for name in names {
        let column = batch.get_item(&name)?;
        let column = column.try_iter().map_err(|error| of_type(py, error, &name))?;
        let column: Vec<Bound<'_, PyAny>> = column.collect::<PyResult<_>>()?;
        columns.push((name, column));
    }
    let count = columns.first().map_or(0, |(_, column)| column.len());
    if let Some((name, column)) = columns.iter().find(|(_, column)| column.len() != count) {
        let problem = format!("expected {count} values in every column, found {} in `{name}`", column.len());
        return Err(refuse(py, "batch", problem));
    }
    let mut converted = Vec::with_capacity(columns.len());
    for (name, column) in columns {
        let mut values = Vec::with_capacity(count);
        for value in &column {
            py.check_signals()?;
            values.push(match is_missing(value) {
                true => Ok(Json::Null),
                false => input::json(value, &mut Path::of(&name)).map_err(|error| fault_of(py, &error)),
            });
        }
        let nulls = NullMeaning::of(values.iter().flatten());
        converted.push((name, nulls, values.into_iter()));
    }
    let mut rows = Vec::with_capacity(count);
    for _ in 0..count {
        // Every column has as many values as the first.
        let entries = converted
            .iter_mut()
            .filter_map(|(name, nulls, values)| values.next().map(|value| (name.as_str(), value, *nulls)));
        // All of them are taken, although a row may need only one.
        let entries: Vec<_> = entries.collect();
        rows.push(of_columns(entries.into_iter(), json));
    }
    Ok(Rows::Columns(rows))
}

/// Reports whether a value is NaN, which pandas and numpy have in place of null.
fn is_missing(value: &Bound<'_, PyAny>) -> bool {
    value.cast::<PyFloat>().is_ok_and(|number| number.value().is_nan())
}

fn batches_of(batch: &Bound<'_, PyAny>) -> PyResult<Vec<RecordBatch>> {
    let py = batch.py();
    // Arrow's bindings raise pyarrow's own exception, and panic without that package.
    let read = catch_unwind(AssertUnwindSafe(|| -> PyResult<Vec<RecordBatch>> {
        if !batch.hasattr("__arrow_c_stream__")? {
            return Ok(vec![RecordBatch::from_pyarrow_bound(batch)?]);
        }
        let reader = arrow_array::ffi_stream::RecordBatchStreamReader::from_pyarrow_bound(batch)?;
        let each = reader.map(|batch| batch.map_err(|error| refuse(py, "batch", error.to_string())));
        each.collect()
    }));
    let read = read.unwrap_or_else(|_| Err(refuse(py, "batch", "expected an Arrow table or record batch".into())));
    read.map_err(|error| of_type(py, error, "batch"))
}

/// Returns the error of a batch that is not of the right type or has values that Arrow refuses.
fn of_type(py: Python<'_>, error: PyErr, field: &str) -> PyErr {
    let is_typed = error.value(py).hasattr("message_index").unwrap_or_default();
    match error.is_instance_of::<PyTypeError>(py) || error.is_instance_of::<PyValueError>(py) && !is_typed {
        true => refuse(py, field, error.value(py).to_string()),
        false => error,
    }
}

/// Returns the error of a row that cannot be converted.
fn fault_of(py: Python<'_>, error: &PyErr) -> SampleError {
    let value = error.value(py);
    let text = |name: &str| value.getattr(name).ok()?.extract::<Option<String>>().ok()?;
    let args = value.getattr("args").ok();
    let message = args.and_then(|args| args.get_item(0).ok()?.extract::<String>().ok());
    SampleError {
        code: text("code").unwrap_or_else(|| "wrong_type".into()),
        message: message.unwrap_or_else(|| error.to_string()),
        message_index: value.getattr("message_index").ok().and_then(|index| index.extract().ok()),
        field: text("field"),
    }
}

fn refuse(py: Python<'_>, field: &str, message: String) -> PyErr {
    let place = Some(Place::field(field.to_owned()));
    error::Fault { class: "RequestError", code: "bad_argument", message, place, help: None }.raise(py)
}
