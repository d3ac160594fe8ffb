use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::named::{Beside, NamedToken, of_tokens, text_of};
use super::{AddedToken, Error};

/// The contents of the `tokenizer_config.json` next to the tokenizer's own file.
#[derive(Default)]
pub(super) struct Config {
    /// `added_tokens_decoder`, ordered by id.
    pub added: Vec<AddedToken>,
    pub add_bos: Option<bool>,
    pub add_eos: Option<bool>,
    pub bos: Option<String>,
    pub eos: Option<String>,
    pub add_prefix_space: Option<bool>,
    /// transformers: `legacy: false` adds the prefix space only at the start of the prompt, not
    /// after each added token.
    pub legacy: Option<bool>,
    /// The tokens that the config and other files name.
    pub named: Vec<NamedToken>,
    /// transformers: the added tokens that text must never encode to, replacing those that a
    /// template spells.
    pub chat_control: Option<Vec<String>>,
}

/// The name of the file.
const FILE: &str = "tokenizer_config.json";

impl Config {
    pub fn beside(beside: Beside<'_>) -> Result<Self, Error> {
        let mut config = Self::from_bytes(beside.config)?;
        config.named.extend(beside.named);
        Ok(config)
    }

    fn from_bytes(bytes: Option<&[u8]>) -> Result<Self, Error> {
        let Some(bytes) = bytes else { return Ok(Self::default()) };
        let malformed = |error: serde_json::Error| Error::malformed(FILE, error.to_string());
        let file: ConfigFile = serde_json::from_slice(bytes).map_err(malformed)?;
        let object = serde_json::from_slice(bytes).map_err(malformed)?;
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
            bos: file.bos_token.as_ref().and_then(text_of).map(str::to_owned),
            eos: file.eos_token.as_ref().and_then(text_of).map(str::to_owned),
            add_prefix_space: file.add_prefix_space,
            legacy: file.legacy,
            named: of_tokens(FILE, &object),
            chat_control: file.chat_control_tokens,
        })
    }
}

#[derive(Deserialize)]
struct ConfigFile {
    #[serde(default)]
    added_tokens_decoder: BTreeMap<String, Entry>,
    add_bos_token: Option<bool>,
    add_eos_token: Option<bool>,
    bos_token: Option<Value>,
    eos_token: Option<Value>,
    add_prefix_space: Option<bool>,
    legacy: Option<bool>,
    chat_control_tokens: Option<Vec<String>>,
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
