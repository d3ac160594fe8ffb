use pyo3::prelude::*;
use pyo3::types::PyDict;
use rolecall::Encoded;
use rolecall::loss::{Edges, Written, weights};
use rolecall::model::ModelPrompt;
use rolecall::session::{Author, Part};

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
#[pyclass(frozen, module = "rolecall")]
pub struct Attributed {
    ids: Vec<u32>,
    /// The index of the message, or -1.
    messages: Vec<i32>,
    sampled: Vec<bool>,
    content: Vec<bool>,
    replies: Vec<Written>,
    arrays: [Once; 4],
}

impl Attributed {
    pub fn new(prompt: &ModelPrompt, encoded: &Encoded) -> Result<Attributed, rolecall::Error> {
        let count = encoded.tokens.len();
        let index = |message: usize| i32::try_from(message).unwrap_or(-1);
        let (mut messages, mut content) = (vec![-1; count], vec![false; count]);
        for segment in prompt.segments_of_tokens(&encoded.tokens) {
            if let (Some(message), Some(own)) = (segment.message, messages.get_mut(segment.ids.clone())) {
                own.fill(index(message));
            }
            let is_content = segment.author == Author::Caller && segment.part == Part::Content;
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
        Ok(Attributed {
            ids: encoded.ids(),
            messages,
            sampled,
            content,
            replies: loss.replies,
            arrays: Default::default(),
        })
    }
}

#[pymethods]
impl Attributed {
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
        let reply = |reply: &Written| {
            let dict = PyDict::new(py);
            dict.set_item("message", reply.message)?;
            dict.set_item("bytes", (reply.range.start, reply.range.end))?;
            Ok(dict)
        };
        self.replies.iter().map(reply).collect()
    }

    fn __len__(&self) -> usize {
        self.ids.len()
    }

    fn __repr__(&self) -> String {
        format!("Attributed({} ids)", self.ids.len())
    }
}
