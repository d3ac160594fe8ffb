use std::sync::Arc;

use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString, PyTuple};
use rolecall::encode::Decoder;
use rolecall::format::Control;
use rolecall::template::ModelTemplates;
use rolecall::tokenizer::{self, TextPlace};
use rolecall::{Error, answer};

use crate::format::Format;
use crate::input::{self, Path};
use crate::model::Model;
use crate::once::array;
use crate::{error, output};

/// A model's tokenizer, from a file of any kind, a folder, the bytes of a file, a tokenizer of
/// transformers, or a `tokenizers.Tokenizer`. Raises `TokenizerError` if it cannot be loaded.
///
/// Text that spells a token such as `<|im_end|>` stays text, so it is encoded to other ids than that
/// token's.
///
/// >>> import rolecall
/// >>> letters = {"a": 0, "b": 1, "ab": 2}
/// >>> json = '{"added_tokens": [], "model": {"type": "BPE", "vocab": %s, "merges": ["a b"]}}'
/// >>> tokenizer = rolecall.Tokenizer((json % str(letters).replace("'", '"')).encode())
/// >>> tokenizer.encode("abb").tolist(), tokenizer.decode([2, 1])
/// ([2, 1], 'abb')
#[pyclass(frozen, module = "rolecall")]
pub struct Tokenizer {
    model: Py<Model>,
    inner: Arc<dyn tokenizer::Tokenizer>,
    decoder: Arc<Decoder>,
}

impl Tokenizer {
    /// Returns the tokenizer of a model.
    pub fn of(model: &Bound<'_, Model>) -> PyResult<Tokenizer> {
        let py = model.py();
        let own = model.get().inner();
        let loaded = py.detach(|| Ok((Arc::clone(own.tokenizer()?), own.decoder()?)));
        let (inner, decoder) = loaded.map_err(|error| error::of(py, &error))?;
        Ok(Tokenizer { model: model.clone().unbind(), inner, decoder })
    }

    fn raise(&self, py: Python<'_>, error: tokenizer::Error) -> PyErr {
        let path = self.model.get().inner().tokenizer_path().unwrap_or(std::path::Path::new("tokenizer")).to_owned();
        error::of(py, &Error::Tokenizer { path, error })
    }
}

#[pymethods]
impl Tokenizer {
    #[new]
    fn new(py: Python<'_>, source: Bound<'_, PyAny>) -> PyResult<Tokenizer> {
        let parts = PyDict::new(py);
        parts.set_item("tokenizer", source)?;
        let model = py.get_type::<Model>().call((), Some(&parts))?;
        Tokenizer::of(model.cast::<Model>()?)
    }

    #[staticmethod]
    fn _of(model: &Bound<'_, Model>) -> PyResult<Tokenizer> {
        Tokenizer::of(model)
    }

