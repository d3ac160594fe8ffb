//! A cell of an Arrow column as a JSON value.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowDictionaryKeyType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BinaryArray, BinaryViewArray, BooleanArray, DictionaryArray, GenericListArray,
    GenericListViewArray, LargeBinaryArray, OffsetSizeTrait, PrimitiveArray, UnionArray,
};
use arrow_buffer::{ArrowNativeType, NullBuffer};
use arrow_schema::{DataType, Field};
use rolecall::conversation::json::{self, Number, Object};
use rolecall::conversation::{Json, Place, Problem};

use crate::SampleError;

/// The most levels that a value may nest, as in JSON text.
const MOST_LEVELS: usize = 200;

/// A column that is read in place. Texts are copied once, into the value that a request owns.
pub enum Column {
    Null,
    Bool(BooleanArray),
    /// Whole numbers, by a function that reads one.
    Whole(Box<dyn Fn(usize) -> Json + Send + Sync>, Option<NullBuffer>),
    /// Numbers with a fraction.
    Real(Box<dyn Fn(usize) -> f64 + Send + Sync>, Option<NullBuffer>),
    /// Texts as bytes: libraries pass columns of texts that they have not checked to be UTF-8, for
    /// example from a Parquet file.
    Text(BinaryArray),
    LargeText(LargeBinaryArray),
    TextView(BinaryViewArray),
    /// A list, by the range of its items.
    List(Box<dyn Fn(usize) -> (usize, usize) + Send + Sync>, Option<NullBuffer>, Box<Column>),
    Struct(Vec<(String, Column)>, Option<NullBuffer>),
    /// Keys and values, by the range of the entries.
    Map(Box<dyn Fn(usize) -> (usize, usize) + Send + Sync>, Option<NullBuffer>, Box<Column>, Box<Column>),
    /// Values that are elsewhere: the dictionary's, or those of a run.
    Indirect(Box<dyn Fn(usize) -> usize + Send + Sync>, Option<NullBuffer>, Box<Column>),
    Union(UnionArray, Vec<Option<Column>>),
    /// Texts that hold JSON.
    JsonText(Box<Column>),
    /// Values that JSON cannot hold.
    Other(&'static str, Option<NullBuffer>),
}

impl Column {
    /// Returns the reader of a column.
    pub fn new(field: &Field, array: &ArrayRef) -> Column {
        Column::at(field, array, 0)
    }

    fn at(field: &Field, array: &ArrayRef, level: usize) -> Column {
        let is_json = field.metadata().get("ARROW:extension:name").is_some_and(|name| name == "arrow.json");
        let column = Column::of(array, level);
        if is_json { Column::JsonText(Box::new(column)) } else { column }
    }

