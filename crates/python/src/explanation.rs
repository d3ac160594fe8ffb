use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use rolecall::explain::Paint;
use rolecall::loss::LossPolicy;
use rolecall::model::Purpose;

use crate::error;
use crate::input::{self, Path};
use crate::model::Model;
use crate::request::request;

/// Where every piece of a prompt comes from: the origin of every byte, the tokens, and the places where
/// the conversation spells a control token.
///
/// `print` draws it for the terminal, with colors if the output is one and the environment variable
/// `NO_COLOR` is not set. A notebook shows it as HTML.
///
/// >>> import rolecall
/// >>> explanation = rolecall.load("chatml").explain([{"role": "user", "content": "Hi"}])
/// >>> print(explanation.text(color=False).splitlines()[0])
/// 0 user     │ ⟦<|im_start|>⟧user⏎
/// >>> explanation.to_dict()["prompt"]
/// '<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n'
#[pyclass(frozen, module = "rolecall")]
pub struct Explanation {
    inner: rolecall::explain::Explanation,
    model: Py<Model>,
}

impl Explanation {
    pub fn new(inner: rolecall::explain::Explanation, model: Py<Model>) -> Explanation {
        Explanation { inner, model }
    }
}

#[pymethods]
impl Explanation {
    /// Returns the drawing for a terminal: with ANSI colors, and without wrapping unless `width` is a number of
    /// columns.
    #[pyo3(signature = (*, color=true, width=None))]
    fn text(&self, py: Python<'_>, color: bool, width: Option<&Bound<'_, PyAny>>) -> PyResult<String> {
        let width = width.map(|width| input::count("width", width)).transpose()?;
        Ok(py.detach(|| self.inner.draw_terminal(Paint { colored: color }, width)))
    }

    /// Returns the drawing as an HTML page of its own, without scripts, fonts or network access. All
    /// text of the conversation in it is escaped.
    fn html(&self, py: Python<'_>) -> String {
        let name = self.model.get().inner().name();
        py.detach(|| self.inner.draw_html(name))
    }

    /// Returns everything as a dict, as `rolecall explain --json` writes it.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let written = py.detach(|| self.inner.write_json());
        py.import("json")?.call_method1("loads", (written,))
    }

    /// Pickles the prompt with its model, of which the explanation is made again.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let (py, own) = (slf.py(), slf.get());
        let saved = py.detach(|| own.inner.prompt.save());
        let arguments = (own.model.clone_ref(py), saved, own.inner.loss.is_some()).into_pyobject(py)?;
        Ok((slf.get_type().getattr("_of_prompt")?, arguments))
    }

    #[staticmethod]
    fn _of_prompt(model: &Bound<'_, Model>, saved: &Bound<'_, PyAny>, mask: bool) -> PyResult<Explanation> {
        let saved = input::text(saved, &mut Path::of("saved"))?;
        let (py, inner) = (model.py(), model.get().inner());
        let policy = mask.then(LossPolicy::default);
        let explanation = py.detach(|| inner.restore_prompt(&saved)?.explain(policy.as_ref()));
        let explanation = explanation.map_err(|error| error::of(py, &error))?;
        Ok(Explanation::new(explanation, model.clone().unbind()))
    }

    fn __str__(&self, py: Python<'_>) -> PyResult<String> {
        let looks = py.import("rolecall._drawing")?.call_method0("looks")?;
        let (color, width): (bool, Option<usize>) = looks.extract()?;
        Ok(py.detach(|| self.inner.draw_terminal(Paint { colored: color }, width)))
    }

    fn _repr_html_<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let rows = self.inner.prompt.text().lines().count();
        py.import("rolecall._drawing")?.call_method1("frame", (self.html(py), rows))
    }

    fn __repr__(&self) -> String {
        format!("<Explanation of {} characters>", self.inner.prompt.text().chars().count())
    }
}

#[pymethods]
impl Model {
    /// Explains where every piece of a prompt comes from: the origin of every byte, the tokens, and the
    /// places where the conversation spells a control token. With `mask`, the conversation is rendered
    /// as a text to train on, and the text that carries loss is shown. A model without a tokenizer shows
    /// no tokens.
    ///
    /// >>> model = rolecall.load("path/to/model")
    /// >>> print(model.explain([{"role": "user", "content": "<|im_end|>"}]).text(color=False).splitlines()[-1])
    /// spelled message 0 spells `<|im_end|>`: it stays text
    #[pyo3(signature = (messages, *, tools=None, documents=None, add_generation_prompt=None, continue_final_message=None, mask=false, **switches))]
    #[expect(clippy::too_many_arguments, reason = "each is a keyword argument in Python")]
    fn explain(
        slf: &Bound<'_, Self>,
        messages: &Bound<'_, PyAny>,
        tools: Option<&Bound<'_, PyAny>>,
        documents: Option<&Bound<'_, PyAny>>,
        add_generation_prompt: Option<bool>,
        continue_final_message: Option<bool>,
        mask: bool,
        switches: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Explanation> {
        let opens = add_generation_prompt.or(mask.then_some(false));
        let flags = [("add_generation_prompt", opens), ("continue_final_message", continue_final_message)];
        let request = request(slf.get().inner(), messages, tools, documents, flags, switches)?;
        let py = messages.py();
        let purpose = if mask { Purpose::Training } else { Purpose::Answer };
        let policy = mask.then(LossPolicy::default);
        let inner = slf.get().inner();
        let explanation = py.detach(|| inner.prompt_for(request, purpose)?.explain(policy.as_ref()));
        let explanation = explanation.map_err(|error| error::of(py, &error))?;
        Ok(Explanation::new(explanation, slf.clone().unbind()))
    }
}
