use pyo3::prelude::*;
use rolecall::{answer, session};

use crate::model::Model;
use crate::once::Once;
use crate::output;
use crate::session::Session;

/// How a session differs from the stock rendering of its messages.
///
/// Replacing the stock text of each gap by the session's gives the session's text, and outside the
/// gaps the ids are the same.
///
/// `Session.difference` returns it. It is false if there is no gap, and `len` is the number of gaps.
///
/// >>> model = rolecall.load("path/to/model")
/// >>> session = model.import_session([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}])
/// >>> difference = session.difference()
/// >>> bool(difference), difference.has_stock_text, difference.has_stock_ids
/// (False, True, True)
#[pyclass(frozen, module = "rolecall")]
pub struct Difference {
    inner: session::Difference,
    model: Py<Model>,
    /// The session as it was, whose clone shares all ids.
    session: session::Session,
    answer: Once,
}

impl Difference {
    pub fn new(inner: session::Difference, model: Py<Model>, session: session::Session) -> Difference {
        Difference { inner, model, session, answer: Once::default() }
    }
}

#[pymethods]
impl Difference {
    /// The places that differ, in order, as dicts: `code` (`"opening"`, `"reply"`, `"between"`, or
    /// `"ids"` if only the ids differ), `message` if they belong to one, the text of the `session` and
    /// of the `stock` rendering, the `byte` in the stock text, the index of the first `id`, and the
    /// number of `ids` and `stock_ids` that differ.
    #[getter]
    fn gaps(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let answer = self.answer.get(py, || self.to_dict(py))?;
        Ok(answer.bind(py).get_item("gaps")?.unbind())
    }

    /// The stock text, as far as it corresponds to what is sent.
    #[getter]
    fn stock(&self) -> &str {
        &self.inner.stock
    }

    /// Whether the session's text is the stock text. Its ids may be others.
    #[getter]
    fn has_stock_text(&self) -> bool {
        self.inner.has_stock_text()
    }

    /// Whether the session's ids are those that encoding the stock text as a whole returns.
    #[getter]
    fn has_stock_ids(&self) -> bool {
        self.inner.has_stock_ids
    }

    /// Returns `stock_text`, `stock_ids` and `gaps` as a dict, as `rolecall session` writes it.
    fn to_dict(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        output::object(py, &answer::of_difference(&self.inner))
    }

    fn __len__(&self) -> usize {
        self.inner.gaps.len()
    }

    fn __bool__(&self) -> bool {
        !self.inner.gaps.is_empty()
    }

    /// Pickles the session, which is compared again.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (Session,))> {
        let (py, own) = (slf.py(), slf.get());
        let session = Session::new(own.model.clone_ref(py), own.session.clone());
        Ok((py.get_type::<Session>().getattr("difference")?, (session,)))
    }

    fn __repr__(&self) -> String {
        format!("Difference({} gaps)", self.inner.gaps.len())
    }
}

#[pymethods]
impl Session {
    /// Compares the session with the stock rendering of its messages.
    fn difference(&self, py: Python<'_>) -> PyResult<Difference> {
        let (difference, session) = self.try_read(py, |session| Ok((session.difference()?, session.clone())))?;
        Ok(Difference::new(difference, self.model(py), session))
    }
}
