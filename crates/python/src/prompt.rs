use pyo3::prelude::*;
use pyo3::types::PyDict;
use rolecall::model::ModelPrompt;
use rolecall::{Segment, answer};

use crate::encoded::Encoded;
use crate::{error, output};

/// A rendered request. Every byte of its text has an origin.
#[pyclass(frozen, module = "rolecall")]
pub struct Prompt {
    inner: ModelPrompt,
}

impl Prompt {
    pub fn new(inner: ModelPrompt) -> Prompt {
        Prompt { inner }
    }
}

#[pymethods]
impl Prompt {
    /// The text.
    #[getter]
    fn text(&self) -> &str {
        self.inner.text()
    }

    /// The pieces of the text in order, as dicts: `text`, `start` in bytes, and `origin`, as the command
    /// writes it: `"control"`, `"format"`, `{"message": 0, "field": "content"}`, `{"tool": 0}`,
    /// `{"document": 0}` or `{"option": "name"}`.
    fn segments<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let dict = |segment: Segment<'_>| {
            let dict = PyDict::new(py);
            dict.set_item("text", segment.text)?;
            dict.set_item("start", segment.start)?;
            dict.set_item("origin", output::object(py, &answer::of_origin(&segment.origin))?)?;
            Ok(dict)
        };
        self.inner.segments().map(dict).collect()
    }

    /// Returns the token ids.
    pub fn encode(&self, py: Python<'_>) -> PyResult<Encoded> {
        let encoded = py.detach(|| self.inner.encode()).map_err(|error| error::of(py, &error))?;
        Ok(Encoded::new(encoded))
    }

    fn __str__(&self) -> &str {
        self.inner.text()
    }

    fn __repr__(&self) -> String {
        format!("Prompt({:?})", self.inner.text())
    }
}
