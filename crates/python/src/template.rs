use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use rolecall::format::write_reply;
use rolecall::template::{ModelTemplates, NamedTemplate, TemplateOptions, analyze_template, infer_layouts};
use rolecall::{Error, answer};

use crate::model::Model;
use crate::{error, input, output};

/// A model's chat templates: one, or several by name. `ChatTemplate(source)` takes the source text;
/// `from_file` reads a `.jinja` file, a `tokenizer_config.json`, a model's folder or a GGUF file.
///
/// >>> import rolecall
/// >>> template = rolecall.ChatTemplate("{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}")
/// >>> template.prompt([{"role": "user", "content": "Hi"}]).text
/// '<user>Hi'
/// >>> template.analyze()["supports"]["system"]
/// True
#[pyclass(frozen, module = "rolecall")]
pub struct ChatTemplate {
    model: Py<Model>,
}

impl ChatTemplate {
    /// Returns the templates of a model that has some.
    pub fn of(model: &Bound<'_, Model>) -> Option<ChatTemplate> {
        model.get().inner().templates().map(|_| ChatTemplate { model: model.clone().unbind() })
    }

    fn templates<'py>(&'py self, py: Python<'py>) -> PyResult<&'py ModelTemplates> {
        // Only models with templates become one.
        self.model.get().inner().templates().ok_or_else(|| error::of(py, &Error::NoFormat))
    }

    fn chosen<'py>(&'py self, py: Python<'py>, name: Option<&str>) -> PyResult<&'py NamedTemplate> {
        let chosen = self.templates(py)?.choose(name, false);
        chosen.map_err(|why| error::of(py, &Error::NoTemplate(why)))
    }

    fn with(
        py: Python<'_>,
        name: &str,
        value: Bound<'_, PyAny>,
        tokens: [(&str, Option<&Bound<'_, PyAny>>); 2],
    ) -> PyResult<Self> {
        let parts = PyDict::new(py);
        parts.set_item(name, value)?;
        for (name, token) in tokens {
            let token = token.map(|token| input::argument(token, name)).transpose()?;
            parts.set_item(name, token)?;
        }
        let model = py.get_type::<Model>().call((), Some(&parts))?.cast_into::<Model>()?;
        Ok(ChatTemplate { model: model.unbind() })
    }
}

#[pymethods]
impl ChatTemplate {
    #[new]
    #[pyo3(signature = (source, *, bos_token=None, eos_token=None))]
    fn new(
        py: Python<'_>,
        source: Bound<'_, PyAny>,
        bos_token: Option<&Bound<'_, PyAny>>,
        eos_token: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<ChatTemplate> {
        ChatTemplate::with(py, "chat_template", source, [("bos_token", bos_token), ("eos_token", eos_token)])
    }

    /// Reads the templates of a file or folder, with the special tokens that its files name.
    #[staticmethod]
    #[pyo3(signature = (path, *, bos_token=None, eos_token=None))]
    fn from_file(
        py: Python<'_>,
        path: Bound<'_, PyAny>,
        bos_token: Option<&Bound<'_, PyAny>>,
        eos_token: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<ChatTemplate> {
        ChatTemplate::with(py, "template", path, [("bos_token", bos_token), ("eos_token", eos_token)])
    }

    #[staticmethod]
    fn _of(model: &Bound<'_, Model>) -> PyResult<ChatTemplate> {
        ChatTemplate::of(model).ok_or_else(|| error::of(model.py(), &Error::NoFormat))
    }

    /// The source text of the template that conversations without tools are rendered with.
    #[getter]
    fn source<'py>(&'py self, py: Python<'py>) -> PyResult<&'py str> {
        Ok(&self.chosen(py, None)?.source)
    }

    /// The source texts by name. A template without a name is `default`.
    #[getter]
    fn sources<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let sources = PyDict::new(py);
        for named in &self.templates(py)?.templates {
            sources.set_item(&named.name, &named.source)?;
        }
        Ok(sources)
    }

    /// The special tokens that the templates may name, such as `bos_token`, by name.
    #[getter]
    fn tokens<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let tokens = PyDict::new(py);
        for (name, text) in &self.templates(py)?.tokens {
            tokens.set_item(name, text)?;
        }
        Ok(tokens)
    }

    /// Analyzes a template: what it supports, which switches it has, what it reads, and what is
    /// dangerous about it, as a dict like `rolecall template --json` writes for it. Raises
    /// `TokenizerError` if the model's tokenizer cannot be loaded.
    #[pyo3(signature = (name=None))]
    fn analyze(&self, py: Python<'_>, name: Option<&str>) -> PyResult<Py<PyAny>> {
        let (model, templates) = (self.model.get().inner(), self.templates(py)?);
        let named = self.chosen(py, name)?;
        let analyzed = py.detach(|| {
            let template = named.compile(&templates.tokens)?;
            let mut analysis = analyze_template(&template, &TemplateOptions::default())?;
            let adds_bos = match templates.adds_bos {
                None if model.has_tokenizer() => Some(model.tokenizer()?.adds_bos().is_some()),
                known => known,
            };
            if let Some(adds_bos) = adds_bos {
                analysis.note_tokenizer(adds_bos);
            }
            Ok::<_, Error>(answer::of_analysis(named, &analysis))
        });
        output::object(py, &analyzed.map_err(|error| error::of(py, &error))?)
    }

    /// Infers how the template writes an assistant's turn, and returns the layouts as the text of a
    /// format file, by which replies are parsed.
    #[pyo3(signature = (name=None))]
    fn layout(&self, py: Python<'_>, name: Option<&str>) -> PyResult<String> {
        let (model, templates) = (self.model.get().inner(), self.templates(py)?);
        let named = self.chosen(py, name)?;
        let layouts = py.detach(|| {
            let template = named.compile(&templates.tokens)?;
            let tokens = || model.decoder().map(|decoder| decoder.markers()).unwrap_or_default();
            Ok::<_, rolecall::render::Error>(write_reply(&infer_layouts(&template, tokens)?.format))
        });
        layouts.map_err(|error| error::of(py, &error.into()))
    }

    /// Renders a conversation, with the arguments of `Model.prompt`.
    #[pyo3(signature = (*arguments, **switches))]
    fn prompt<'py>(
        &self,
        py: Python<'py>,
        arguments: &Bound<'py, PyTuple>,
        switches: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.model.bind(py).getattr("prompt")?.call(arguments, switches)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let restore = py.get_type::<ChatTemplate>().getattr("_of")?;
        Ok((restore, PyTuple::new(py, [self.model.clone_ref(py)])?))
    }

    fn __copy__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __deepcopy__<'py>(slf: Bound<'py, Self>, _memo: &Bound<'py, PyAny>) -> Bound<'py, Self> {
        slf
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let names: Vec<&str> = self.templates(py)?.templates.iter().map(|named| named.name.as_str()).collect();
        Ok(format!("ChatTemplate({})", names.join(", ")))
    }
}

#[pymethods]
impl Model {
    /// The chat templates that render its prompts, or None if a format does.
    #[getter]
    fn template(slf: &Bound<'_, Self>) -> Option<ChatTemplate> {
        ChatTemplate::of(slf)
    }
}
