use std::path::Path;
use std::sync::{PoisonError, RwLock};

use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};
use rolecall::answer;
use rolecall::conversation::Json;
use rolecall::format::{self, NameClash};
use rolecall::identify::{Clues, identify, read_folder};

use crate::error::{self, Fault};
use crate::format::{Format, Origin, unreadable};
use crate::{input, output};

/// The known formats: the built-in ones, and those of the files and folders that are added. Raises
/// `FormatError` for a file with errors.
///
/// >>> import rolecall
/// >>> registry = rolecall.Registry()
/// >>> "chatml" in registry, len(registry) > 100
/// (True, True)
/// >>> registry.find("internlm/internlm2-chat-7b").name
/// 'internlm2'
#[pyclass(frozen, module = "rolecall")]
pub struct Registry {
    inner: RwLock<Inner>,
}

struct Inner {
    formats: format::Registry,
    /// The texts of the formats that were added, by the name of the format, with the file's name.
    added: Vec<(String, String, String)>,
}

impl Inner {
    fn format(&self, name: &str) -> Option<Format> {
        let format = self.formats.find(name).cloned()?;
        let added = self.added.iter().rev().find(|(own, ..)| *own == format.name);
        let origin = match added {
            Some((_, file, text)) => Origin::Text { file: file.clone(), text: text.clone() },
            None => Origin::Builtin,
        };
        Some(Format::new(format, origin))
    }

    /// Adds a format. No Python runs in here: its lock is held, and another thread may wait for it.
    fn add(&mut self, format: &Format, replace: bool) -> Result<(), NameClash> {
        let own = format.inner().clone();
        let name = own.name.clone();
        match replace {
            true => self.formats.replace(own),
            false => self.formats.add(own)?,
        };
        if let Origin::Text { file, text } = format.origin() {
            self.added.push((name, file.clone(), text.clone()));
        }
        Ok(())
    }
}

#[pymethods]
impl Registry {
    #[new]
    #[pyo3(signature = (*paths, replace=false))]
    fn new(paths: &Bound<'_, PyTuple>, replace: bool) -> PyResult<Registry> {
        let py = paths.py();
        let registry = Registry::builtin(py);
        for path in paths.iter() {
            registry.add_path(py, &input::path("paths", &path)?, replace)?;
        }
        Ok(registry)
    }

    #[staticmethod]
    fn _of(py: Python<'_>, added: Vec<(String, String, String)>) -> PyResult<Registry> {
        let registry = Registry::builtin(py);
        for (_, file, text) in added {
            let format = Format::read(py, file, text)?;
            registry.add_format(py, &format, true)?;
        }
        Ok(registry)
    }

    /// Adds a format: a `Format`, a format file, or a folder of `.toml` files. Unless `replace` is set,
    /// its names must not be taken.
    #[pyo3(signature = (format_or_path, *, replace=false))]
    fn add(&self, py: Python<'_>, format_or_path: &Bound<'_, PyAny>, replace: bool) -> PyResult<()> {
        match format_or_path.cast::<Format>() {
            Ok(format) => self.add_format(py, format.get(), replace),
            Err(_) => self.add_path(py, &input::path("format_or_path", format_or_path)?, replace),
        }
    }

    /// Returns the format of a name, or `default`.
    #[pyo3(signature = (name, default=None))]
    fn get(&self, py: Python<'_>, name: &Bound<'_, PyAny>, default: Option<Py<PyAny>>) -> PyResult<Option<Py<PyAny>>> {
        let name = input::text(name, &mut input::Path::of("name"))?;
        let found = self.read().format(&name);
        match found {
            Some(format) => Ok(Some(format.into_pyobject(py)?.into_any().unbind())),
            None => Ok(default),
        }
    }

    /// Returns the format that a model needs, by its name or its folder. Raises `FormatError` if it
    /// cannot be told.
    fn find(&self, model: &Bound<'_, PyAny>) -> PyResult<Format> {
        let (name, _) = self.identified(model.py(), &input::path("model", model)?)?;
        let format = self.read().format(&name);
        format.ok_or_else(|| PyKeyError::new_err(name))
    }

