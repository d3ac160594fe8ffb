use std::ops::Range;

use numpy::PyReadonlyArray1;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use rolecall::Encoded;
use rolecall::loss::{Edges, weights};
use rolecall::model::ModelPrompt;
use rolecall::session::{Author, SegmentPart};

use crate::once::Once;

/// The ids of a conversation, and what each belongs to.
///
/// `Model.attribute` returns it. All arrays have one entry per id.
///
/// >>> model = rolecall.load("path/to/model")
/// >>> messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
/// >>> attributed = model.attribute(messages)
/// >>> attributed.message_indices.tolist()
/// [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1]
/// >>> attributed.ids[attributed.sampled].tolist() == [*model.session().encode_sampled("Hello"), *model.stop_ids()]
/// True
#[pyclass(frozen, name = "Attributed", module = "rolecall")]
pub struct AttributedIds {
    ids: Vec<u32>,
    /// The index of the message, or -1.
    messages: Vec<i32>,
    sampled: Vec<bool>,
    content: Vec<bool>,
    /// The index of each reply's message, and its bytes.
    replies: Vec<(Option<usize>, Range<usize>)>,
    arrays: [Once; 4],
}

impl AttributedIds {
    pub fn new(prompt: &ModelPrompt, encoded: &Encoded) -> Result<AttributedIds, rolecall::Error> {
        let count = encoded.tokens.len();
        let index = |message: usize| i32::try_from(message).unwrap_or(-1);
        let (mut messages, mut content) = (vec![-1; count], vec![false; count]);
        for segment in prompt.segments_of_tokens(&encoded.tokens) {
            if let (Some(message), Some(own)) = (segment.message, messages.get_mut(segment.ids.clone())) {
                own.fill(index(message));
            }
            let is_content = segment.author == Author::Caller && segment.part == SegmentPart::Content;
            if let Some(own) = content.get_mut(segment.ids) {
                own.fill(is_content);
            }
        }
        let loss = prompt.loss_of_replies()?;
        let sampled: Vec<bool> = weights(encoded, &loss, Edges::Any).map(|weight| weight > 0.0).collect();
        for reply in &loss.replies {
            let Some(message) = reply.message else { continue };
            let first = encoded.tokens.partition_point(|token| token.end <= reply.range.start);
            // The stop token may open the next turn, and some white space that follows it is not sampled.
            for at in first..count {
                if encoded.tokens[at].start >= reply.range.end {
                    break;
                }
                messages[at] = index(message);
                content[at] = sampled[at];
            }
        }
        Ok(AttributedIds {
            ids: encoded.ids(),
            messages,
            sampled,
            content,
            replies: loss.replies.into_iter().map(|reply| (reply.message, reply.range)).collect(),
            arrays: Default::default(),
        })
    }
}

#[pymethods]
impl AttributedIds {
    /// The ids: an array of uint32, of shape (ids,).
    #[getter]
    fn ids(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.arrays[0].array(py, || self.ids.clone())
    }

    /// The index of the message that each id belongs to, or -1 outside the messages: an array of int32,
    /// of shape (ids,).
    #[getter]
    fn message_indices(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.arrays[1].array(py, || self.messages.clone())
    }

    /// Whether the model itself writes each id: an array of bool, of shape (ids,).
    #[getter]
    fn sampled(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.arrays[2].array(py, || self.sampled.clone())
    }

    /// Whether each id is sampled or is the content of another message: an array of bool, of shape
    /// (ids,).
    #[getter]
    fn is_content(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.arrays[3].array(py, || self.content.clone())
    }

    /// What the model itself writes, as dicts: the index of the `message`, and the first of the `bytes`
    /// of the text and their end.
    #[getter]
    fn replies<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let reply = |(message, bytes): &(Option<usize>, Range<usize>)| {
            let dict = PyDict::new(py);
            dict.set_item("message", message)?;
            dict.set_item("bytes", (bytes.start, bytes.end))?;
            Ok(dict)
        };
        self.replies.iter().map(reply).collect()
    }

    fn __len__(&self) -> usize {
        self.ids.len()
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let (py, own) = (slf.py(), slf.get());
        let replies: Vec<_> = own.replies.iter().map(|(message, bytes)| (*message, bytes.start, bytes.end)).collect();
        let arrays = (own.ids(py)?, own.message_indices(py)?, own.sampled(py)?, own.is_content(py)?);
        let (ids, messages, sampled, content) = arrays;
        let state = (ids, messages, sampled, content, replies).into_pyobject(py)?;
        Ok((slf.get_type().getattr("_of_arrays")?, state))
    }

    /// Restores what was pickled.
    #[staticmethod]
    fn _of_arrays(
        py: Python<'_>,
        ids: PyReadonlyArray1<'_, u32>,
        messages: PyReadonlyArray1<'_, i32>,
        sampled: PyReadonlyArray1<'_, bool>,
        content: PyReadonlyArray1<'_, bool>,
        replies: Vec<(Option<usize>, usize, usize)>,
    ) -> PyResult<AttributedIds> {
        let (ids, messages) = (ids.as_array().to_vec(), messages.as_array().to_vec());
        let (sampled, content) = (sampled.as_array().to_vec(), content.as_array().to_vec());
        if [messages.len(), sampled.len(), content.len()] != [ids.len(); 3] {
            return Err(crate::input::refuse(py, "ids", "expected arrays of the same length".to_owned()));
        }
        let replies = replies.into_iter().map(|(message, start, end)| (message, start..end)).collect();
        Ok(AttributedIds { ids, messages, sampled, content, replies, arrays: Default::default() })
    }

    fn __repr__(&self) -> String {
        format!("Attributed({} ids)", self.ids.len())
    }
}
