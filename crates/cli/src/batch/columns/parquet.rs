//! Parquet: each block is a small file of its own until all are joined.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::Path;
use std::sync::Arc;

use arrow_array::RecordBatch;
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::ColumnPath;

use super::super::RowContents;
use super::super::unwritten::Unwritten;
use super::schema;

/// A Parquet file of its own, with its length before it: [`join`] puts them together.
pub fn write(batch: &RecordBatch, wanted: RowContents, out: &mut Vec<u8>) -> Result<(), Unwritten> {
    let mut writer = ArrowWriter::try_new(Vec::new(), schema(wanted), Some(properties().build()))?;
    writer.write(batch)?;
    let file = writer.into_inner()?;
    out.extend_from_slice(&(file.len() as u64).to_le_bytes());
    out.extend_from_slice(&file);
    Ok(())
}

/// How columns are packed: what counts up as differences, what repeats by a dictionary.
fn properties() -> WriterPropertiesBuilder {
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

/// Joins the Parquet files that are concatenated in `parts` into one file, copying their row groups
/// unchanged.
pub fn join(parts: &Path, joined: &Path, wanted: RowContents) -> io::Result<()> {
    let mut parts = BufReader::new(File::open(parts)?);
    let Some(first) = next_part(&mut parts)? else { return write_empty(joined, wanted) };
    let metadata = read_metadata(&first)?;
    let file = metadata.file_metadata();
    // The metadata includes Arrow's own schema.
    let properties = properties().set_key_value_metadata(file.key_value_metadata().cloned()).build();
    let out = BufWriter::new(File::create(joined)?);
    let root = file.schema_descr().root_schema_ptr();
    let mut writer = SerializedFileWriter::new(out, root, Arc::new(properties)).map_err(failed)?;
    let mut part = Some((first, metadata));
    while let Some((bytes, metadata)) = part {
        for group in metadata.row_groups() {
            let mut out = writer.next_row_group().map_err(failed)?;
            for column in group.columns() {
                let close = ColumnCloseResult {
                    bytes_written: column.compressed_size() as u64,
                    rows_written: group.num_rows() as u64,
                    metadata: column.clone(),
                    bloom_filter: None,
                    column_index: None,
                    offset_index: None,
                };
                out.append_column(&bytes, close).map_err(failed)?;
            }
            out.close().map_err(failed)?;
        }
        part = match next_part(&mut parts)? {
            Some(bytes) => Some((bytes.clone(), read_metadata(&bytes)?)),
            None => None,
        };
    }
    let mut out = writer.into_inner().map_err(failed)?;
    out.flush()?;
    out.get_ref().sync_data()
}

fn write_empty(path: &Path, wanted: RowContents) -> io::Result<()> {
    let file = File::create(path)?;
    let writer = ArrowWriter::try_new(file, schema(wanted), Some(properties().build())).map_err(failed)?;
    writer.into_inner().map_err(failed)?.sync_data()
}

fn next_part(parts: &mut impl Read) -> io::Result<Option<Bytes>> {
    let mut length = [0; 8];
    let mut read = 0;
    while read < length.len() {
        match parts.read(&mut length[read..])? {
            0 if read == 0 => return Ok(None),
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => read += count,
        }
    }
    let length = u64::from_le_bytes(length);
    let mut bytes = Vec::new();
    parts.take(length).read_to_end(&mut bytes)?;
    match bytes.len() as u64 == length {
        true => Ok(Some(bytes.into())),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

fn read_metadata(bytes: &Bytes) -> io::Result<ParquetMetaData> {
    ParquetMetaDataReader::new().parse_and_finish(bytes).map_err(failed)
}

fn failed(error: ParquetError) -> io::Error {
    io::Error::other(error)
}

impl From<ParquetError> for Unwritten {
    fn from(error: ParquetError) -> Unwritten {
        Unwritten(error.to_string())
    }
}
