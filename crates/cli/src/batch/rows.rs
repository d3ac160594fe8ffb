//! Converts the results of a block of lines to bytes that only need to be concatenated.

use arrow_ipc::writer::StreamWriter;
use arrow_schema::ArrowError;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;
use rolecall::conversation::Json;

use super::columns::{Columns, LONGEST, Row, schema};
use super::{Kind, Wanted};
use crate::refusal::Refusal;

/// The rows of a block.
pub enum Rows {
    /// JSON lines.
    Lines(String),
    Columns {
        kind: Kind,
        wanted: Wanted,
        open: Box<Columns>,
        written: Vec<u8>,
    },
}

/// An error of a column writer, which should not occur.
#[derive(Debug)]
pub struct Unwritten(pub String);

impl Rows {
    pub fn new(kind: Kind, wanted: Wanted) -> Rows {
        match kind {
            Kind::Jsonl => Rows::Lines(String::new()),
            Kind::Arrow | Kind::Parquet => {
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
    pub fn push(&mut self, row: &Row<'_>) -> Result<(), Refusal> {
        match self {
            Rows::Columns { open, .. } => open.push(row),
            Rows::Lines(_) => Ok(()),
        }
    }

    /// Adds the error of a refused line.
    pub fn refuse(&mut self, number: u64, id: Option<&Json>, refusal: &Refusal) {
        match self {
            Rows::Lines(text) => {
                let layout = rolecall::conversation::json::Layout::compact();
                text.push_str(&rolecall::conversation::json::write(&refusal.to_json(id), &layout));
            }
            Rows::Columns { open, .. } => open.refuse(number, id, refusal),
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
            Rows::Columns { .. } => Ok(()),
        }
    }

    /// Returns the bytes of all rows.
    pub fn into_bytes(mut self) -> Result<Vec<u8>, Unwritten> {
        self.write_out()?;
        Ok(match self {
            Rows::Lines(text) => text.into_bytes(),
            Rows::Columns { written, .. } => written,
        })
    }

    fn write_out(&mut self) -> Result<(), Unwritten> {
        let Rows::Columns { kind, wanted, open, written } = self else { return Ok(()) };
        if open.is_empty() {
            return Ok(());
        }
        let columns = std::mem::replace(&mut **open, Columns::new(*wanted));
        match kind {
            Kind::Parquet => write_parquet(columns, *wanted, written)?,
            Kind::Arrow | Kind::Jsonl => write_arrow(columns, *wanted, written)?,
        }
        Ok(())
    }
}

/// Returns the beginning of an Arrow stream, which is its schema.
pub fn arrow_head(wanted: Wanted) -> Result<Vec<u8>, Unwritten> {
    // `try_new` writes the schema immediately; only `finish` writes the end of the stream.
    Ok(StreamWriter::try_new(Vec::new(), &schema(wanted))?.get_ref().clone())
}

/// The end of an Arrow stream.
pub const ARROW_END: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

fn write_arrow(columns: Columns, wanted: Wanted, out: &mut Vec<u8>) -> Result<(), Unwritten> {
    let mut writer = StreamWriter::try_new(Vec::new(), &schema(wanted))?;
    let head = writer.get_ref().len();
    writer.write(&columns.into_batch()?)?;
    out.extend_from_slice(&writer.get_ref()[head..]);
    Ok(())
}

/// Writes a complete Parquet file, preceded by its length. `parquet::join` joins these files.
fn write_parquet(columns: Columns, wanted: Wanted, out: &mut Vec<u8>) -> Result<(), Unwritten> {
    let mut writer = ArrowWriter::try_new(Vec::new(), schema(wanted), Some(properties().build()))?;
    writer.write(&columns.into_batch()?)?;
    let file = writer.into_inner()?;
    out.extend_from_slice(&(file.len() as u64).to_le_bytes());
    out.extend_from_slice(&file);
    Ok(())
}

/// Returns the writer properties of the columns: delta encoding for increasing numbers,
/// dictionaries for repeated values.
pub fn properties() -> parquet::file::properties::WriterPropertiesBuilder {
    let counting =
        ["row", "spans.list.item.start", "spans.list.item.end", "origins.list.item.start", "origins.list.item.end"];
    let mut builder = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_statistics_enabled(EnabledStatistics::None)
        .set_column_statistics_enabled(ColumnPath::from("row"), EnabledStatistics::Chunk)
        .set_column_dictionary_enabled(ColumnPath::from("prompt"), false)
        .set_created_by(concat!("rolecall ", env!("CARGO_PKG_VERSION")).into());
    for path in counting {
        let path = ColumnPath::new(path.split('.').map(str::to_owned).collect());
        builder = builder
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
    }
    builder
}

impl From<ArrowError> for Unwritten {
    fn from(error: ArrowError) -> Unwritten {
        Unwritten(error.to_string())
    }
}

impl From<ParquetError> for Unwritten {
    fn from(error: ParquetError) -> Unwritten {
        Unwritten(error.to_string())
    }
}
