use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};
use rolecall::conversation::Json;
use rolecall::training::RowOptions;
use rolecall::{answer, session};

use crate::loss::{self, LossArguments};
use crate::model::Model;
use crate::once::Once;
use crate::output;
use crate::session::Session;

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
    model: Py<Model>,
    /// The session as it was, whose clone shares all ids.
    session: session::Session,
    /// What was asked for.
    options: RowOptions,
    ids: Once,
    weights: Once,
    answer: Once,
}

impl Rollout {
    pub fn new(inner: session::Rollout, model: Py<Model>, session: session::Session, options: RowOptions) -> Rollout {
        let (ids, weights, answer) = (Once::default(), Once::default(), Once::default());
        Rollout { inner, model, session, options, ids, weights, answer }
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

    /// Pickles the session and the arguments, of which the rollout is made again.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let (py, own) = (slf.py(), slf.get());
        let session = Session::new(own.model.clone_ref(py), own.session.clone());
        let RowOptions { for_training, loss_weight, loss_role, allow, .. } = own.options.clone();
        let arguments = (session, for_training, loss_weight, loss_role, allow).into_pyobject(py)?;
        Ok((slf.get_type().getattr("_of_session")?, arguments))
    }

    #[staticmethod]
    fn _of_session(
        session: &Bound<'_, Session>,
        for_training: Option<&Bound<'_, PyAny>>,
        loss_weight: Option<&Bound<'_, PyAny>>,
        loss_role: Option<&Bound<'_, PyAny>>,
        allow: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Rollout> {
        session.get().rollout(session.py(), for_training, loss_weight, loss_role, allow)
    }

    fn __len__(&self) -> usize {
        self.inner.ids.len()
    }

    fn __repr__(&self) -> String {
        let trained = self.inner.weights.iter().filter(|weight| **weight > 0.0).count();
        format!("Rollout({} ids, {trained} with loss)", self.inner.ids.len())
    }
}

#[pymethods]
impl Session {
    /// Returns the ids with loss weights, who wrote them, and where the session left the stock
    /// rendering.
    ///
    /// `for_training` says whose ids carry loss: `"assistant"`, `"last"`, `"chosen"` or `"all"`.
    /// `loss_weight` has the weights of the parts of a reply (`reasoning`, `content`, `calls`, `stop`),
    /// and `loss_role` those of other roles; `"tool:turn"` includes the template's text around the
    /// message. `allow` accepts what is otherwise an error: `"masked-stop"`, `"no-loss"` and `"null-word"`.
    #[pyo3(signature = (*, for_training=None, loss_weight=None, loss_role=None, allow=None))]
    pub fn rollout(
        &self,
        py: Python<'_>,
        for_training: Option<&Bound<'_, PyAny>>,
        loss_weight: Option<&Bound<'_, PyAny>>,
        loss_role: Option<&Bound<'_, PyAny>>,
        allow: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Rollout> {
        let assistant = PyString::new(py, "assistant").into_any();
        let for_training = Some(for_training.unwrap_or(&assistant));
        let asked = LossArguments { for_training, loss_weight, loss_role, allow, ..LossArguments::default() };
        let options = asked.options()?;
        let policy = loss::recipe(py, &options)?.policy.unwrap_or_default();
        let (rollout, session) = self.try_read(py, |session| Ok((session.rollout(&policy)?, session.clone())))?;
        Ok(Rollout::new(rollout, self.model(py), session, options))
    }
}
