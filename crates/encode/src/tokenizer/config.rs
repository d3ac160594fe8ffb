use std::collections::BTreeMap;

use serde::Deserialize;

use super::{AddedToken, Error};

/// What `tokenizer_config.json` says beside the tokenizer's own file.
#[derive(Default)]
pub(super) struct Config {
    /// `added_tokens_decoder`, ordered by id.
    pub added: Vec<AddedToken>,
    pub add_bos: Option<bool>,
    pub add_eos: Option<bool>,
    pub bos: Option<String>,
    pub eos: Option<String>,
    pub add_prefix_space: Option<bool>,
    /// transformers: `legacy: false` puts the prefix space at the start of the prompt only, not behind each added token.
    pub legacy: Option<bool>,
}

impl Config {
    pub fn from_bytes(bytes: Option<&[u8]>) -> Result<Self, Error> {
        let Some(bytes) = bytes else { return Ok(Self::default()) };
        let file: File =
            serde_json::from_slice(bytes).map_err(|e| Error::malformed("tokenizer_config.json", e.to_string()))?;
        let mut added = Vec::with_capacity(file.added_tokens_decoder.len());
        for (id, token) in file.added_tokens_decoder {
            let id = id.parse().map_err(|_| {
                Error::malformed("tokenizer_config.json: added_tokens_decoder", format!("`{id}` is not a token id"))
            })?;
            added.push(AddedToken {
                text: token.content,
                id,
                special: token.special,
                normalized: token.normalized.unwrap_or(!token.special),
                lstrip: token.lstrip,
                rstrip: token.rstrip,
                single_word: token.single_word,
            });
        }
        added.sort_by_key(|token| token.id);
        Ok(Self {
            added,
            add_bos: file.add_bos_token,
            add_eos: file.add_eos_token,
            bos: file.bos_token.map(Named::into_text),
            eos: file.eos_token.map(Named::into_text),
            add_prefix_space: file.add_prefix_space,
            legacy: file.legacy,
        })
    }
}

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    added_tokens_decoder: BTreeMap<String, Entry>,
    add_bos_token: Option<bool>,
    add_eos_token: Option<bool>,
    bos_token: Option<Named>,
    eos_token: Option<Named>,
    add_prefix_space: Option<bool>,
    legacy: Option<bool>,
}

#[derive(Deserialize)]
struct Entry {
    content: String,
    #[serde(default)]
    special: bool,
    normalized: Option<bool>,
    #[serde(default)]
    lstrip: bool,
    #[serde(default)]
    rstrip: bool,
    #[serde(default)]
    single_word: bool,
}

/// A token named by its text, or by an object that holds it.
#[derive(Deserialize)]
#[serde(untagged)]
enum Named {
    Text(String),
    Object { content: String },
}

impl Named {
    fn into_text(self) -> String {
        match self {
            Self::Text(text) | Self::Object { content: text } => text,
        }
    }
}