    /// Returns which format a model needs and why, as a dict like `rolecall formats --model --json`
    /// writes.
    fn identify(&self, model: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let py = model.py();
        output::object(py, &self.identified(py, &input::path("model", model)?)?.1)
    }

    /// Returns the names in order.
    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.read().formats.iter().map(|format| format.name.clone()).collect();
        names.sort();
        names
    }

    fn __getitem__(&self, name: &Bound<'_, PyAny>) -> PyResult<Format> {
        let name = input::text(name, &mut input::Path::of("name"))?;
        let format = self.read().format(&name);
        format.ok_or_else(|| PyKeyError::new_err(name))
    }

    fn __contains__(&self, name: &Bound<'_, PyAny>) -> bool {
        let name = name.cast::<PyString>().ok().and_then(|name| name.extract::<String>().ok());
        name.is_some_and(|name| self.read().formats.find(&name).is_some())
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.names().into_pyobject(py)?.try_iter()?.into_any())
    }

    fn __len__(&self) -> usize {
        self.read().formats.iter().count()
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let restore = py.get_type::<Registry>().getattr("_of")?;
        let added = self.read().added.clone();
        Ok((restore, (added,).into_pyobject(py)?))
    }

    fn __repr__(&self) -> String {
        format!("Registry({} formats)", self.__len__())
    }
}

impl Registry {
    /// Returns the formats that come with rolecall.
    fn builtin(py: Python<'_>) -> Registry {
        let formats = py.detach(format::registry);
        Registry { inner: RwLock::new(Inner { formats, added: Vec::new() }) }
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Inner> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, Inner> {
        self.inner.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn add_format(&self, py: Python<'_>, format: &Format, replace: bool) -> PyResult<()> {
        let added = self.write().add(format, replace);
        added.map_err(|clash| {
            let help = Some("rename the format, or pass `replace=True`".to_owned());
            let message = clash.to_string();
            Fault { class: "FormatError", code: "name_clash", message, place: None, help }.raise(py)
        })
    }

    fn add_path(&self, py: Python<'_>, path: &Path, replace: bool) -> PyResult<()> {
        let mut files = vec![path.to_path_buf()];
        if path.is_dir() {
            let shown = path.display().to_string();
            let listed = std::fs::read_dir(path).and_then(Iterator::collect::<std::io::Result<Vec<_>>>);
            let listed = listed.map_err(|error| unreadable(py, &shown, &error.to_string()))?;
            files = listed.into_iter().map(|entry| entry.path()).collect();
            files.retain(|file| file.extension().is_some_and(|extension| extension == "toml"));
            files.sort();
        }
        for file in files {
            let format = Format::open(py, file)?;
            self.add_format(py, &format, replace)?;
        }
        Ok(())
    }

    /// Returns the name of the format that a model needs, and everything about it.
    fn identified(&self, py: Python<'_>, model: &Path) -> PyResult<(String, Json)> {
        let formats = self.read().formats.clone();
        let found = py.detach(|| {
            let mut clues = Clues { name: model.display().to_string(), folder: None };
            if model.is_dir() {
                clues.folder = Some(read_folder(model).map_err(rolecall::Error::File)?);
                // `.` and `..` have no name.
                let named = model.file_name().is_none().then(|| model.canonicalize().ok()).flatten();
                clues.name = named.map_or(clues.name, |path| path.display().to_string());
            }
            let identified = identify(&clues, &formats);
            Ok(identified.map(|found| (found.format.name.clone(), answer::of_model(&clues, &found))))
        });
        let found = found.map_err(|error| error::of(py, &error))?;
        found.map_err(|error| {
            let help = Some(error.help().join("\n")).filter(|help| !help.is_empty());
            Fault { class: "FormatError", code: error.code(), message: error.to_string(), place: None, help }.raise(py)
        })
    }
}