    fn of(array: &ArrayRef, level: usize) -> Column {
        let nulls = array.logical_nulls();
        if level > MOST_LEVELS {
            return Column::Other("a value that nests too deeply", nulls);
        }
        match array.data_type() {
            DataType::Null => Column::Null,
            DataType::Boolean => Column::Bool(array.as_boolean().clone()),
            DataType::Int8 => whole::<Int8Type>(array),
            DataType::Int16 => whole::<Int16Type>(array),
            DataType::Int32 => whole::<Int32Type>(array),
            DataType::Int64 => whole::<Int64Type>(array),
            DataType::UInt8 => whole::<UInt8Type>(array),
            DataType::UInt16 => whole::<UInt16Type>(array),
            DataType::UInt32 => whole::<UInt32Type>(array),
            DataType::UInt64 => whole::<UInt64Type>(array),
            DataType::Float16 => real::<Float16Type>(array, |value| value.to_f64()),
            DataType::Float32 => real::<Float32Type>(array, f64::from),
            DataType::Float64 => real::<Float64Type>(array, |value| value),
            DataType::Utf8 => Column::Text(array.as_string::<i32>().clone().into()),
            DataType::LargeUtf8 => Column::LargeText(array.as_string::<i64>().clone().into()),
            DataType::Utf8View => Column::TextView(array.as_string_view().clone().to_binary_view()),
            DataType::List(item) => list::<i32>(item, array, level),
            DataType::LargeList(item) => list::<i64>(item, array, level),
            DataType::ListView(item) => list_view::<i32>(item, array, level),
            DataType::LargeListView(item) => list_view::<i64>(item, array, level),
            DataType::FixedSizeList(item, size) => {
                let size = usize::try_from(*size).unwrap_or_default();
                let values = Column::at(item, array.as_fixed_size_list().values(), level + 1);
                Column::List(Box::new(move |at| (at * size, (at + 1) * size)), nulls, Box::new(values))
            }
            DataType::Struct(fields) => {
                let columns = fields.iter().zip(array.as_struct().columns());
                let each = columns.map(|(field, column)| (field.name().clone(), Column::at(field, column, level + 1)));
                Column::Struct(each.collect(), nulls)
            }
            DataType::Map(..) => {
                let map = array.as_map();
                let (fields, [keys, values]) = (map.entries().fields(), [map.keys(), map.values()]);
                let Some(([key, value], ())) = fields.first_chunk::<2>().map(|both| (both, ())) else {
                    return Column::Other("a map without values", nulls);
                };
                let keys = Column::at(key, keys, level + 1);
                let values = Column::at(value, values, level + 1);
                let offsets = map.offsets().clone();
                let range = move |at: usize| (offsets[at].as_usize(), offsets[at + 1].as_usize());
                Column::Map(Box::new(range), nulls, Box::new(keys), Box::new(values))
            }
            DataType::Dictionary(key, _) => Column::of_dictionary(key, array, level, nulls),
            DataType::RunEndEncoded(ends, values) => match ends.data_type() {
                DataType::Int16 => runs::<Int16Type>(values, array, level),
                DataType::Int32 => runs::<Int32Type>(values, array, level),
                DataType::Int64 => runs::<Int64Type>(values, array, level),
                _ => Column::Other("runs of values", nulls),
            },
            DataType::Union(fields, _) => {
                let union = array.as_union();
                let mut columns: Vec<Option<Column>> = Vec::new();
                for (id, field) in fields.iter() {
                    let Ok(place) = usize::try_from(id) else { continue };
                    columns.resize_with(columns.len().max(place + 1), || None);
                    columns[place] = Some(Column::at(field, union.child(id), level + 1));
                }
                Column::Union(union.clone(), columns)
            }
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
                Column::Other("binary data", nulls)
            }
            DataType::Timestamp(..) | DataType::Date32 | DataType::Date64 => Column::Other("a date", nulls),
            DataType::Time32(_) | DataType::Time64(_) | DataType::Duration(_) | DataType::Interval(_) => {
                Column::Other("a time", nulls)
            }
            _ => Column::Other("a decimal number", nulls),
        }
    }

    fn of_dictionary(key: &DataType, array: &ArrayRef, level: usize, nulls: Option<NullBuffer>) -> Column {
        match key {
            DataType::Int8 => dictionary::<Int8Type>(array, level),
            DataType::Int16 => dictionary::<Int16Type>(array, level),
            DataType::Int32 => dictionary::<Int32Type>(array, level),
            DataType::Int64 => dictionary::<Int64Type>(array, level),
            DataType::UInt8 => dictionary::<UInt8Type>(array, level),
            DataType::UInt16 => dictionary::<UInt16Type>(array, level),
            DataType::UInt32 => dictionary::<UInt32Type>(array, level),
            DataType::UInt64 => dictionary::<UInt64Type>(array, level),
            _ => Column::Other("a dictionary", nulls),
        }
    }

    /// Returns a column whose texts are parsed as JSON.
    pub fn parsed(self) -> Column {
        if self.is_text() { Column::JsonText(Box::new(self)) } else { self }
    }

    /// Reports whether the column holds texts.
    pub fn is_text(&self) -> bool {
        match self {
            Column::Text(_) | Column::LargeText(_) | Column::TextView(_) => true,
            Column::Indirect(_, _, values) => values.is_text(),
            _ => false,
        }
    }

    /// Reports whether JSON can hold the column's values.
    pub fn is_json(&self) -> bool {
        !matches!(self, Column::Other(..))
    }

    fn is_null(&self, at: usize) -> bool {
        let null = |nulls: &Option<NullBuffer>| nulls.as_ref().is_some_and(|nulls| nulls.is_null(at));
        match self {
            Column::Null => true,
            Column::Bool(array) => array.is_null(at),
            Column::Text(array) => array.is_null(at),
            Column::LargeText(array) => array.is_null(at),
            Column::TextView(array) => array.is_null(at),
            Column::Whole(_, nulls) | Column::Real(_, nulls) | Column::Other(_, nulls) => null(nulls),
            Column::List(_, nulls, _) | Column::Struct(_, nulls) | Column::Map(_, nulls, _, _) => null(nulls),
            Column::Indirect(place, nulls, values) => null(nulls) || values.is_null(place(at)),
            Column::Union(array, columns) => match usize::try_from(array.type_id(at)).ok() {
                Some(id) => match columns.get(id).and_then(Option::as_ref) {
                    Some(column) => column.is_null(array.value_offset(at)),
                    None => true,
                },
                None => true,
            },
            Column::JsonText(texts) => texts.is_null(at),
        }
    }

