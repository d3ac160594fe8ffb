//! Errors of rows as a column.

use arrow_array::builder::StringBuilder;
use arrow_array::{ArrayRef, StructArray, UInt32Array};
use arrow_buffer::NullBuffer;
use arrow_schema::{ArrowError, DataType, Field, Fields};
use rolecall::Error;
use rolecall::conversation::Place;
use rolecall::request;
use rolecall::training::RowError;

use crate::samples::under;

/// Why a row has no sample.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SampleError {
    /// A stable name for the kind of error.
    pub code: String,
    /// What was expected and what was found.
    pub message: String,
    /// The index of the message, if the error is in one.
    pub message_index: Option<u32>,
    /// The field of the message or of the row.
    pub field: Option<String>,
}

impl SampleError {
    /// Returns the error at a place.
    pub fn at(code: &str, message: String, place: Option<Place>) -> SampleError {
        let place = place.unwrap_or_default();
        SampleError {
            code: code.to_owned(),
            message,
            message_index: place.message.and_then(|message| u32::try_from(message).ok()),
            field: Some(place.field.into_owned()).filter(|field| !field.is_empty()),
        }
    }
}

impl From<RowError> for SampleError {
    fn from(error: RowError) -> SampleError {
        SampleError::at(error.code(), error.to_string(), error.place())
    }
}

impl From<request::Error> for SampleError {
    fn from(error: request::Error) -> SampleError {
        RowError::from(Error::from(error)).into()
    }
}

/// Returns the fields of the column. None is declared as never null, because some writers check this for
/// rows without an error too.
pub fn error_fields() -> Fields {
    Fields::from(vec![
        Field::new("code", DataType::Utf8, true),
        Field::new("message", DataType::Utf8, true),
        Field::new("message_index", DataType::UInt32, true),
        Field::new("field", DataType::Utf8, true),
    ])
}

/// Returns the column: null for each row without an error.
pub fn errors<'a>(faults: impl Iterator<Item = Option<&'a SampleError>>) -> Result<ArrayRef, ArrowError> {
    let (mut codes, mut messages, mut fields) = (StringBuilder::new(), StringBuilder::new(), StringBuilder::new());
    let (mut indices, mut there) = (Vec::new(), Vec::new());
    for fault in faults {
        codes.append_option(fault.map(|fault| &fault.code));
        messages.append_option(fault.map(|fault| &fault.message));
        indices.push(fault.and_then(|fault| fault.message_index));
        fields.append_option(fault.and_then(|fault| fault.field.as_ref()));
        there.push(fault.is_some());
    }
    let failed = NullBuffer::from(there);
    let columns: Vec<ArrayRef> = vec![
        under(codes, &failed)?,
        under(messages, &failed)?,
        std::sync::Arc::new(UInt32Array::from(indices)),
        std::sync::Arc::new(fields.finish()),
    ];
    Ok(std::sync::Arc::new(StructArray::try_new(error_fields(), columns, Some(failed))?))
}
