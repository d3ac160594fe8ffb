use pyo3::prelude::*;
use rolecall::{answer, session};

use crate::delta::Delta;
use crate::output;

/// What truncation removed from a session.
///
/// `Session.truncate` returns it.
///
/// >>> model = rolecall.load("path/to/model")
/// >>> messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}] * 3
/// >>> cut = model.import_session(messages).truncate(turns=1)
/// >>> cut.dropped, cut.after < cut.before
/// ((0, 4), True)
#[pyclass(frozen, module = "rolecall")]
pub struct Cut {
    inner: session::Cut,
    delta: Py<Delta>,
}

impl Cut {
    pub fn new(py: Python<'_>, inner: session::Cut) -> PyResult<Cut> {
        let delta = Py::new(py, Delta::new(inner.delta.clone()))?;
        Ok(Cut { inner, delta })
    }
}

#[pymethods]
impl Cut {
    /// The indexes of the messages that were removed, as they were before: the first one and the end.
    #[getter]
    fn dropped(&self) -> (usize, usize) {
        (self.inner.dropped.start, self.inner.dropped.end)
    }

    /// The number of ids before.
    #[getter]
    fn before(&self) -> usize {
        self.inner.before
    }

    /// The number of ids after.
    #[getter]
    fn after(&self) -> usize {
        self.inner.after
    }

    /// How many ids stay, and the ids that follow them.
    #[getter]
    fn delta(&self, py: Python<'_>) -> Py<Delta> {
        self.delta.clone_ref(py)
    }

    /// Returns everything as a dict, as `rolecall session` writes it.
    fn to_dict(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        output::object(py, &answer::of_cut(&self.inner))
    }

    fn __repr__(&self) -> String {
        let (dropped, before, after) = (self.inner.dropped.len(), self.inner.before, self.inner.after);
        format!("Cut({dropped} messages, {before} ids before, {after} after)")
    }
}
