use std::sync::Arc;

use numpy::{PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;
use rolecall::encode::EncodedToken;
use rolecall::model::ModelPrompt;

use crate::once::{self, Once};

/// The token ids of a prompt, each with the bytes that it covers, its origin, and its loss weight.
///
/// `Model.encode` and `Prompt.encode` return it. `len` is the number of tokens. All arrays are read-only
/// and made once.
///
/// >>> model = rolecall.load("path/to/model")
/// >>> encoded = model.encode([{"role": "user", "content": "Hi<|im_end|>"}])
/// >>> encoded.ids.dtype, encoded.ids.shape == (len(encoded),)
/// (dtype('uint32'), True)
/// >>> int(encoded.control.sum())
/// 3
#[pyclass(frozen, module = "rolecall")]
pub struct Encoded {
    tokens: Vec<EncodedToken>,
    notes: Vec<String>,
    weights: Option<Vec<f32>>,
    prompt: Option<Arc<ModelPrompt>>,
    ids: Once,
    spans: Once,
    control: Once,
    origins: Once,
    weight_array: Once,
    mask: Once,
}

/// The loss of a prompt's tokens.
pub struct Weighed {
    pub weights: Vec<f32>,
    /// What may be wrong with the loss.
    pub notes: Vec<String>,
}

impl Encoded {
    pub fn new(encoded: rolecall::Encoded, prompt: Arc<ModelPrompt>, weighed: Option<Weighed>) -> Encoded {
        let mut notes: Vec<String> = encoded.notes.iter().map(ToString::to_string).collect();
        let weights = weighed.map(|weighed| {
            notes.extend(weighed.notes);
            weighed.weights
        });
        Encoded { weights, ..Encoded::of(encoded.tokens, notes, Some(prompt)) }
    }

    fn of(tokens: Vec<EncodedToken>, notes: Vec<String>, prompt: Option<Arc<ModelPrompt>>) -> Encoded {
        let new = Once::default;
        Encoded {
            tokens,
            notes,
            weights: None,
            prompt,
            ids: new(),
            spans: new(),
            control: new(),
            origins: new(),
            weight_array: new(),
            mask: new(),
        }
    }
}

/// Returns, for each token, the index of the segment in which it starts.
fn origins(prompt: &ModelPrompt, tokens: &[EncodedToken]) -> Vec<u32> {
    let ends: Vec<usize> = prompt.segments().map(|segment| segment.start + segment.text.len()).collect();
    let last = ends.len().saturating_sub(1);
    // A token of no bytes belongs to the segment that follows it.
    let of = |token: &EncodedToken| ends.partition_point(|end| *end <= token.start).min(last) as u32;
    tokens.iter().map(of).collect()
}

#[pymethods]
impl Encoded {
    /// The ids: an array of uint32, of shape (tokens,).
    #[getter]
    fn ids(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.ids.array(py, || self.tokens.iter().map(|token| token.id).collect())
    }

    /// The bytes of the prompt that each token covers, as start and end: an array of uint64, of shape
    /// (tokens, 2). Positions are in bytes of the prompt's UTF-8 text.
    #[getter]
    fn spans(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.spans.get(py, || {
            let ends = self.tokens.iter().flat_map(|token| [token.start as u64, token.end as u64]);
            let spans = once::array(py, ends.collect())?.reshape([self.tokens.len(), 2])?;
            spans.getattr("flags")?.setattr("writeable", false)?;
            Ok(spans.into_any().unbind())
        })
    }

    /// Whether each token is a control token: an array of bool, of shape (tokens,).
    #[getter]
    fn control(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.control.array(py, || self.tokens.iter().map(|token| token.control).collect())
    }

    /// The origin of each token, as the index of the segment of `Prompt.segments` in which it starts: an
    /// array of uint32, of shape (tokens,). None for a copy without origins.
    #[getter]
    fn origins(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        match &self.prompt {
            Some(prompt) => self.origins.array(py, || origins(prompt, &self.tokens)).map(Some),
            None => Ok(self.origins.known(py)),
        }
    }

    /// The loss weight of each token, 0 for none: an array of float32, of shape (tokens,). None unless
    /// `for_training` was passed.
    #[getter]
    fn weights(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let weights = self.weights.as_ref();
        weights.map(|weights| self.weight_array.array(py, || weights.clone())).transpose()
    }

    /// Whether each token carries loss: an array of uint8, 1 or 0, of shape (tokens,). None unless
    /// `for_training` was passed.
    #[getter]
    fn mask(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let weights = self.weights.as_ref();
        let mask = |weights: &Vec<f32>| weights.iter().map(|weight| u8::from(*weight > 0.0)).collect();
        weights.map(|weights| self.mask.array(py, || mask(weights))).transpose()
    }

    /// Possible problems: at the ends of the prompt, and of the loss.
    #[getter]
    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    fn __len__(&self) -> usize {
        self.tokens.len()
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let (py, encoded) = (slf.py(), slf.get());
        let (origins, weights) = (encoded.origins(py)?, encoded.weights(py)?);
        let arrays = (encoded.ids(py)?, encoded.spans(py)?, encoded.control(py)?, origins, weights);
        let (ids, spans, control, origins, weights) = arrays;
        let restore = slf.get_type().getattr("_of_arrays")?;
        let state = (ids, spans, control, origins, weights, encoded.notes.clone());
        (restore, state).into_pyobject(py).map(Bound::into_any)
    }

    /// Restores what was pickled.
    #[staticmethod]
    fn _of_arrays(
        py: Python<'_>,
        ids: PyReadonlyArray1<'_, u32>,
        spans: PyReadonlyArray2<'_, u64>,
        control: PyReadonlyArray1<'_, bool>,
        origins: Option<PyReadonlyArray1<'_, u32>>,
        weights: Option<PyReadonlyArray1<'_, f32>>,
        notes: Vec<String>,
    ) -> PyResult<Encoded> {
        let (ids, spans, control) = (ids.as_array(), spans.as_array(), control.as_array());
        let (origins, weights) =
            (origins.map(|array| array.as_array().to_vec()), weights.map(|array| array.as_array().to_vec()));
        let count = ids.len();
        let lengths =
            [Some(spans.nrows()), Some(control.len()), origins.as_ref().map(Vec::len), weights.as_ref().map(Vec::len)];
        if spans.ncols() != 2 || lengths.into_iter().flatten().any(|length| length != count) {
            return Err(crate::input::refuse(py, "ids", "expected arrays of the same length".to_owned()));
        }
        let tokens = ids.iter().zip(spans.rows()).zip(control).map(|((id, span), control)| EncodedToken {
            id: *id,
            start: span[0] as usize,
            end: span[1] as usize,
            control: *control,
        });
        let encoded = Encoded { weights, ..Encoded::of(tokens.collect(), notes, None) };
        if let Some(origins) = origins {
            encoded.origins.array(py, || origins)?;
        }
        Ok(encoded)
    }

    fn __repr__(&self) -> String {
        format!("Encoded({} tokens)", self.tokens.len())
    }
}