    /// Returns a value, or `None` for null. `path` says where it is, for errors.
    pub fn read(&self, at: usize, path: &RowPath<'_>) -> Result<Option<Json>, SampleError> {
        if self.is_null(at) {
            return Ok(None);
        }
        Ok(Some(match self {
            Column::Null => Json::Null,
            Column::Bool(array) => Json::Bool(array.value(at)),
            Column::Whole(value, _) => value(at),
            Column::Real(value, _) => number(value(at), path)?,
            Column::Text(array) => text(array.value(at), path)?,
            Column::LargeText(array) => text(array.value(at), path)?,
            Column::TextView(array) => text(array.value(at), path)?,
            Column::List(range, _, values) => {
                let (start, end) = range(at);
                let mut items = Vec::with_capacity(end - start);
                for item in start..end {
                    items.push(values.read(item, &path.item(item - start))?.unwrap_or(Json::Null));
                }
                Json::Array(items)
            }
            Column::Struct(fields, _) => {
                let mut object = Object::with_capacity(fields.len().min(4));
                for (name, column) in fields {
                    // A struct has every field, so null stands for a key that is not there. Only the
                    // content of a message that calls tools is usually written as null.
                    match column.read(at, &path.key(name))? {
                        Some(value) => object.insert(name.as_str(), value),
                        None if name == "content" && fields.iter().any(|(name, _)| name == "role") => {
                            object.insert("content", Json::Null);
                        }
                        None => {}
                    }
                }
                Json::Object(object)
            }
            Column::Map(range, _, keys, values) => {
                let mut object = Object::new();
                let (start, end) = range(at);
                for entry in start..end {
                    let Some(Json::String(key)) = keys.read(entry, path)? else {
                        return Err(path.wrong_type("a map whose keys are strings", "another key"));
                    };
                    let value = values.read(entry, &path.key(&key))?;
                    object.insert(key.as_str(), value.unwrap_or(Json::Null));
                }
                Json::Object(object)
            }
            Column::Indirect(place, _, values) => return values.read(place(at), path),
            Column::Union(array, columns) => {
                let id = usize::try_from(array.type_id(at)).ok();
                match id.and_then(|id| columns.get(id)?.as_ref()) {
                    Some(column) => return column.read(array.value_offset(at), path),
                    None => return Ok(None),
                }
            }
            Column::JsonText(texts) => match texts.read(at, path)? {
                Some(Json::String(text)) => return parse_cell(&text, path),
                other => return Ok(other),
            },
            Column::Other(found, _) => return Err(path.wrong_type("a value that JSON can hold", found)),
        }))
    }
}

fn text(bytes: &[u8], path: &RowPath<'_>) -> Result<Json, SampleError> {
    let text = std::str::from_utf8(bytes);
    text.map(Json::from).map_err(|_| path.wrong_type("a string", "bytes that are not UTF-8"))
}

/// Parses a text that holds JSON. A text of white space is null.
pub fn parse_cell(text: &str, path: &RowPath<'_>) -> Result<Option<Json>, SampleError> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    json::parse_unique(text).map(Some).map_err(|_| path.wrong_type("JSON text", "a string that is not JSON"))
}

fn whole<T: ArrowPrimitiveType>(array: &ArrayRef) -> Column
where
    T::Native: std::fmt::Display + TryInto<i64>,
{
    let array: PrimitiveArray<T> = array.as_primitive::<T>().clone();
    let nulls = array.nulls().cloned();
    let value = move |at: usize| {
        let value = array.value(at);
        match value.try_into() {
            Ok(small) => Json::from(small),
            // Only large unsigned numbers get here.
            Err(_) => Number::from_spelling(&value.to_string()).map_or(Json::Null, Json::Number),
        }
    };
    Column::Whole(Box::new(value), nulls)
}

