use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict, PyTuple};
use rolecall::conversation::Json;
use rolecall::format::{self, LoadError, builtin_sources, read, registry, reply_files};
use rolecall::{Error, answer};

use crate::error::{self, Fault};
use crate::model::Model;
use crate::{input, output};

/// A chat format: how the conversations of a family of models are written, as data. `Format(name)` is
/// a built-in one, and `Format(fields)` the template of another framework as a dict. Raises `FormatError`
/// if there is none of this name, or for a mistake in the fields.
///
/// >>> import rolecall
/// >>> chatml = rolecall.Format("chatml")
/// >>> chatml.stop
/// ['<|im_end|>']
/// >>> rolecall.Format.from_text('{"INSTRUCTION": "Q: {input} A:"}', "mine.json").name
/// 'mine'
/// >>> rolecall.Format(dict(INSTRUCTION="Q: {input} A:", SUFFIX="<eoa>", STOP_WORDS=["<eoa>"])).stop
/// ['<eoa>', '</s>']
#[pyclass(frozen, module = "rolecall")]
pub struct Format {
    inner: Arc<format::Format>,
    origin: Origin,
}

/// Where a format comes from, which is what is pickled.
pub enum Origin {
    Builtin,
    Text { file: String, text: String },
    Model(Py<Model>),
}

impl Format {
    pub fn new(inner: impl Into<Arc<format::Format>>, origin: Origin) -> Format {
        Format { inner: inner.into(), origin }
    }

    /// Reads the text of a format file.
    pub fn read(py: Python<'_>, file: String, text: String) -> PyResult<Format> {
        let inner = py.detach(|| read(&file, &text)).map_err(|error| of_mistakes(py, &file, &error))?;
        Ok(Format::new(inner, Origin::Text { file, text }))
    }

    /// Reads a format file.
    pub fn open(py: Python<'_>, path: PathBuf) -> PyResult<Format> {
        let shown = path.display().to_string();
        let path = path.to_str().map_or(path.clone(), |named| PathBuf::from(format::file_of(named).0));
        let text = py.detach(|| std::fs::read(&path)).map_err(|error| unreadable(py, &shown, &error.to_string()))?;
        let text = String::from_utf8(text).map_err(|_| unreadable(py, &shown, "it is not UTF-8"))?;
        Format::read(py, shown, text.trim_start_matches('\u{feff}').to_owned())
    }

    pub fn inner(&self) -> &Arc<format::Format> {
        &self.inner
    }

    pub fn origin(&self) -> &Origin {
        &self.origin
    }
}

/// Returns the exception for a file that cannot be read.
pub fn unreadable(py: Python<'_>, file: &str, why: &str) -> PyErr {
    let message = format!("cannot read `{file}`: {why}");
    Fault { class: "FormatError", code: "model_unreadable", message, place: None, help: None }.raise(py)
}

fn of_mistakes(py: Python<'_>, file: &str, error: &LoadError) -> PyErr {
    let help = error.diagnostics.first().and_then(|diagnostic| diagnostic.help.clone());
    let message = format!("{file}: {error}");
    Fault { class: "FormatError", code: "bad_format", message, place: None, help }.raise(py)
}

/// Returns the built-in format of a name.
pub fn builtin(py: Python<'_>, name: &str) -> PyResult<Format> {
    let found = py.detach(|| {
        let registry = registry();
        let format = registry.find(name).cloned();
        format.ok_or_else(|| Error::UnknownFormat {
            name: name.to_owned(),
            near: registry.suggest(name).map(str::to_owned),
        })
    });
    let format = found.map_err(|error| error::of(py, &error))?;
    Ok(Format::new(format, Origin::Builtin))
}

#[pymethods]
impl Format {
    #[new]
    fn new_of(py: Python<'_>, name: &Bound<'_, PyAny>) -> PyResult<Format> {
        if name.is_instance_of::<PyDict>() {
            return Format::read(py, "template.json".to_owned(), input::dict(name, "name")?);
        }
        builtin(py, &input::text(name, &mut input::Path::of("name"))?)
    }

    /// Reads a format file: this project's own TOML, or the JSON or Python template of another
    /// framework.
    #[staticmethod]
    fn from_file(path: &Bound<'_, PyAny>) -> PyResult<Format> {
        Format::open(path.py(), input::path("path", path)?)
    }

