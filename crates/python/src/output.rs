//! Conversion of results to Python objects.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat, PyInt, PyList};
use rolecall::conversation::Json;

/// Converts a JSON value to dicts, lists, str, int, float, bool and None.
pub fn object(py: Python<'_>, value: &Json) -> PyResult<Py<PyAny>> {
    Ok(match value {
        Json::Null => py.None(),
        Json::Bool(flag) => flag.into_pyobject(py)?.to_owned().into_any().unbind(),
        Json::String(text) => text.into_pyobject(py)?.into_any().unbind(),
        Json::Number(number) => {
            let spelling = number.spelling();
            let is_whole = !spelling.contains(['.', 'e', 'E']);
            match is_whole {
                true => py.get_type::<PyInt>().call1((spelling,))?.unbind(),
                false => py.get_type::<PyFloat>().call1((spelling,))?.unbind(),
            }
        }
        Json::Array(values) => {
            let list = PyList::empty(py);
            for value in values {
                list.append(object(py, value)?)?;
            }
            list.into_any().unbind()
        }
        Json::Object(entries) => {
            let dict = PyDict::new(py);
            for (key, value) in entries.iter() {
                dict.set_item(key, object(py, value)?)?;
            }
            dict.into_any().unbind()
        }
    })
}
