use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyList;
use rolecall::conversation::Json;

use crate::output;

/// An attribute that is converted when it is first read.
pub struct Once(PyOnceLock<Py<PyAny>>);

impl Default for Once {
    fn default() -> Once {
        Once(PyOnceLock::new())
    }
}

impl Once {
    /// Returns the attribute.
    pub fn get(&self, py: Python<'_>, make: impl FnOnce() -> PyResult<Py<PyAny>>) -> PyResult<Py<PyAny>> {
        Ok(self.0.get_or_try_init(py, make)?.clone_ref(py))
    }

    /// Returns the attribute if it was read before.
    pub fn known(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.0.get(py).map(|known| known.clone_ref(py))
    }

    /// Returns an array. It cannot be written, since every reader gets the same one.
    pub fn array<T: numpy::Element>(&self, py: Python<'_>, make: impl FnOnce() -> Vec<T>) -> PyResult<Py<PyAny>> {
        self.get(py, || read_only(py, make()))
    }

    /// Returns a list.
    pub fn list(&self, py: Python<'_>, make: impl Iterator<Item = Json>) -> PyResult<Py<PyAny>> {
        self.get(py, || {
            let items: Vec<_> = make.map(|item| output::object(py, &item)).collect::<PyResult<_>>()?;
            Ok(PyList::new(py, items)?.into_any().unbind())
        })
    }
}

/// Returns an array.
pub fn array<T: numpy::Element>(py: Python<'_>, values: Vec<T>) -> PyResult<Bound<'_, PyArray1<T>>> {
    prepare(py)?;
    Ok(PyArray1::from_vec(py, values))
}

/// Imports numpy, before the first array. numpy's bindings panic if an interrupt or another error
/// ends the import; here it is raised.
pub fn prepare(py: Python<'_>) -> PyResult<()> {
    static PREPARED: PyOnceLock<()> = PyOnceLock::new();
    let prepare = || {
        py.check_signals()?;
        py.import("numpy.lib")?;
        py.check_signals()?;
        PyArray1::from_vec(py, vec![0_u8]);
        Ok::<_, PyErr>(())
    };
    PREPARED.get_or_try_init(py, prepare)?;
    Ok(())
}

/// Returns an array that cannot be written.
pub fn read_only<T: numpy::Element>(py: Python<'_>, values: Vec<T>) -> PyResult<Py<PyAny>> {
    let array = array(py, values)?;
    array.getattr("flags")?.setattr("writeable", false)?;
    Ok(array.into_any().unbind())
}