    /// Reads the text of a format file. The file's name decides how it is read: `.toml`, `.json` or
    /// `.py`.
    #[staticmethod]
    #[pyo3(signature = (text, file=None), text_signature = "(text, file='format.toml')")]
    fn from_text(py: Python<'_>, text: &Bound<'_, PyAny>, file: Option<&Bound<'_, PyAny>>) -> PyResult<Format> {
        let file = file.map(|file| input::argument(file, "file")).transpose()?;
        let file = file.unwrap_or_else(|| "format.toml".to_owned());
        Format::read(py, file, input::text(text, &mut input::Path::of("text"))?)
    }

    /// The name that selects it.
    #[getter]
    fn name(&self) -> &str {
        &self.inner.name
    }

    /// The display name.
    #[getter]
    fn title(&self) -> &str {
        &self.inner.title
    }

    /// Other names that select it.
    #[getter]
    fn aliases(&self) -> Vec<String> {
        self.inner.aliases.clone()
    }

    /// The patterns of the names of the models that use it.
    #[getter]
    fn models(&self) -> Vec<&str> {
        self.inner.models.iter().map(|pattern| pattern.as_str()).collect()
    }

    /// The texts with which a reply ends.
    #[getter]
    fn stop(&self) -> Vec<&str> {
        self.inner.stops()
    }

    /// The ids with which a reply ends, as far as the format knows them.
    #[getter]
    fn stop_ids(&self) -> Vec<u32> {
        self.inner.stop_ids()
    }

    /// The control tokens, as dicts: `text`, `id` if known, `bos`, `ends_turn`, `spelled`.
    #[getter]
    fn controls(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.fact(py, "control")
    }

    /// The rules for the order of messages, by name.
    #[getter]
    fn rules(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.fact(py, "rules")
    }

    /// The options that a caller can set, as dicts: `name`, `default`, `help`, and `values` if only
    /// some are possible.
    #[getter]
    fn options(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.fact(py, "options")
    }

    /// The sampling defaults of the model's maker, by name.
    #[getter]
    fn sampling(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.fact(py, "generation")
    }

    /// All facts as a dict, with an example, like `rolecall formats NAME --json` writes.
    fn to_dict(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        output::object(py, &py.detach(|| answer::of_format(&self.inner)))
    }

    /// The text of its file, or None for a format of another framework's data.
    #[getter]
    fn source(&self) -> Option<&str> {
        match &self.origin {
            Origin::Text { text, .. } => Some(text),
            Origin::Builtin | Origin::Model(_) => {
                let file = format!("{}.toml", self.inner.name);
                let own = builtin_sources().iter().copied().chain(reply_files());
                own.into_iter().find(|(name, _)| *name == file || *name == self.inner.name).map(|(_, text)| text)
            }
        }
    }

    /// Returns the layouts of replies as the text of a format file, by which replies are parsed.
    fn reply_toml(&self) -> String {
        format::write_reply(&self.inner)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let own = py.get_type::<Format>();
        match &self.origin {
            Origin::Builtin => Ok((own.into_any(), PyTuple::new(py, [&self.inner.name])?)),
            Origin::Text { file, text } => Ok((own.getattr("from_text")?, PyTuple::new(py, [text, file])?)),
            Origin::Model(model) => {
                let get = py.import("builtins")?.getattr("getattr")?;
                Ok((get, (model.clone_ref(py), "format").into_pyobject(py)?))
            }
        }
    }

    fn __copy__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __deepcopy__<'py>(slf: Bound<'py, Self>, _memo: &Bound<'py, PyAny>) -> Bound<'py, Self> {
        slf
    }

    fn __repr__(&self) -> String {
        format!("Format({:?})", self.inner.name)
    }
}

impl Format {
    fn fact(&self, py: Python<'_>, name: &str) -> PyResult<Py<PyAny>> {
        let facts = py.detach(|| answer::of_format(&self.inner));
        output::object(py, facts.as_object().and_then(|facts| facts.get(name)).unwrap_or(&Json::Null))
    }
}

#[pymethods]
impl Model {
    /// The format that renders its prompts, or that its files were recognized as, or None.
    #[getter]
    fn format(slf: &Bound<'_, Self>) -> Option<Format> {
        let format = slf.get().inner().format()?.clone();
        Some(Format::new(format, Origin::Model(slf.clone().unbind())))
    }
}
