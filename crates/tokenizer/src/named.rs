use serde_json::{Map, Value};

use super::Error;

/// The name under which [`Tokenizer::named`](crate::Tokenizer::named) lists a token of a GGUF file that the
/// file says is text and that is a control token all the same.
pub const WRONG_TYPE: &str = "tokenizer.ggml.token_type";

/// A token that a file of a model names, for example as the token that ends a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedToken {
    /// The name in the file: `eos_token`, `tokenizer.ggml.eos_token_id`.
    pub name: String,
    /// The file.
    pub file: String,
    /// The token.
    pub token: TokenRef,
}

/// How a file refers to a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenRef {
    /// By its text.
    Text(String),
    /// By its id.
    Id(u32),
}

/// The files next to a tokenizer's own file.
#[derive(Clone, Debug, Default)]
pub struct Beside<'a> {
    /// The `tokenizer_config.json`.
    pub config: Option<&'a [u8]>,
    /// The tokens that other files name.
    pub named: Vec<NamedToken>,
}

impl<'a> From<Option<&'a [u8]>> for Beside<'a> {
    fn from(config: Option<&'a [u8]>) -> Self {
        Beside { config, named: Vec::new() }
    }
}

/// Keys with lists or objects of further tokens.
const LISTS: [&str; 3] = ["additional_special_tokens", "extra_special_tokens", "model_specific_special_tokens"];
/// Keys of a model's configuration with token ids.
const IDS: [&str; 5] = ["bos_token_id", "eos_token_id", "pad_token_id", "sep_token_id", "decoder_start_token_id"];

impl NamedToken {
    /// Returns the tokens that a `tokenizer_config.json` or a `special_tokens_map.json` names.
    ///
    /// ```
    /// use rolecall_tokenizer::{NamedToken, TokenRef};
    /// let named = NamedToken::in_tokens("special_tokens_map.json", br#"{"eos_token": {"content": "</s>"}}"#)?;
    /// assert_eq!((named[0].name.as_str(), &named[0].token), ("eos_token", &TokenRef::Text("</s>".into())));
    /// # Ok::<(), rolecall_tokenizer::Error>(())
    /// ```
    pub fn in_tokens(file: &str, json: &[u8]) -> Result<Vec<NamedToken>, Error> {
        Ok(of_tokens(file, &object(file, json)?))
    }

    /// Returns the tokens that a `config.json` or a `generation_config.json` names.
    pub fn in_ids(file: &str, json: &[u8]) -> Result<Vec<NamedToken>, Error> {
        let object = object(file, json)?;
        let mut named = of_ids(file, &object);
        named
            .extend(object.get("text_config").and_then(Value::as_object).map_or(Vec::new(), |text| of_ids(file, text)));
        Ok(named)
    }

    /// Reports whether this is the token for text that the vocabulary lacks.
    pub fn is_unknown(&self) -> bool {
        matches!(self.name.as_str(), "unk_token" | "unk_token_id") || self.name.ends_with("unknown_token_id")
    }
}

fn object(file: &str, json: &[u8]) -> Result<Map<String, Value>, Error> {
    serde_json::from_slice(json).map_err(|error| Error::malformed(file, error.to_string()))
}

pub(super) fn of_tokens(file: &str, object: &Map<String, Value>) -> Vec<NamedToken> {
    let mut named = Vec::new();
    let mut push = |name: &str, value: &Value| {
        if let Some(text) = text_of(value).filter(|text| !text.is_empty()) {
            named.push(NamedToken {
                name: name.to_owned(),
                file: file.to_owned(),
                token: TokenRef::Text(text.to_owned()),
            });
        }
    };
    for (name, value) in object {
        match value {
            Value::Array(items) if LISTS.contains(&name.as_str()) || name.ends_with("_token") => {
                items.iter().for_each(|item| push(name, item));
            }
            Value::Object(items) if LISTS.contains(&name.as_str()) => {
                items.iter().for_each(|(name, item)| push(name, item));
            }
            value if name.ends_with("_token") => push(name, value),
            _ => {}
        }
    }
    named
}

fn of_ids(file: &str, object: &Map<String, Value>) -> Vec<NamedToken> {
    let mut named = Vec::new();
    for name in IDS {
        let mut push = |value: &Value| {
            // Minus one means no token.
            if let Some(id) = value.as_u64().and_then(|id| u32::try_from(id).ok()) {
                named.push(NamedToken { name: name.to_owned(), file: file.to_owned(), token: TokenRef::Id(id) });
            }
        };
        match object.get(name) {
            Some(Value::Array(ids)) => ids.iter().for_each(push),
            Some(id) => push(id),
            None => {}
        }
    }
    named
}

/// Returns the text of a token as tokenizer files write it: as a string, or as an object with
/// `content`.
pub(super) fn text_of(value: &Value) -> Option<&str> {
    match value {
        Value::String(text) => Some(text),
        Value::Object(object) => object.get("content")?.as_str(),
        _ => None,
    }
}
