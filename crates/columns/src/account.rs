//! The account of rows as a column.

use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::{ArrayRef, StructArray, UInt32Array};
use arrow_buffer::NullBuffer;
use arrow_schema::{ArrowError, DataType, Field, Fields};
use rolecall::training::RowNote;

use crate::samples::list;

/// A column under construction: for each row, what became of the parts of its conversation that the prompt
/// does not have as they were given.
pub struct Accounts {
    ends: Vec<i32>,
    kinds: StringBuilder,
    hows: StringBuilder,
    counts: Vec<u32>,
    indices: Vec<Option<u32>>,
    fields: StringBuilder,
    whys: StringBuilder,
    remedies: StringBuilder,
}

impl Default for Accounts {
    fn default() -> Accounts {
        Accounts {
            ends: vec![0],
            kinds: StringBuilder::new(),
            hows: StringBuilder::new(),
            counts: Vec::new(),
            indices: Vec::new(),
            fields: StringBuilder::new(),
            whys: StringBuilder::new(),
            remedies: StringBuilder::new(),
        }
    }
}

impl Accounts {
    /// Returns the field of the column.
    pub fn field() -> Field {
        Field::new("account", DataType::List(Arc::new(item())), true)
    }

    /// Adds a row. Of its notes, those of the account are written.
    pub fn push(&mut self, notes: &[RowNote]) {
        for note in notes.iter().filter(|note| note.is_account) {
            self.kinds.append_value(note.code);
            self.hows.append_option(note.how);
            self.counts.push(u32::try_from(note.count).unwrap_or(u32::MAX));
            self.indices.push(note.place.as_ref().and_then(|place| u32::try_from(place.message?).ok()));
            self.fields.append_option(note.place.as_ref().map(|place| &*place.field));
            self.whys.append_value(&note.message);
            self.remedies.append_option(note.remedy.map(|remedy| remedy.name()));
        }
        self.ends.push(self.counts.len() as i32);
    }

    /// Returns the column. `there` tells which rows have a sample.
    pub fn finish(mut self, there: NullBuffer) -> Result<ArrayRef, ArrowError> {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(self.kinds.finish()),
            Arc::new(self.hows.finish()),
            Arc::new(UInt32Array::from(self.counts)),
            Arc::new(UInt32Array::from(self.indices)),
            Arc::new(self.fields.finish()),
            Arc::new(self.whys.finish()),
            Arc::new(self.remedies.finish()),
        ];
        let items = StructArray::try_new(fields(), columns, None)?;
        list(&self.ends, item(), Arc::new(items), Some(there))
    }
}

fn item() -> Field {
    Field::new("item", DataType::Struct(fields()), false)
}

fn fields() -> Fields {
    Fields::from(vec![
        Field::new("kind", DataType::Utf8, false),
        Field::new("how", DataType::Utf8, true),
        Field::new("count", DataType::UInt32, false),
        Field::new("message", DataType::UInt32, true),
        Field::new("field", DataType::Utf8, true),
        Field::new("why", DataType::Utf8, false),
        Field::new("remedy", DataType::Utf8, true),
    ])
}
