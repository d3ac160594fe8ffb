use pyo3::prelude::*;
use pyo3::types::PyList;
use rolecall::{answer, session};

use crate::once::Once;
use crate::{input, output};

/// What an operation of a session changes in the ids that an engine has processed.
///
/// `Session.open`, `append` and `close` return it: an engine keeps the first `keep` ids and appends `ids`.
///
/// >>> model = rolecall.load("path/to/model")
/// >>> session = model.session([{"role": "user", "content": "Hi"}])
/// >>> delta = session.open()
/// >>> delta.keep, len(delta.ids), delta.total
/// (0, 9, 9)
/// >>> [(segment["author"], *segment["ids"]) for segment in delta.segments if segment["author"] == "caller"]
/// [('caller', 1, 2), ('caller', 3, 4)]
#[pyclass(frozen, module = "rolecall")]
pub struct Delta {
    inner: session::Delta,
    ids: Once,
    segments: Once,
    notes: Once,
}

impl Delta {
    pub fn new(inner: session::Delta) -> Delta {
        Delta { inner, ids: Once::default(), segments: Once::default(), notes: Once::default() }
    }
}

#[pymethods]
impl Delta {
    /// The number of ids that stay. It is less than the previous total only after a rewrite or a
    /// truncation.
    #[getter]
    fn keep(&self) -> usize {
        self.inner.keep
    }

    /// The ids that follow them: a read-only array of uint32, of shape (new ids,).
    #[getter]
    fn ids(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.ids.array(py, || self.inner.ids.clone())
    }

    /// The number of ids of the session after the operation.
    #[getter]
    fn total(&self) -> usize {
        self.inner.total()
    }

    /// Who wrote the new ids, as dicts: `author`, `message` if they belong to one, `part`, `ids` as
    /// the first index and the end, both from the start of the session, and the loss `weight`.
    #[getter]
    fn segments(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.segments.get(py, || output::object(py, &answer::of_segments(&self.inner.segments)))
    }

    /// How the ids before were shown to be those of the longer conversation: a dict with `code`,
    /// which is `"first"`, `"closing"`, `"growth"` or `"whole"`.
    #[getter]
    fn proof(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        output::object(py, &answer::of_proof(&self.inner.proof))
    }

    /// What the caller should know, as dicts with `code` and `message`.
    #[getter]
    fn notes(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.notes.list(py, self.inner.notes.iter().map(answer::of_session_note))
    }

    /// Returns the new ids as a list of int.
    fn tolist<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, &self.inner.ids)
    }

    /// Returns the message that each new id belongs to, and whether it is the content of one, as two
    /// lists. Messages count from the one with the index `first`; text of earlier messages and text
    /// outside the messages has -1.
    #[pyo3(signature = (first=None), text_signature = "($self, first=0)")]
    fn lists<'py>(
        &self,
        py: Python<'py>,
        first: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyList>, Bound<'py, PyList>)> {
        let first = first.map_or(Ok(0), |first| input::count("first", first))?;
        let count = self.inner.ids.len();
        let mut messages = vec![-1_i64; count];
        let mut content = vec![false; count];
        for segment in &self.inner.segments {
            let Some(message) = segment.message.and_then(|message| message.checked_sub(first)) else { continue };
            let ids =
                segment.ids.start.saturating_sub(self.inner.keep)..segment.ids.end.saturating_sub(self.inner.keep);
            if let Some(own) = messages.get_mut(ids.clone()) {
                own.fill(i64::try_from(message).unwrap_or(-1));
            }
            let is_content = segment.author == session::Author::Caller && segment.part == session::SegmentPart::Content;
            if let Some(own) = content.get_mut(ids) {
                own.fill(is_content);
            }
        }
        Ok((PyList::new(py, messages)?, PyList::new(py, content)?))
    }

    /// Returns everything as a dict, as `rolecall session` writes it.
    fn to_dict(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        output::object(py, &answer::of_delta(&self.inner))
    }

    fn __repr__(&self) -> String {
        let (keep, new, proof) = (self.inner.keep, self.inner.ids.len(), self.inner.proof.code());
        format!("Delta(keep={keep}, {new} new ids, proof={proof:?})")
    }
}
