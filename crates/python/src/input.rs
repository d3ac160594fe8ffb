//! Conversion of Python objects to JSON values.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use numpy::{PyArray1, PyArrayMethods};
use pyo3::exceptions::PyUnicodeEncodeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyInt, PyList, PyMapping, PyString, PyTuple};
use rolecall::conversation::json::{self, Layout, Number, Object};
use rolecall::conversation::{Json, Place};

use crate::error::Fault;
use crate::once;

/// The most levels that a value may nest, as in JSON text.
const MOST_LEVELS: usize = 200;

/// Converts a value: None, bool, int, float, str, lists, tuples, mappings, dataclasses, and objects with
/// `model_dump`, such as those of pydantic.
///
/// `path` says where the value is.
pub fn json(value: &Bound<'_, PyAny>, path: &mut Path) -> PyResult<Json> {
    if path.0.len() > MOST_LEVELS {
        return Err(path.refuse(value.py(), format!("the value nests deeper than {MOST_LEVELS} levels")));
    }
    if let Ok(text) = value.cast::<PyString>() {
        return text_of(text, path).map(Json::String);
    }
    if value.is_none() {
        return Ok(Json::Null);
    }
    if let Ok(flag) = value.cast::<PyBool>() {
        return Ok(Json::Bool(flag.is_true()));
    }
    if let Ok(dict) = value.cast::<PyDict>() {
        // A value's own code may change the dict, so its entries are taken first.
        let pairs: Vec<_> = dict.iter().collect();
        return entries(pairs.into_iter(), path);
    }
    if let Ok(list) = value.cast::<PyList>() {
        return items(list.iter(), path);
    }
    if let Ok(tuple) = value.cast::<PyTuple>() {
        return items(tuple.iter(), path);
    }
    if value.cast::<PyInt>().is_ok() || value.cast::<PyFloat>().is_ok() {
        return number(value, path);
    }
    if let Ok(mapping) = value.cast::<PyMapping>() {
        let pairs: PyResult<Vec<_>> = mapping.items()?.iter().map(|pair| pair.extract()).collect();
        let Ok(pairs) = pairs else {
            return Err(path.refuse(value.py(), "expected pairs of a key and a value from `items`".to_owned()));
        };
        return entries(pairs.into_iter(), path);
    }
    let is_class = value.is_instance_of::<pyo3::types::PyType>();
    if !is_class && value.hasattr("model_dump")? {
        let options = PyDict::new(value.py());
        options.set_item("exclude_none", true)?;
        return inside(path, String::new(), |path| json(&value.call_method("model_dump", (), Some(&options))?, path));
    }
    if !is_class
        && value.hasattr("__dataclass_fields__")?
        && let Ok(fields) = value.getattr("__dataclass_fields__")?.cast_into::<PyDict>()
    {
        let mut object = Object::new();
        for name in fields.keys() {
            let name: String = name.extract()?;
            let field = value.getattr(name.as_str())?;
            // A field without a value is like a key that is not there.
            if !field.is_none() {
                let field = inside(path, name.clone(), |path| json(&field, path))?;
                object.insert(name, field);
            }
        }
        return Ok(Json::Object(object));
    }
    // Arrays and numbers of numpy, torch and others.
    if !is_class && value.hasattr("tolist")? {
        return inside(path, String::new(), |path| json(&value.call_method0("tolist")?, path));
    }
    let found = value.get_type().name()?;
    Err(path.refuse(value.py(), format!("expected a dict, list, str, number, bool or None, found {found}")))
}

/// Returns the JSON text of a dict, which the importers of templates read.
pub fn dict(value: &Bound<'_, PyAny>, argument: &str) -> PyResult<String> {
    Ok(json::write(&json(value, &mut Path::of(argument))?, &Layout::default()))
}

/// Converts token ids: a list, an array, or anything that gives ints.
pub fn ids(value: &Bound<'_, PyAny>, path: &mut Path) -> PyResult<Vec<u32>> {
    let py = value.py();
    // Most ids are in a list of ints.
    let plain = |id: Bound<'_, PyAny>| id.cast_exact::<PyInt>().ok()?.extract::<u32>().ok();
    if let Ok(list) = value.cast_exact::<PyList>() {
        let mut ids = Vec::with_capacity(list.len());
        ids.extend(list.iter().map_while(plain));
        if ids.len() == list.len() {
            return Ok(ids);
        }
    }
    // What `encode` returned, or a part of it.
    if value.hasattr("dtype")? {
        once::prepare(py)?;
        if let Ok(array) = value.cast::<PyArray1<u32>>()
            && let Ok(array) = array.try_readonly()
        {
            return Ok(array.as_array().to_vec());
        }
    }
    // Bytes give ints too, but they are text that was not decoded.
    let is_bytes = value.is_instance_of::<PyBytes>() || value.is_instance_of::<PyByteArray>();
    let Some(ids) = value.try_iter().ok().filter(|_| !is_bytes) else {
        let found = value.get_type().name()?;
        return Err(path.refuse(py, format!("expected a str or token ids, found {found}")));
    };
    let id = |(at, id): (usize, PyResult<Bound<'_, PyAny>>)| {
        let id = id?;
        let refuse = |path: &mut Path| Err(path.refuse(py, "expected a token id: an int from 0".to_owned()));
        inside(path, format!("[{at}]"), |path| id.extract::<u32>().or_else(|_| refuse(path)))
    };
    ids.enumerate().map(id).collect()
}

