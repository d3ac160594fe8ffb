//! A tokenizer that is loaded when it is first needed, and bound to each format or template that
//! uses it. Shared by threads.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rolecall_encode::{Decoder, Encoder, PlainMarkers, Protection, extended};
use rolecall_format::{Control, Format};
use rolecall_tokenizer::Tokenizer;

use super::settings::EncoderOptions;
use super::templates::Templates;
use super::writer::ModelWriter;
use crate::Error;
use crate::files::Files;
use crate::kept::SmallCache;
use crate::template::ModelTemplates;
use crate::tokenizer;
use crate::tokenizer::TokenizerFile;

/// The path of a tokenizer, and what was loaded from it.
#[derive(Default)]
pub(super) struct Encoders {
    path: Option<PathBuf>,
    files: Files,
    /// The control tokens of the model's format, of which the maker's code may append some.
    controls: Arc<[Control]>,
    loading: Mutex<()>,
    loaded: OnceLock<LoadedTokenizer>,
}

/// A tokenizer with the files that it was loaded from.
pub(super) struct LoadedTokenizer {
    /// The file, unless the caller passed a tokenizer.
    pub file: Option<TokenizerFile>,
    /// The tokenizer as its file has it.
    pub own: Arc<dyn Tokenizer>,
    /// The tokenizer with the tokens that the maker's code appends.
    pub tokenizer: Arc<dyn Tokenizer>,
    pub decoder: Arc<Decoder>,
    /// The templates in the tokenizer's folder. Formats do not know them, but their control tokens
    /// are protected as well.
    pub beside: ModelTemplates,
    /// The digest of the tokenizer's content, once determined.
    pub digest: OnceLock<String>,
    bound: SmallCache<(EncoderBinding, EncoderOptions), Arc<Encoder>>,
}

/// What an encoder is bound to: a format by its name, or templates by the hash of their texts and tokens.
type EncoderBinding = (String, u64);

impl Encoders {
    pub fn new(path: Option<PathBuf>, files: Files, controls: Arc<[Control]>) -> Encoders {
        Encoders { path, files, controls, ..Encoders::default() }
    }

    /// Uses a tokenizer that is already loaded.
    pub fn of(tokenizer: Arc<dyn Tokenizer>, controls: &[Control]) -> Encoders {
        let loaded = LoadedTokenizer::of(None, tokenizer, controls, ModelTemplates::default());
        Encoders { loaded: OnceLock::from(loaded), ..Encoders::default() }
    }

    /// Reports whether there is a tokenizer, loaded or not.
    pub fn has_tokenizer(&self) -> bool {
        self.path.is_some() || self.loaded.get().is_some()
    }

    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Returns the tokenizer. If the file cannot be read, the next call tries again.
    pub fn loaded(&self) -> Result<&LoadedTokenizer, Error> {
        if let Some(loaded) = self.loaded.get() {
            return Ok(loaded);
        }
        let path = self.path.as_deref().ok_or(Error::NoTokenizer)?;
        let _loading = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(loaded) = self.loaded.get() {
            return Ok(loaded);
        }
        let loaded = LoadedTokenizer::load(&self.files, path, &self.controls)?;
        Ok(self.loaded.get_or_init(|| loaded))
    }

    pub fn encoder(&self, writer: &ModelWriter, options: EncoderOptions) -> Result<Arc<Encoder>, Error> {
        let loaded = self.loaded()?;
        let (templates, format) = (writer.templates(), writer.format());
        let name = format.map(|format| format.name.clone()).unwrap_or_default();
        let key = ((name, templates.map(Templates::number).unwrap_or_default()), options);
        loaded.bound.find_or_make(
            |known| *known == key,
            || {
                if let (Some(templates), PlainMarkers::Refuse) = (templates, options.plain_markers) {
                    templates.check_markers(&*loaded.tokenizer)?;
                }
                let protection = loaded.protection(templates, format).protecting(options.protect);
                let encoder = Encoder::new(&protection, Arc::clone(&loaded.tokenizer))?;
                Ok((key.clone(), Arc::new(encoder.adding(options.add))))
            },
        )
    }
}

impl LoadedTokenizer {
    /// Returns the protection for what templates write, or else a format, and for the templates in the
    /// tokenizer's folder.
    pub fn protection(&self, templates: Option<&Templates>, format: Option<&Arc<Format>>) -> Protection {
        match templates {
            Some(templates) => templates.protection(&self.beside),
            None => self.beside.protection(format),
        }
    }

    fn load(files: &Files, path: &Path, controls: &[Control]) -> Result<LoadedTokenizer, Error> {
        let at = |error| Error::Tokenizer { path: path.to_path_buf(), error };
        let (file, tokenizer) = tokenizer::load_from(files, path).map_err(at)?;
        let beside = crate::template_files::beside_from(files, &file).map_err(Error::File)?;
        Ok(LoadedTokenizer::of(Some(file), Arc::from(tokenizer), controls, beside))
    }

    fn of(
        file: Option<TokenizerFile>,
        own: Arc<dyn Tokenizer>,
        controls: &[Control],
        beside: ModelTemplates,
    ) -> LoadedTokenizer {
        let tokenizer = extended(Arc::clone(&own), controls);
        let decoder = Arc::new(Decoder::new(Arc::clone(&tokenizer)));
        LoadedTokenizer { file, own, tokenizer, decoder, beside, digest: OnceLock::new(), bound: SmallCache::default() }
    }
}
