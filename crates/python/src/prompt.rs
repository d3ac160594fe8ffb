use pyo3::prelude::*;
use pyo3::types::PyDict;
use rolecall::Origin;
use rolecall::model::ModelPrompt;

use crate::encoded::Encoded;
use crate::error;

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

    /// The pieces of the text in order, as dicts: `text`, `start` in bytes, `origin` (`control`,
    /// `format`, `message`, `tool`, `document` or `option`), and `message` and `field` for text of a
    /// message.
    fn segments<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        self.inner
            .segments()
            .map(|segment| {
                let dict = PyDict::new(py);
                dict.set_item("text", segment.text)?;
                dict.set_item("start", segment.start)?;
                let origin = match &segment.origin {
                    Origin::Control(_) => "control",
                    Origin::Format => "format",
                    Origin::Message { message, field } => {
                        dict.set_item("message", message)?;
                        dict.set_item("field", &**field)?;
                        "message"
                    }
                    Origin::Tool { tool } => {
                        dict.set_item("tool", tool)?;
                        "tool"
                    }
                    Origin::Document { document } => {
                        dict.set_item("document", document)?;
                        "document"
                    }
                    Origin::Option { name } => {
                        dict.set_item("name", name)?;
                        "option"
                    }
                };
                dict.set_item("origin", origin)?;
                Ok(dict)
            })
            .collect()
    }

    /// Returns the token ids.
    fn encode(&self, py: Python<'_>) -> PyResult<Encoded> {
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