/// Converts a text.
pub fn text(value: &Bound<'_, PyAny>, path: &mut Path) -> PyResult<String> {
    match value.cast::<PyString>() {
        Ok(text) => text_of(text, path),
        Err(_) => {
            let found = value.get_type().name()?;
            Err(path.refuse(value.py(), format!("expected a str, found {found}")))
        }
    }
}

/// Reads a path: a str or an `os.PathLike`.
pub fn path(argument: &str, value: &Bound<'_, PyAny>) -> PyResult<PathBuf> {
    let py = value.py();
    if !is_path(value)? {
        let found = value.get_type().name()?;
        return Err(refuse(py, argument, format!("expected a path, found {found}")));
    }
    path_of(value, |fault| refuse(py, argument, fault))
}

/// Reports whether a value is a str or an `os.PathLike`.
pub fn is_path(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(value.is_instance_of::<PyString>() || value.hasattr("__fspath__")?)
}

/// Converts a path. Text that is none is an error, which `refuse` makes of what is wrong.
pub fn path_of(value: &Bound<'_, PyAny>, refuse: impl FnOnce(String) -> PyErr) -> PyResult<PathBuf> {
    value.extract().map_err(|error: PyErr| match error.is_instance_of::<PyUnicodeEncodeError>(value.py()) {
        true => refuse("the path has a surrogate, which is not a character".to_owned()),
        false => error,
    })
}

/// Reads one of several words.
pub fn word<T: Copy>(argument: &str, value: &Bound<'_, PyAny>, words: &[(&str, T)]) -> PyResult<T> {
    let found = value.cast::<PyString>().ok().and_then(|word| word.to_cow().ok());
    let word = words.iter().find(|(name, _)| found.as_deref() == Some(name));
    word.map(|(_, word)| *word).ok_or_else(|| {
        let names: Vec<String> = words.iter().map(|(name, _)| format!("{name:?}")).collect();
        let found = match found {
            Some(found) => format!("{found:?}"),
            None => value.get_type().name().map(|name| name.to_string()).unwrap_or_default(),
        };
        refuse(value.py(), argument, format!("expected {}, found {found}", names.join(" or ")))
    })
}

/// Reads one of several words, or the default without a value.
pub fn word_or_default<T: Copy + Default>(
    argument: &str,
    value: Option<&Bound<'_, PyAny>>,
    words: &[(&str, T)],
) -> PyResult<T> {
    value.map_or_else(|| Ok(T::default()), |value| word(argument, value, words))
}

/// Reads a whole number from 0.
pub fn count(argument: &str, value: &Bound<'_, PyAny>) -> PyResult<usize> {
    // A bool is an int of Python's, but no count.
    let count = value.extract::<usize>().ok().filter(|_| !value.is_instance_of::<PyBool>());
    count.ok_or_else(|| refuse(value.py(), argument, "expected a whole number from 0".to_owned()))
}

/// Reads True or False. Other values are refused: the text `"false"` is true in Python.
pub fn flag(argument: &str, value: &Bound<'_, PyAny>) -> PyResult<bool> {
    value.extract::<bool>().map_err(|_| wrong_type(value, argument, "True or False"))
}

/// Reads a number of seconds from 0. More than can be waited for is as long as that.
pub fn seconds(argument: &str, value: &Bound<'_, PyAny>) -> PyResult<Duration> {
    const LONGEST: f64 = 1e9;
    let is_number = value.is_instance_of::<PyFloat>() || value.is_instance_of::<PyInt>();
    let seconds =
        value.extract::<f64>().ok().filter(|seconds| is_number && !value.is_instance_of::<PyBool>() && *seconds >= 0.0);
    let seconds = seconds.ok_or_else(|| refuse(value.py(), argument, "expected a number of seconds from 0".to_owned()));
    seconds.map(|seconds| Duration::from_secs_f64(seconds.min(LONGEST)))
}

