//! Where a model's replies end and how they are sampled, according to the model's files.

use std::path::Path;
use std::sync::Arc;

use rolecall_conversation::Json;
use rolecall_conversation::json::{self, Object};
use rolecall_format::Generation;
use rolecall_tokenizer::{Error, NamedToken, TokenRef};

use super::OpenError;
use crate::files::Files;
use crate::template::ModelTemplates;

/// A token that ends a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StopToken {
    /// Its text. Empty if a file gives an id and no tokenizer knows its text.
    pub text: String,
    /// Its id. `None` if there is no tokenizer, or if the tokenizer encodes the text as several
    /// tokens.
    pub id: Option<u32>,
    /// What names the token: the format, or files of the model.
    pub sources: Vec<String>,
}

/// The tokens that end a writer's replies.
#[derive(Debug)]
pub(super) struct Stops {
    pub tokens: Vec<StopToken>,
    /// The texts that end a reply, with every spelling of a control token, sorted.
    pub texts: Arc<[String]>,
}

impl Stops {
    /// Returns the ids, without duplicates.
    pub fn ids(&self) -> impl Iterator<Item = u32> {
        self.tokens.iter().filter_map(|stop| stop.id)
    }
}

/// The stop tokens and sampling defaults that the files of a model name.
#[derive(Clone, Debug, Default)]
pub(super) struct Ends {
    /// Texts of stop tokens, each with the file that names it.
    pub texts: Vec<(String, String)>,
    /// Ids of stop tokens, each with the file that names it.
    pub ids: Vec<(u32, String)>,
    pub sampling: Generation,
}

const GENERATION: &str = "generation_config.json";
const CONFIG: &str = "config.json";

impl Ends {
    /// Reads the files of a folder.
    pub fn of_folder(files: &Files, folder: &Path, templates: &ModelTemplates) -> Result<Ends, OpenError> {
        let mut ends = Ends::default();
        if let Some(eos) = templates.token("eos_token").filter(|eos| !eos.is_empty()) {
            ends.texts.push((eos.to_owned(), "tokenizer_config.json".to_owned()));
        }
        for file in [GENERATION, CONFIG] {
            let path = folder.join(file);
            if !files.is_file(&path) {
                continue;
            }
            let bytes = files.read_bytes(&path)?;
            let damaged = |error: Error| OpenError::Tokenizer { path: path.clone(), error };
            // A base model's config may name another stop token than the chat model's generation
            // config.
            let is_first = ends.ids.is_empty();
            for named in NamedToken::in_ids(file, &bytes).map_err(damaged)? {
                if let (true, "eos_token_id", TokenRef::Id(id)) = (is_first, named.name.as_str(), named.token) {
                    ends.ids.push((id, named.file));
                }
            }
            if file == GENERATION
                && let Ok(Json::Object(config)) = json::parse(&String::from_utf8_lossy(&bytes))
            {
                ends.sampling = sampling(&config);
            }
        }
        Ok(ends)
    }

    /// Reads the metadata of a GGUF file.
    pub fn of_gguf(files: &Files, path: &Path, templates: &ModelTemplates) -> Result<Ends, OpenError> {
        const KEYS: [&str; 3] =
            ["tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"];
        let mut ends = Ends::default();
        if let Some(eos) = templates.token("eos_token").filter(|eos| !eos.is_empty()) {
            ends.texts.push((eos.to_owned(), KEYS[0].to_owned()));
        }
        let gguf = files.gguf(path).map_err(|error| OpenError::of_gguf(path, error))?;
        for key in KEYS {
            let id = gguf.number(key).map_err(|error| OpenError::of_gguf(path, error))?;
            ends.ids.extend(id.and_then(|id| u32::try_from(id).ok()).map(|id| (id, key.to_owned())));
        }
        Ok(ends)
    }

    /// Returns the format's defaults, overridden by those of the files, with the stop tokens of
    /// both.
    pub fn over(&self, format: &Generation) -> Generation {
        let own = &self.sampling;
        let mut merged = Generation {
            session_len: own.session_len.or(format.session_len),
            max_new_tokens: own.max_new_tokens.or(format.max_new_tokens),
            temperature: own.temperature.or(format.temperature),
            top_p: own.top_p.or(format.top_p),
            top_k: own.top_k.or(format.top_k),
            min_p: own.min_p.or(format.min_p),
            repetition_penalty: own.repetition_penalty.or(format.repetition_penalty),
            ..format.clone()
        };
        for (text, _) in &self.texts {
            if !merged.stop.contains(text) {
                merged.stop.push(text.clone());
            }
        }
        for (id, _) in &self.ids {
            if !merged.stop_ids.contains(id) {
                merged.stop_ids.push(*id);
            }
        }
        merged
    }
}

/// Returns the sampling parameters of a `generation_config.json`. Values that are not numbers of
/// the right kind are left out.
fn sampling(config: &Object) -> Generation {
    let number = |key: &str| match config.get(key) {
        Some(Json::Number(number)) => Some(number),
        _ => None,
    };
    let real = |key: &str| number(key).and_then(|number| number.as_f64()).filter(|value| value.is_finite());
    // Transformers samples the most likely token then, whatever the temperature.
    let is_greedy = config.get("do_sample") == Some(&Json::Bool(false));
    let whole = |key: &str| number(key).and_then(|number| number.as_i64()).and_then(|value| u64::try_from(value).ok());
    Generation {
        max_new_tokens: whole("max_new_tokens"),
        temperature: if is_greedy { Some(0.0) } else { real("temperature") },
        top_p: real("top_p"),
        top_k: whole("top_k"),
        min_p: real("min_p"),
        repetition_penalty: real("repetition_penalty"),
        ..Generation::default()
    }
}
