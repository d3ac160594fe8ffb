use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use rolecall::model::ModelPrompt;
use rolecall::{Segment, answer};

use crate::encoded::Encoded;
use crate::grammar::{self, Grammar};
use crate::input::{self, Path};
use crate::model::Model;
use crate::parser::{self, OutputParser};
use crate::request::request;
use crate::{error, output, policies};

/// A rendered request. Every byte of its text has an origin.
///
/// `Model.prompt` returns it, and `str` gives its text. A pickle holds the model and the request, with the
/// time that the chat template saw: the copy has the same text at any time.
///
/// >>> prompt = rolecall.load("path/to/model").prompt([{"role": "user", "content": "Hi"}])
/// >>> prompt.text
/// '<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n'
/// >>> prompt.segments()[3]
/// {'text': 'Hi', 'start': 17, 'origin': {'message': 0, 'field': 'content'}}
#[pyclass(frozen, module = "rolecall")]
pub struct Prompt {
    inner: Arc<ModelPrompt>,
    model: Py<Model>,
}

impl Prompt {
    pub fn new(model: Py<Model>, inner: ModelPrompt) -> Prompt {
        Prompt { inner: Arc::new(inner), model }
    }
}

#[pymethods]
impl Prompt {
    /// The text. `segments` and `Encoded.spans` count in bytes of its UTF-8.
    #[getter]
    fn text(&self) -> &str {
        self.inner.text()
    }

    /// The pieces of the text in order, as dicts: `text`, `start` in bytes, and `origin`, as the command
    /// writes it: `"control"`, `"format"`, `{"message": 0, "field": "content"}`, `{"tool": 0}`,
    /// `{"document": 0}` or `{"option": "name"}`.
    fn segments<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let dict = |segment: Segment<'_>| {
            let dict = PyDict::new(py);
            dict.set_item("text", segment.text)?;
            dict.set_item("start", segment.start)?;
            dict.set_item("origin", output::object(py, &answer::of_origin(&segment.origin))?)?;
            Ok(dict)
        };
        self.inner.prompt().segments().map(dict).collect()
    }

    /// What became of each part of the request, as the command's `account`: `counts` by kind ("written",
    /// "written_in_part", "changed", "read", "dropped_by_design", "left_out"), and the `leaves` that are not
    /// in the prompt as they were given, each a dict.
    ///
    /// >>> messages = [{"role": "user", "content": "Hi", "label": "greeting"}]
    /// >>> account = rolecall.load("path/to/model").prompt(messages).account
    /// >>> [(leaf["kind"], leaf["field"]) for leaf in account["leaves"]]
    /// [('left_out', 'label')]
    #[getter]
    fn account(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        // It is determined when it is first read, which may take the GIL for a template's code.
        output::object(py, &py.detach(|| answer::of_account(self.inner.account())))
    }

    /// Returns the token ids. Raises `TokenizerError` if the model has no tokenizer.
    pub fn encode(&self, py: Python<'_>) -> PyResult<Encoded> {
        let encoded = py.detach(|| self.inner.encode()).map_err(|error| error::of(py, &error))?;
        Ok(Encoded::new(encoded, Arc::clone(&self.inner), None))
    }

    /// Returns a parser for the reply, which arrives in pieces. The arguments are those of
    /// `Model.parser`.
    #[pyo3(signature = (*, policies=None, completion=None))]
    fn parser(
        &self,
        py: Python<'_>,
        policies: Option<&Bound<'_, PyAny>>,
        completion: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<OutputParser> {
        let policies = policies::policies(policies)?;
        let completion = completion.map(parser::completion).transpose()?;
        let context = py.detach(|| self.inner.reply_context(policies)).map_err(|error| error::of(py, &error))?;
        Ok(OutputParser::new(context, completion))
    }

    /// Returns a grammar of what an engine may sample as the reply. The arguments are those of
    /// `Model.grammar`.
    #[pyo3(signature = (*, tool_choice=None, parallel_tool_calls=true, reasoning=None, answer_schema=None))]
    fn grammar(
        &self,
        py: Python<'_>,
        tool_choice: Option<&Bound<'_, PyAny>>,
        parallel_tool_calls: bool,
        reasoning: Option<&Bound<'_, PyAny>>,
        answer_schema: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Grammar> {
        let options = grammar::options(py, tool_choice, parallel_tool_calls, reasoning, answer_schema)?;
        let made = py.detach(|| self.inner.reply()?.grammar(options)).map_err(|error| error::of(py, &error))?;
        Ok(Grammar::new(made))
    }

    /// Pickles the prompt with its model.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let (py, prompt) = (slf.py(), slf.get());
        let saved = py.detach(|| prompt.inner.save());
        let restore = slf.get_type().getattr("_restore")?;
        Ok((restore, (prompt.model.clone_ref(py), saved).into_pyobject(py)?))
    }

    /// Renders the prompt that was pickled. Raises `RequestError` if it is damaged.
    #[staticmethod]
    fn _restore(model: &Bound<'_, Model>, saved: &Bound<'_, PyAny>) -> PyResult<Prompt> {
        let saved = input::text(saved, &mut Path::of("saved"))?;
        let (py, inner) = (model.py(), model.get().inner());
        let restored = py.detach(|| inner.restore_prompt(&saved)).map_err(|error| error::of(py, &error))?;
        Ok(Prompt::new(model.clone().unbind(), restored))
    }

    // A prompt does not change.
    fn __copy__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __deepcopy__<'py>(slf: Bound<'py, Self>, _memo: &Bound<'py, PyAny>) -> Bound<'py, Self> {
        slf
    }

    fn __str__(&self) -> &str {
        self.inner.text()
    }

    fn __repr__(&self) -> String {
        format!("Prompt({:?})", self.inner.text())
    }
}

#[pymethods]
impl Model {
    /// Renders a conversation: its text, and the origin of every byte.
    ///
    /// `messages` is a list of dicts, dataclasses or pydantic models in the shape of OpenAI's API, as are
    /// `tools` and `documents`. By default the generation prompt is added unless the last message is the
    /// assistant's. `continue_final_message` leaves the last message open, so that the model continues
    /// it. `switches` are what a chat template reads besides, for example `enable_thinking`.
    ///
    /// Raises `RequestError` for messages that cannot be read, `RenderError` if the format refuses the
    /// conversation, and `TemplateError` if the template does.
    ///
    /// >>> rolecall.load("chatml").prompt([{"role": "user", "content": "Hi"}]).text
    /// '<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n'
    #[pyo3(signature = (messages, *, tools=None, documents=None, add_generation_prompt=None, continue_final_message=None, **switches))]
    pub fn prompt(
        slf: &Bound<'_, Self>,
        messages: &Bound<'_, PyAny>,
        tools: Option<&Bound<'_, PyAny>>,
        documents: Option<&Bound<'_, PyAny>>,
        add_generation_prompt: Option<bool>,
        continue_final_message: Option<bool>,
        switches: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Prompt> {
        let flags =
            [("add_generation_prompt", add_generation_prompt), ("continue_final_message", continue_final_message)];
        let py = messages.py();
        let inner = slf.get().inner();
        let request = request(inner, messages, tools, documents, flags, switches)?;
        let prompt = py.detach(|| inner.prompt(request)).map_err(|error| error::of(py, &error))?;
        Ok(Prompt::new(slf.clone().unbind(), prompt))
    }
}
