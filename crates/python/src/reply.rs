use std::ops::Range;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use rolecall::conversation::Json;
use rolecall::conversation::json::Object;
use rolecall::parse::ParsedCall;
use rolecall::{answer, session};

use crate::once::Once;
use crate::output;

/// A reply that a session accepted.
///
/// `Session.accept` and `Session.parse` return it.
///
/// >>> session = rolecall.load("path/to/model").session([{"role": "user", "content": "Hi"}])
/// >>> delta = session.open()
/// >>> sampled = session.encode_sampled("Hello<|im_end|>")  # from an engine: its ids
/// >>> reply = session.accept(sampled, "stop")
/// >>> reply.message, reply.finish_reason
/// ({'role': 'assistant', 'content': 'Hello'}, 'stop')
/// >>> reply.ids.tolist() == sampled.tolist(), reply.is_unfinished
/// (True, False)
#[pyclass(frozen, module = "rolecall")]
pub struct Reply {
    inner: Arc<session::Reply>,
    keep: usize,
    sampled: Vec<u32>,
    segments: Vec<session::Segment>,
    ids: Once,
    runs: Once,
    message: Once,
    reading: Once,
    notes: Once,
    calls: Once,
}

impl Reply {
    /// Returns a reply. `keep` is the number of ids before it.
    pub fn new(inner: Arc<session::Reply>, keep: usize, sampled: Vec<u32>, segments: Vec<session::Segment>) -> Reply {
        let (ids, runs, message) = (Once::default(), Once::default(), Once::default());
        let (reading, notes, calls) = (Once::default(), Once::default(), Once::default());
        Reply { inner, keep, sampled, segments, ids, runs, message, reading, notes, calls }
    }

    fn part(&self, py: Python<'_>, key: &str) -> PyResult<Py<PyAny>> {
        Ok(self.reading(py)?.bind(py).get_item(key)?.unbind())
    }
}

#[pymethods]
impl Reply {
    /// The message, as the next rendering receives it. A call that was cut off or cannot be read is
    /// not part of it.
    #[getter]
    fn message(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.message.get(py, || output::object(py, &Json::Object(self.inner.said.as_object().clone())))
    }

    /// The index of the message in the session.
    #[getter]
    fn message_index(&self) -> usize {
        self.inner.message
    }

    /// Everything that was parsed: a dict as `Model.parse` returns it.
    #[getter]
    fn reading(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.reading.get(py, || output::object(py, &answer::of_reading(None, &self.inner.reading)))
    }

    /// Why the reply ended: `"stop"`, `"tool_calls"`, `"length"` or `"abort"`.
    #[getter]
    fn finish_reason(&self) -> &'static str {
        answer::finish_reason(&self.inner.reading)
    }

    /// The parts of the output that do not match the layout, as dicts.
    #[getter]
    fn malformed(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.part(py, "malformed")
    }

    /// The number of ids before the reply.
    #[getter]
    fn keep(&self) -> usize {
        self.keep
    }

    /// The ids of the reply: a read-only array of uint32, of shape (ids,).
    #[getter]
    fn ids(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.ids.array(py, || self.sampled.clone())
    }

    /// The parts of the ids, as dicts. See `Delta.segments`.
    #[getter]
    fn segments(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.runs.get(py, || output::object(py, &answer::of_segments(&self.segments)))
    }

    /// Where the calls of `reading` are, as dicts: the first of their `ids` among those of the reply and
    /// the end, their `bytes` in the text, the `text` itself, and whether they are `whole`. Of a call
    /// that the parser recognized only at the end of the reply, `ids`, `bytes` and `text` are None.
    #[getter]
    fn calls(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let range = |range: &Range<usize>| {
            let end = |at: usize| Json::from(i64::try_from(at).unwrap_or(i64::MAX));
            Json::Array(vec![end(range.start), end(range.end)])
        };
        let calls = self.inner.reading.calls.iter().enumerate().map(|(at, call)| {
            let whole = match call {
                ParsedCall::Function { whole, .. } | ParsedCall::Code { whole, .. } => *whole,
            };
            let ids = self.inner.calls.get(at);
            let bytes = ids.map(|_| self.inner.call_bytes(at));
            let text = |bytes: &Range<usize>| String::from_utf8_lossy(&self.inner.bytes()[bytes.clone()]).into_owned();
            let mut object = Object::new();
            object.insert("ids", ids.map_or(Json::Null, range));
            object.insert("bytes", bytes.as_ref().map_or(Json::Null, range));
            object.insert("text", bytes.as_ref().map_or(Json::Null, |bytes| Json::from(text(bytes))));
            object.insert("whole", Json::from(whole));
            Json::Object(object)
        });
        self.calls.list(py, calls)
    }

    /// The text of the ids before the stop token. It need not be valid UTF-8.
    #[getter]
    fn bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.inner.bytes())
    }

    /// The id that stopped the model, or None if the ids do not include it.
    #[getter]
    fn stop(&self) -> Option<u32> {
        self.inner.stop
    }

    /// Whether the reply has no end. `Session.close` writes one; so does the next `append` or `open`.
    #[getter]
    fn is_unfinished(&self) -> bool {
        self.inner.is_unfinished
    }

    /// Whether the reply ended inside its reasoning.
    #[getter]
    fn in_reasoning(&self) -> bool {
        self.inner.in_reasoning
    }

    /// What the caller should know, as dicts with `code` and `message`.
    #[getter]
    fn notes(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.notes.list(py, self.inner.notes.iter().map(answer::of_session_note))
    }

    /// Returns everything as a dict, as `rolecall session` writes it.
    fn to_dict(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        output::object(py, &answer::of_reply(&self.inner, self.keep, &self.sampled, &self.segments))
    }

    fn __repr__(&self) -> String {
        let (ids, finish) = (self.sampled.len(), self.finish_reason());
        format!("Reply({ids} ids, finish_reason={finish:?})")
    }
}
