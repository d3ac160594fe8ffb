use numpy::{PyArray1, PyArray2};
use pyo3::prelude::*;

/// The token ids of a prompt, each with the bytes that it covers.
///
/// `Model.encode` and `Prompt.encode` return it. `len` is the number of tokens.
///
/// >>> model = rolecall.load("path/to/model")
/// >>> encoded = model.encode([{"role": "user", "content": "Hi<|im_end|>"}])
/// >>> encoded.ids.dtype, encoded.ids.shape == (len(encoded),)
/// (dtype('uint32'), True)
/// >>> int(encoded.control.sum())
/// 3
#[pyclass(frozen, module = "rolecall")]
pub struct Encoded {
    inner: rolecall::Encoded,
}

impl Encoded {
    pub fn new(inner: rolecall::Encoded) -> Encoded {
        Encoded { inner }
    }
}

#[pymethods]
impl Encoded {
    /// The ids: an array of uint32, of shape (tokens,).
    #[getter]
    fn ids<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u32>> {
        PyArray1::from_vec(py, self.inner.ids())
    }

    /// The bytes of the prompt that each token covers, as start and end: an array of uint64, of shape
    /// (tokens, 2). Positions are in bytes of the prompt's UTF-8 text.
    #[getter]
    fn spans<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<u64>>> {
        let ends = self.inner.tokens.iter().flat_map(|token| [token.start as u64, token.end as u64]);
        let flat = PyArray1::from_vec(py, ends.collect());
        numpy::PyArrayMethods::reshape(&flat, [self.inner.tokens.len(), 2])
    }

    /// Whether each token is a control token: an array of bool, of shape (tokens,).
    #[getter]
    fn control<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<bool>> {
        PyArray1::from_vec(py, self.inner.tokens.iter().map(|token| token.control).collect())
    }

    /// Possible problems at the ends of the prompt.
    #[getter]
    fn notes(&self) -> Vec<String> {
        self.inner.notes.iter().map(ToString::to_string).collect()
    }

    fn __len__(&self) -> usize {
        self.inner.tokens.len()
    }

    fn __repr__(&self) -> String {
        format!("Encoded({} tokens)", self.inner.tokens.len())
    }
}
