use pyo3::prelude::*;
use rolecall::{answer, session};

use crate::output;

/// Messages that may be appended to a session, and what this changes.
///
/// A plan belongs to the state of the session in which it was made.
///
/// `Session.plan` returns it, and `Session.append` takes it.
///
/// >>> model = rolecall.load("path/to/model")
/// >>> session = model.import_session([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}])
/// >>> plan = session.plan({"role": "user", "content": "Thanks"})
/// >>> plan.is_stable, plan.rewrite
/// (True, None)
#[pyclass(frozen, module = "rolecall")]
pub struct Plan {
    inner: session::Plan,
}

impl Plan {
    pub fn new(inner: session::Plan) -> Plan {
        Plan { inner }
    }

    pub fn inner(&self) -> session::Plan {
        self.inner.clone()
    }
}

#[pymethods]
impl Plan {
    /// What the template rewrites of the ids already sent, or None if they stay valid: a dict with
    /// `byte`, `message`, `line` and `column` in the template, the number of `ids` from that byte on,
    /// and the text `before` and `after`.
    #[getter]
    fn rewrite(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.inner.rewrite().map(|rewrite| output::object(py, &answer::of_rewrite(rewrite))).transpose()
    }

    /// Whether all ids already sent stay valid.
    #[getter]
    fn is_stable(&self) -> bool {
        self.inner.is_stable()
    }

    fn __repr__(&self) -> String {
        match self.inner.rewrite() {
            None => "Plan(stable)".to_owned(),
            Some(rewrite) => format!("Plan({rewrite})"),
        }
    }
}
