//! Rows of an Arrow table as JSON values.

use arrow_array::RecordBatch;
use rolecall::conversation::Json;
use rolecall::conversation::json::{self, Object};

use crate::SampleError;
use crate::padding::NullMeaning;
use crate::value::{Column, RowPath, parse_cell};

/// The columns whose texts are JSON: their values are never texts themselves.
const JSON_COLUMNS: [&str; 8] =
    ["messages", "conversations", "tools", "functions", "documents", "instances", "chat_template_kwargs", "history"];
/// Other columns that a shape reads. Any other column is ignored if JSON cannot hold its values.
const READ: [&str; 12] = [
    "prompt",
    "completion",
    "chosen",
    "rejected",
    "instruction",
    "input",
    "output",
    "system",
    "preferred_output",
    "non_preferred_output",
    "type",
    "conversation",
];

/// Rows in Arrow's memory, which are read in place.
pub struct Table {
    batches: Vec<Batch>,
    /// The number of rows before each batch, and of all.
    starts: Vec<usize>,
}

struct Batch {
    columns: Vec<(String, Column)>,
    /// The place of the column whose texts are whole rows.
    whole: Option<usize>,
}

impl Table {
    /// Returns the rows of record batches. If `json` names a column, its texts are the rows.
    pub fn new(batches: &[RecordBatch], json: Option<&str>) -> Table {
        let mut starts = vec![0];
        let batches = batches.iter().map(|batch| {
            starts.push(starts.last().copied().unwrap_or_default() + batch.num_rows());
            Batch::new(batch, json)
        });
        Table { batches: batches.collect(), starts }
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.starts.last().copied().unwrap_or_default()
    }

    /// Reports whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a row as an object. Columns that are null are left out.
    pub fn row(&self, row: usize) -> Result<Json, SampleError> {
        let batch = self.starts.partition_point(|start| *start <= row).saturating_sub(1);
        self.batches[batch].row(row - self.starts[batch])
    }
}

impl Batch {
    fn new(batch: &RecordBatch, json: Option<&str>) -> Batch {
        let schema = batch.schema();
        let mut columns = Vec::new();
        let mut whole = None;
        for (field, array) in schema.fields().iter().zip(batch.columns()) {
            let column = Column::new(field, array);
            let column = match JSON_COLUMNS.contains(&field.name().as_str()) {
                true => column.parsed(),
                false => column,
            };
            if json == Some(field.name()) {
                whole = Some(columns.len());
            } else if !column.is_json() && !is_read(field.name()) {
                continue;
            }
            columns.push((field.name().clone(), column));
        }
        Batch { columns, whole }
    }

    fn row(&self, row: usize) -> Result<Json, SampleError> {
        if let Some((name, column)) = self.whole.and_then(|whole| self.columns.get(whole)) {
            return match column.read(row, &RowPath::of(name))? {
                Some(Json::String(text)) => parse_row(&text),
                other => Ok(other.unwrap_or(Json::Null)),
            };
        }
        let mut object = Object::with_capacity(self.columns.len());
        for (name, column) in &self.columns {
            match column.read(row, &RowPath::of(name)) {
                Ok(Some(value)) => object.insert(name.as_str(), value),
                Ok(None) => {}
                // No shape reads this column, so that it does not matter what it holds.
                Err(_) if !is_read(name) => {}
                Err(fault) => return Err(fault),
            }
        }
        Ok(Json::Object(object))
    }
}

/// Returns the row of values that stand in columns, as [`Table::row`] does: what is missing has no key,
/// and the texts of some columns are JSON. Also returns whether a null was removed that may have been
/// meant.
pub fn of_columns<'a>(
    entries: impl Iterator<Item = (&'a str, Result<Json, SampleError>, NullMeaning)>,
    json: Option<&str>,
) -> Result<(Json, bool), SampleError> {
    let (mut object, mut is_unclear) = (Object::new(), false);
    for (name, value, nulls) in entries {
        let is_whole = json == Some(name);
        let value = match value {
            Ok(value) => value,
            // No shape reads this column, so that it does not matter what it holds.
            Err(_) if !is_whole && !is_read(name) => continue,
            Err(fault) => return Err(fault),
        };
        match value {
            Json::Null => {}
            Json::String(text) if is_whole => return Ok((parse_row(&text)?, false)),
            other if is_whole => return Ok((other, false)),
            Json::String(text) if JSON_COLUMNS.contains(&name) => {
                if let Some(value) = parse_cell(&text, &RowPath::of(name))? {
                    object.insert(name, value);
                }
            }
            other => {
                let (value, was_meant) = nulls.remove(name, other);
                object.insert(name, value);
                is_unclear |= was_meant;
            }
        }
    }
    Ok((Json::Object(object), is_unclear))
}

/// Reports whether a shape may read a column.
fn is_read(name: &str) -> bool {
    JSON_COLUMNS.contains(&name) || READ.contains(&name)
}

fn parse_row(text: &str) -> Result<Json, SampleError> {
    json::parse_unique(text).map_err(|error| rolecall::request::Error::from(error).into())
}