/// Reads something that can be called.
pub fn callable(value: &Bound<'_, PyAny>, field: &str) -> PyResult<Arc<Py<PyAny>>> {
    match value.is_callable() {
        true => Ok(Arc::new(value.clone().unbind())),
        false => Err(wrong_type(value, field, "something that can be called")),
    }
}

/// Returns the exception for an argument that cannot be used.
pub fn refuse(py: Python<'_>, argument: &str, what: String) -> PyErr {
    let place = Some(Place::field(argument.to_owned()));
    Fault { class: "RequestError", code: "wrong_argument", message: what, place, help: None }.raise(py)
}

/// Where a value is in the arguments.
pub struct Path(Vec<String>);

impl Path {
    /// Returns the path of an argument.
    pub fn of(argument: &str) -> Path {
        Path(vec![argument.to_owned()])
    }

    fn refuse(&self, py: Python<'_>, what: String) -> PyErr {
        let index = |step: &String| step.strip_prefix('[')?.strip_suffix(']')?.parse().ok();
        let message = match &self.0[..] {
            [argument, step, ..] if argument == "messages" => index(step),
            _ => None,
        };
        // The field is counted from the message.
        let outer = if message.is_some() { 2 } else { 0 };
        let mut field = String::new();
        for step in self.0.iter().skip(outer).filter(|step| !step.is_empty()) {
            field += if field.is_empty() || step.starts_with('[') { "" } else { "." };
            field += step;
        }
        let place = Some(Place { message, field: field.into() });
        let help = Some("pass values that JSON can hold".to_owned());
        Fault { class: "RequestError", code: "wrong_type", message: what, place, help }.raise(py)
    }
}

/// Converts an argument that must be a str.
pub fn argument(value: &Bound<'_, PyAny>, field: &str) -> PyResult<String> {
    match value.cast::<PyString>() {
        Ok(text) => text_of(text, &Path::of(field)),
        Err(_) => Err(wrong_type(value, field, "a str")),
    }
}

/// Returns the error for an argument of a wrong type.
pub fn wrong_type(value: &Bound<'_, PyAny>, field: &str, expected: &str) -> PyErr {
    let found = value.get_type().name().map_or_else(|_| "another type".to_owned(), |name| name.to_string());
    let message = format!("expected {expected}, found {found}");
    let place = Some(Place::field(field.to_owned()));
    Fault { class: "RequestError", code: "wrong_type", message, place, help: None }.raise(value.py())
}

fn inside<T>(path: &mut Path, step: String, work: impl FnOnce(&mut Path) -> PyResult<T>) -> PyResult<T> {
    path.0.push(step);
    let result = work(path);
    path.0.pop();
    result
}

/// Converts a text, in which every character must be one of Unicode.
pub fn text_of(text: &Bound<'_, PyString>, path: &Path) -> PyResult<String> {
    let refused = |_| path.refuse(text.py(), "the text has a surrogate, which is not a character".to_owned());
    text.to_cow().map(|text| text.into_owned()).map_err(refused)
}

fn entries<'py>(
    pairs: impl Iterator<Item = (Bound<'py, PyAny>, Bound<'py, PyAny>)>,
    path: &mut Path,
) -> PyResult<Json> {
    let mut object = Object::new();
    for (key, value) in pairs {
        let Ok(key) = key.cast::<PyString>() else {
            let found = key.get_type().name()?;
            return Err(path.refuse(key.py(), format!("expected a str as key, found {found}")));
        };
        let key = text_of(key, path)?;
        let value = inside(path, key.clone(), |path| json(&value, path))?;
        object.insert(key, value);
    }
    Ok(Json::Object(object))
}

fn items<'py>(values: impl Iterator<Item = Bound<'py, PyAny>>, path: &mut Path) -> PyResult<Json> {
    let values = values.enumerate();
    let converted = values.map(|(at, value)| inside(path, format!("[{at}]"), |path| json(&value, path)));
    Ok(Json::Array(converted.collect::<PyResult<_>>()?))
}

fn number(value: &Bound<'_, PyAny>, path: &Path) -> PyResult<Json> {
    // Of a subclass, such as an enum, the number counts and not the name.
    let plain = match value.cast::<PyFloat>() {
        Ok(_) => value.py().get_type::<PyFloat>().call_method1("__repr__", (value,)),
        Err(_) => value.py().get_type::<PyInt>().call_method1("__repr__", (value,)),
    };
    // Python refuses to write integers of many digits.
    let spelling = plain.and_then(|spelling| spelling.extract::<String>());
    let spelling = spelling.map_err(|error| path.refuse(value.py(), error.value(value.py()).to_string()))?;
    match Number::from_spelling(&spelling) {
        Some(number) => Ok(Json::Number(number)),
        None => Err(path.refuse(value.py(), format!("JSON has no number `{spelling}`"))),
    }
}