fn real<T: ArrowPrimitiveType>(array: &ArrayRef, wide: fn(T::Native) -> f64) -> Column {
    let array: PrimitiveArray<T> = array.as_primitive::<T>().clone();
    let nulls = array.nulls().cloned();
    Column::Real(Box::new(move |at| wide(array.value(at))), nulls)
}

/// Returns a number as Python spells it: `1.0`, `1e-05`, `1e+16`.
fn number(value: f64, path: &RowPath<'_>) -> Result<Json, SampleError> {
    let mut spelling = format!("{value:?}");
    if let Some((digits, exponent)) = spelling.split_once('e') {
        let (sign, power) = exponent.strip_prefix('-').map_or(('+', exponent), |power| ('-', power));
        spelling = format!("{digits}e{sign}{power:0>2}");
    }
    match Number::from_spelling(&spelling) {
        Some(number) => Ok(Json::Number(number)),
        None => Err(path.wrong_type("a finite number", "infinity or no number")),
    }
}

fn list<O: OffsetSizeTrait>(item: &Field, array: &ArrayRef, level: usize) -> Column {
    let array: &GenericListArray<O> = array.as_list::<O>();
    let values = Column::at(item, array.values(), level + 1);
    let offsets = array.offsets().clone();
    let range = move |at: usize| (offsets[at].as_usize(), offsets[at + 1].as_usize());
    Column::List(Box::new(range), array.nulls().cloned(), Box::new(values))
}

fn list_view<O: OffsetSizeTrait>(item: &Field, array: &ArrayRef, level: usize) -> Column {
    let array: &GenericListViewArray<O> = array.as_list_view::<O>();
    let values = Column::at(item, array.values(), level + 1);
    let (offsets, sizes) = (array.offsets().clone(), array.sizes().clone());
    let range = move |at: usize| (offsets[at].as_usize(), offsets[at].as_usize() + sizes[at].as_usize());
    Column::List(Box::new(range), array.nulls().cloned(), Box::new(values))
}

fn dictionary<K: ArrowDictionaryKeyType>(array: &ArrayRef, level: usize) -> Column {
    let array: &DictionaryArray<K> = array.as_dictionary::<K>();
    let values = Column::of(array.values(), level + 1);
    let keys = array.keys().clone();
    let nulls = keys.nulls().cloned();
    Column::Indirect(Box::new(move |at| keys.value(at).as_usize()), nulls, Box::new(values))
}

fn runs<R: arrow_array::types::RunEndIndexType>(values: &Field, array: &ArrayRef, level: usize) -> Column {
    let array = array.as_run::<R>();
    let values = Column::at(values, array.values(), level + 1);
    let array = array.clone();
    Column::Indirect(Box::new(move |at| array.get_physical_index(at)), None, Box::new(values))
}

/// Where a value is in its row: the last step, and the way there.
#[derive(Clone, Copy)]
pub struct RowPath<'a> {
    before: Option<&'a RowPath<'a>>,
    step: PathStep<'a>,
}

/// A step to a value.
#[derive(Clone, Copy)]
enum PathStep<'a> {
    Key(&'a str),
    Item(usize),
}

impl<'a> RowPath<'a> {
    /// Returns the path of a column.
    pub fn of(column: &'a str) -> RowPath<'a> {
        RowPath { before: None, step: PathStep::Key(column) }
    }

    fn key(&'a self, key: &'a str) -> RowPath<'a> {
        RowPath { before: Some(self), step: PathStep::Key(key) }
    }

    fn item(&'a self, at: usize) -> RowPath<'a> {
        RowPath { before: Some(self), step: PathStep::Item(at) }
    }

    fn wrong_type(&self, expected: &'static str, found: &'static str) -> SampleError {
        let mut steps = vec![self.step];
        let mut before = self.before;
        while let Some(path) = before {
            steps.push(path.step);
            before = path.before;
        }
        steps.reverse();
        let (message, steps) = match steps[..] {
            [PathStep::Key("messages"), PathStep::Item(message), ..] => (Some(message), &steps[2..]),
            _ => (None, &steps[..]),
        };
        let mut field = String::new();
        for step in steps {
            match step {
                PathStep::Key(key) => field += &format!("{}{key}", if field.is_empty() { "" } else { "." }),
                PathStep::Item(at) => field += &format!("[{at}]"),
            }
        }
        let problem = Problem::WrongType { expected, found };
        let error = rolecall::conversation::Error { place: Place { message, field: field.into() }, problem };
        rolecall::request::Error::from(error).into()
    }
}
