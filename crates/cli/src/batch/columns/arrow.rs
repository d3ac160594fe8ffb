//! Arrow's stream format.

use arrow_array::RecordBatch;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::ArrowError;

use super::super::RowContents;
use super::super::unwritten::Unwritten;
use super::schema;

/// What an Arrow stream begins with: its schema.
pub fn head(wanted: RowContents) -> Result<Vec<u8>, Unwritten> {
    // The schema is written at once; the end of the stream only by `finish`.
    Ok(StreamWriter::try_new(Vec::new(), &schema(wanted))?.get_ref().clone())
}

/// What an Arrow stream ends with.
pub const END: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

pub fn write(batch: &RecordBatch, wanted: RowContents, out: &mut Vec<u8>) -> Result<(), Unwritten> {
    let mut writer = StreamWriter::try_new(Vec::new(), &schema(wanted))?;
    let head = writer.get_ref().len();
    writer.write(batch)?;
    out.extend_from_slice(&writer.get_ref()[head..]);
    Ok(())
}

impl From<ArrowError> for Unwritten {
    fn from(error: ArrowError) -> Unwritten {
        Unwritten(error.to_string())
    }
}
