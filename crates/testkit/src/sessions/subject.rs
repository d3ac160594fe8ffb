use std::path::Path;
use std::sync::Arc;

use rolecall::conversation::Json;
use rolecall::encode::{Encoder, PlainMarkers, Protection};
use rolecall::format::Format;
use rolecall::model::Settings;
use rolecall::template::{DateTime, Forms, ModelTemplates};
use rolecall::tokenizer::{HuggingFace, Tokenizer};
use rolecall::{Error, Model};

use super::Fitted;
use crate::forge::{is_token, small_tokenizer_files, spelled_in};
use crate::{FolderTemplates, Toy};

/// The clock of every session.
const NOON: DateTime = DateTime { year: 2026, month: 11, day: 24, hour: 12, minute: 0, second: 0, microsecond: 0 };

/// A format or template with a tokenizer that fits.
pub struct Subject {
    /// The name of the format or the file of the template.
    pub name: String,
    /// The model.
    pub model: Model,
    /// An encoder of our own for the model's prompts.
    pub encoder: Arc<Encoder>,
    /// The tokenizer.
    pub tokenizer: Arc<dyn Tokenizer>,
    /// The template's source; a format has none.
    pub source: Option<String>,
    /// The tokens that the template is given by name.
    pub tokens: Vec<(String, String)>,
}

/// What encodes the text between markers.
#[derive(Clone)]
pub enum Vocabulary {
    /// Each byte is a token.
    Bytes,
    /// A vocabulary that joins bytes.
    Of(Arc<dyn Tokenizer>),
}

impl Vocabulary {
    /// A small vocabulary that needs no files.
    pub fn small() -> Vocabulary {
        let files = small_tokenizer_files();
        let (_, bytes) = files.iter().find(|(name, _)| *name == "bytes").unwrap_or(&files[0]);
        match HuggingFace::from_bytes(bytes, None) {
            Ok(tokenizer) => Vocabulary::Of(Arc::new(tokenizer)),
            Err(error) => panic!("{error}"),
        }
    }

    /// The vocabulary of a real tokenizer in the references.
    pub fn real(shared: &Path) -> Vocabulary {
        match rolecall::tokenizer::load(&shared.join("tokenizers/qwen3")) {
            Ok(tokenizer) => Vocabulary::Of(Arc::from(tokenizer)),
            Err(error) => panic!("{error}"),
        }
    }

    fn with(&self, markers: &[String]) -> Arc<dyn Tokenizer> {
        match self {
            Vocabulary::Bytes => {
                Arc::new(markers.iter().fold(Toy::of(&Format::default()), |toy, marker| toy.with(marker)))
            }
            Vocabulary::Of(tokenizer) => Arc::new(Fitted::new(Arc::clone(tokenizer), markers)),
        }
    }
}

impl Subject {
    /// Opens a template with a vocabulary and the template's own markers.
    pub fn of_template(
        name: &str,
        source: &str,
        tokens: &[(String, String)],
        vocabulary: &Vocabulary,
    ) -> Result<Subject, Error> {
        let mut markers = spelled_in(source);
        markers.extend(tokens.iter().map(|(_, text)| text.clone()));
        markers.retain(|marker| is_token(marker));
        markers.sort();
        markers.dedup();
        let mut templates =
            ModelTemplates::from_json(&Json::from(source)).unwrap_or_else(|error| panic!("{name}: {error}"));
        for (name, token) in tokens {
            templates.set_token(name, token.clone());
        }
        let protection = templates.protection(None);
        let model = Model::builder().templates(templates);
        let subject = Subject::open(name, model, &protection, vocabulary.with(&markers), Some(source.to_owned()))?;
        Ok(Subject { tokens: tokens.to_vec(), ..subject })
    }

    /// Opens a built-in format with a vocabulary and the format's control tokens.
    pub fn of_format(format: &Format, vocabulary: &Vocabulary) -> Result<Subject, Error> {
        let tokenizer: Arc<dyn Tokenizer> = match vocabulary {
            Vocabulary::Bytes => {
                // The tokens that the maker's code appends are sampled too.
                let [_, appended, _] = Toy::family(format, &crate::generate::marks(format));
                Arc::new(appended)
            }
            Vocabulary::Of(tokenizer) => {
                let markers: Vec<String> = format.controls.iter().map(|control| control.text.clone()).collect();
                Arc::new(Fitted::new(Arc::clone(tokenizer), &markers))
            }
        };
        let model = Model::builder().format(&format.name);
        Subject::open(&format.name, model, &Protection::default().with_format(format), tokenizer, None)
    }

    fn open(
        name: &str,
        model: rolecall::model::ModelBuilder,
        protection: &Protection,
        tokenizer: Arc<dyn Tokenizer>,
        source: Option<String>,
    ) -> Result<Subject, Error> {
        // A session passes calls in this form.
        // The vocabularies of the subjects belong to no model.
        let plain_markers = PlainMarkers::Allow;
        let settings = Settings { now: Some(NOON), forms: Forms::AsWanted, plain_markers, ..Settings::default() };
        let model = model.loaded_tokenizer(Arc::clone(&tokenizer)).settings(settings).open();
        let model = model.unwrap_or_else(|error| panic!("{name}: {error}"));
        let encoder = Arc::new(Encoder::new(protection, Arc::clone(&tokenizer))?);
        Ok(Subject { name: name.to_owned(), model, encoder, tokenizer, source, tokens: Vec::new() })
    }

    /// Opens all templates of a folder, and returns those that cannot be opened with the reason.
    pub fn of_folder(folder: &Path, vocabulary: &Vocabulary) -> (Vec<Subject>, Vec<String>) {
        let templates = FolderTemplates::read(folder).unwrap_or_else(|error| panic!("{error}"));
        let (mut subjects, mut others) = (Vec::new(), templates.left_out);
        for (name, template) in templates.compiled {
            match Subject::of_template(&name, template.source(), template.tokens(), vocabulary) {
                Ok(subject) => subjects.push(subject),
                Err(error) => others.push(format!("{name}: {error}")),
            }
        }
        (subjects, others)
    }

    /// Opens all built-in formats and dialects.
    pub fn of_registry(vocabulary: &Vocabulary) -> (Vec<Subject>, Vec<String>) {
        let (mut subjects, mut others) = (Vec::new(), Vec::new());
        for format in rolecall::format::registry().iter() {
            match Subject::of_format(format, vocabulary) {
                Ok(subject) => subjects.push(subject),
                Err(error) => others.push(format!("{}: {error}", format.name)),
            }
        }
        (subjects, others)
    }

    /// Returns the ids of a text, with markers as control tokens wherever the text spells them: what
    /// a model that writes this text would sample.
    pub fn sampled(&self, text: &str) -> Vec<u32> {
        let mut tokens = Vec::new();
        let encoded = self.tokenizer.encode_reference(text, rolecall::tokenizer::TextPlace::Inside, &mut tokens);
        if let Err(error) = encoded {
            panic!("{}: {error}", self.name);
        }
        tokens.iter().map(|token| token.id).collect()
    }

    /// Returns the ids of a text in which nothing is a control token.
    pub fn spelled(&self, text: &str) -> Vec<u32> {
        let mut ids = Vec::new();
        let encoded = self.encoder.tokenizer().encode_ids(text, rolecall::tokenizer::TextPlace::Inside, &mut ids);
        if let Err(error) = encoded {
            panic!("{}: {error}", self.name);
        }
        ids
    }
}