    /// Encodes a text to an array of uint32, of shape (tokens,). No token is put around it.
    ///
    /// With `reference`, text that spells an added token becomes that token, as in the libraries of
    /// the model's maker. This is unsafe for text of users.
    #[pyo3(signature = (text, *, reference=false))]
    fn encode<'py>(
        &self,
        py: Python<'py>,
        text: &Bound<'_, PyAny>,
        reference: bool,
    ) -> PyResult<Bound<'py, PyArray1<u32>>> {
        let text = input::text(text, &mut input::Path::of("text"))?;
        let encoded = py.detach(|| {
            let mut ids = Vec::new();
            if reference {
                let mut tokens = Vec::new();
                self.inner.encode_reference(&text, TextPlace::Start, &mut tokens)?;
                ids.extend(tokens.into_iter().map(|token| token.id));
            } else {
                self.inner.encode_ids(&text, TextPlace::Start, &mut ids)?;
            }
            Ok(ids)
        });
        array(py, encoded.map_err(|error| self.raise(py, error))?)
    }

    /// Decodes ids to text. Bytes that are not UTF-8, such as those of an incomplete character, become
    /// U+FFFD. With `skip_special`, tokens such as `<|im_end|>` are left out.
    #[pyo3(signature = (ids, *, skip_special=false))]
    fn decode<'py>(
        &self,
        py: Python<'py>,
        ids: &Bound<'_, PyAny>,
        skip_special: bool,
    ) -> PyResult<Bound<'py, PyString>> {
        let bytes = self.bytes_of(py, ids, skip_special)?;
        Ok(PyString::new(py, &String::from_utf8_lossy(&bytes)))
    }

    /// Decodes ids to the bytes that they stand for.
    #[pyo3(signature = (ids, *, skip_special=false))]
    fn decode_bytes<'py>(
        &self,
        py: Python<'py>,
        ids: &Bound<'_, PyAny>,
        skip_special: bool,
    ) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.bytes_of(py, ids, skip_special)?))
    }

    /// Returns the id of the token with exactly this text, or None.
    fn token_id(&self, text: &Bound<'_, PyAny>) -> PyResult<Option<u32>> {
        Ok(self.inner.token_id(&input::text(text, &mut input::Path::of("text"))?))
    }

    /// Returns the text of a token as the tokenizer spells it, or None.
    fn token_text(&self, id: u32) -> Option<String> {
        self.inner.token_text(id)
    }

    /// Returns the bytes that a token stands for, or None if there is no such token or they depend on
    /// the token before.
    fn token_bytes<'py>(&self, py: Python<'py>, id: u32) -> Option<Bound<'py, PyBytes>> {
        let mut bytes = Vec::new();
        self.inner.token_bytes(id, &mut bytes).then(|| PyBytes::new(py, &bytes))
    }

    /// The number of ids, with those of added tokens.
    #[getter]
    fn vocab_size(&self) -> usize {
        self.inner.vocabulary_size()
    }

    /// The tokens outside the learned vocabulary, as dicts: `text`, `id`, `special`, `normalized`,
    /// `lstrip`, `rstrip`, `single_word`.
    #[getter]
    fn added_tokens<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let dict = |token: &tokenizer::AddedToken| {
            let dict = PyDict::new(py);
            dict.set_item("text", &token.text)?;
            dict.set_item("id", token.id)?;
            let flags = [
                ("special", token.special),
                ("normalized", token.normalized),
                ("lstrip", token.lstrip),
                ("rstrip", token.rstrip),
                ("single_word", token.single_word),
            ];
            flags.into_iter().try_for_each(|(name, flag)| dict.set_item(name, flag))?;
            Ok(dict)
        };
        self.inner.added_tokens().iter().map(dict).collect()
    }

    /// The file that it was loaded from, or None.
    #[getter]
    fn file(&self) -> Option<String> {
        let file = self.model.get().inner().tokenizer_file().ok()??;
        Some(file.path.display().to_string())
    }

    /// The id of the token that it puts before a text by itself, or None.
    #[getter]
    fn adds_bos(&self) -> Option<u32> {
        self.inner.adds_bos()
    }

    /// The id of the token that it puts after a text by itself, or None.
    #[getter]
    fn adds_eos(&self) -> Option<u32> {
        self.inner.adds_eos()
    }

    /// Audits it: how it treats each control token of a format, and what is dangerous about it, as a
    /// dict like `rolecall tokenizer --json` writes. Without a format, that of the model is used. If the model
    /// has chat templates, `protected` lists the tokens that text in its prompts is never encoded to.
    #[pyo3(signature = (format=None))]
    fn audit(&self, py: Python<'_>, format: Option<&Bound<'_, Format>>) -> PyResult<Py<PyAny>> {
        let model = self.model.get().inner();
        let format = format.map(|format| format.get().inner()).or(model.format());
        let audited = py.detach(|| {
            let controls: &[Control] = format.map_or(&[], |format| &format.controls);
            let none = ModelTemplates::default();
            let templates = model.all_templates()?.unwrap_or(&none);
            let audit = tokenizer::audit_with(&*self.inner, controls, templates);
            let format = format.map(|format| format.name.as_str());
            let file = model.tokenizer_file()?;
            let protected = model.templates().map(|_| model.protected()).transpose()?;
            Ok(answer::of_audited(answer::AuditAnswer {
                file,
                tokenizer: &*self.inner,
                format,
                audit: &audit,
                protected: protected.as_ref(),
            }))
        });
        output::object(py, &audited.map_err(|error| error::of(py, &error))?)
    }

    fn __len__(&self) -> usize {
        self.inner.vocabulary_size()
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let restore = py.get_type::<Tokenizer>().getattr("_of")?;
        Ok((restore, PyTuple::new(py, [self.model.clone_ref(py)])?))
    }

    fn __copy__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __deepcopy__<'py>(slf: Bound<'py, Self>, _memo: &Bound<'py, PyAny>) -> Bound<'py, Self> {
        slf
    }

    fn __repr__(&self) -> String {
        format!("Tokenizer({}, {} tokens)", self.inner.kind(), self.inner.vocabulary_size())
    }
}

impl Tokenizer {
    fn bytes_of(&self, py: Python<'_>, ids: &Bound<'_, PyAny>, skip_special: bool) -> PyResult<Vec<u8>> {
        let mut ids = input::ids(ids, &mut Path::of("ids"))?;
        if skip_special {
            ids.retain(|id| !self.decoder.is_marker(*id));
        }
        let decoded = py.detach(|| self.decoder.decode(&ids));
        decoded.map_err(|error| error::of(py, &error.into()))
    }
}

#[pymethods]
impl Model {
    /// The tokenizer, or None if the model has none. Raises `TokenizerError` if it cannot be loaded.
    #[getter]
    fn tokenizer(slf: &Bound<'_, Self>) -> PyResult<Option<Tokenizer>> {
        slf.get().inner().has_tokenizer().then(|| Tokenizer::of(slf)).transpose()
    }
}
