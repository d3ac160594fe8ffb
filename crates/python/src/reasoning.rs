use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use rolecall::parse::{ReasoningSplit as Split, SplitText};

use crate::input;
use crate::parser::stop_of;

/// Splits the text of a reply into its reasoning and the text after it, while it streams.
///
/// It is for engines that parse reasoning first. `Model.parser(after_reasoning=True)` parses the rest.
///
/// `Model.reasoning_split` returns it.
///
/// >>> split = rolecall.load("path/to/model").reasoning_split()
/// >>> split.markers
/// ('<think>', '</think>')
/// >>> split.push("<think>\nHm.\n</think>\n\nHi")[:2], split.over
/// (('Hm.', 'Hi'), True)
#[pyclass(frozen, module = "rolecall")]
pub struct ReasoningSplit {
    inner: Mutex<Split>,
    markers: Option<(String, String)>,
}

impl ReasoningSplit {
    pub fn new(inner: Split, markers: Option<(&str, &str)>) -> ReasoningSplit {
        let markers = markers.map(|(open, close)| (open.to_owned(), close.to_owned()));
        ReasoningSplit { inner: Mutex::new(inner), markers }
    }

    fn with<T: Send>(&self, py: Python<'_>, work: impl FnOnce(&mut Split) -> T + Send) -> T {
        py.detach(|| work(&mut self.inner.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

#[pymethods]
impl ReasoningSplit {
    /// Whether the reasoning is over, or the reply has none.
    #[getter]
    fn over(&self, py: Python<'_>) -> bool {
        self.with(py, |split| split.is_over())
    }

    /// The texts that open and close reasoning, such as `("<think>", "</think>")`, or None if the replies
    /// have no reasoning.
    #[getter]
    fn markers(&self) -> Option<(&str, &str)> {
        self.markers.as_ref().map(|(open, close)| (open.as_str(), close.as_str()))
    }

    /// Takes the next text, and returns the reasoning, the text after the reasoning, and the reasoning as
    /// the model wrote it, with its markers.
    #[pyo3(signature = (text, /))]
    fn push(&self, text: &Bound<'_, PyAny>) -> PyResult<(String, String, String)> {
        let chunk = input::argument(text, "text")?;
        Ok(self.with(text.py(), |split| {
            let mut reasoning = String::new();
            let SplitText { raw, rest } = split.push(&chunk, &mut |text| reasoning.push_str(text));
            (reasoning, rest, raw)
        }))
    }

    /// Ends the reply, and returns what was held back, as `push` does.
    #[pyo3(signature = (finish_reason=None), text_signature = "($self, finish_reason='stop')")]
    fn finish(&self, py: Python<'_>, finish_reason: Option<&Bound<'_, PyAny>>) -> PyResult<(String, String, String)> {
        let stop = stop_of(py, finish_reason)?;
        Ok(self.with(py, |split| {
            let mut reasoning = String::new();
            let SplitText { raw, rest } = split.finish(stop, &mut |text| reasoning.push_str(text));
            (reasoning, rest, raw)
        }))
    }
}
