use pyo3::prelude::*;
use rolecall::conversation::Json;
use rolecall::{answer, session};

use crate::once::Once;
use crate::output;

/// A session as a sample for a trainer: its ids, what each weighs, and who wrote it.
///
/// `Session.rollout` returns it. `ids` and `weights` have one entry per id.
///
/// >>> model = rolecall.load("path/to/model")
/// >>> session = model.import_session([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}])
/// >>> rollout = session.rollout()
/// >>> len(rollout), rollout.weights.dtype, rollout.weights.tolist()[-3:]
/// (11, dtype('float32'), [0.0, 1.0, 1.0])
#[pyclass(frozen, module = "rolecall")]
pub struct Rollout {
    inner: session::Rollout,
    /// The session as it was, whose clone shares all ids.
    session: session::Session,
    ids: Once,
    weights: Once,
    answer: Once,
}

impl Rollout {
    pub fn new(inner: session::Rollout, session: session::Session) -> Rollout {
        Rollout { inner, session, ids: Once::default(), weights: Once::default(), answer: Once::default() }
    }

    fn part(&self, py: Python<'_>, key: &str) -> PyResult<Py<PyAny>> {
        let answer = self.answer.get(py, || {
            let inner = session::Rollout { ids: Vec::new(), weights: Vec::new(), ..self.inner.clone() };
            let mut answer = answer::of_rollout(&self.session, &inner);
            if let Json::Object(answer) = &mut answer
                && answer.get("loss_notes").is_none()
            {
                answer.insert("loss_notes", Json::Array(Vec::new()));
            }
            output::object(py, &answer)
        })?;
        Ok(answer.bind(py).get_item(key)?.unbind())
    }
}

#[pymethods]
impl Rollout {
    /// The ids: a read-only array of uint32, of shape (ids,).
    #[getter]
    fn ids(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.ids.array(py, || self.inner.ids.clone())
    }

    /// The loss weight of each id: a read-only array of float32, of shape (ids,).
    #[getter]
    fn weights(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.weights.array(py, || self.inner.weights.clone())
    }

    /// Who wrote the ids, as dicts with `text`. See `Delta.segments`.
    #[getter]
    fn segments(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.part(py, "segments")
    }

    /// The messages whose ids these are, as dicts.
    #[getter]
    fn messages(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.part(py, "messages")
    }

    /// Where the session left the stock rendering, in order of the ids, as dicts: `id`, `code` and
    /// `message`.
    #[getter]
    fn breaks(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.part(py, "breaks")
    }

    /// What a trainer should know about the loss, as dicts with `code` and `message`.
    #[getter]
    fn notes(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.part(py, "loss_notes")
    }

    /// Returns everything as a dict, as `rolecall session --json` writes it.
    fn to_dict(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        output::object(py, &answer::of_rollout(&self.session, &self.inner))
    }

    fn __len__(&self) -> usize {
        self.inner.ids.len()
    }

    fn __repr__(&self) -> String {
        let trained = self.inner.weights.iter().filter(|weight| **weight > 0.0).count();
        format!("Rollout({} ids, {trained} with loss)", self.inner.ids.len())
    }
}
