//! The special tokens that transformers hands to a template: its `special_tokens_map`.

use rolecall_conversation::Json;
use rolecall_conversation::json::Object;

use super::ModelTemplates;
use crate::model::Damage;

/// The tokens that every tokenizer may have. transformers 5: `additional_special_tokens` is not among them any more.
const USUAL: [&str; 7] = ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

/// A model's own tokens, by name; under the second key some configs of transformers 5 have them.
const OWN: [&str; 2] = ["model_specific_special_tokens", "extra_special_tokens"];

/// What a template has from the conversation: no token may stand in its place.
const TAKEN: [&str; 4] = ["messages", "tools", "documents", "add_generation_prompt"];

/// A token as tokenizer files write it: a text, or an object with its `content`.
pub(crate) fn token_of(value: &Json) -> Option<&str> {
    match value {
        Json::String(text) => Some(text),
        Json::Object(object) => object.get("content")?.as_str(),
        _ => None,
    }
}

impl ModelTemplates {
    /// The tokens of a `tokenizer_config.json`.
    pub(crate) fn take_config_tokens(&mut self, object: &Object) -> Result<(), Damage> {
        self.config_lists_tokens = object.get("added_tokens_decoder").is_some();
        for (name, value) in object.iter() {
            match USUAL.iter().find(|usual| **usual == name) {
                Some(usual) => self.take_usual(usual, value)?,
                None if name.ends_with("_token") => {
                    // `add_bos_token` and its like end so and are no tokens.
                    if let Some(text) = token_of(value) {
                        self.set_token(name, text.to_owned());
                    }
                }
                None => {}
            }
        }
        self.take_own(object)
    }

    /// The tokens of a `special_tokens_map.json`, which is read behind the config. transformers: it is looked at only where the
    /// config does not list the added tokens, and then its usual tokens win, but not a model's own.
    pub(crate) fn take_map_tokens(&mut self, object: &Object) -> Result<(), Damage> {
        if self.config_lists_tokens {
            return Ok(());
        }
        for (name, value) in object.iter() {
            match USUAL.iter().find(|usual| **usual == name) {
                Some(usual) => self.take_usual(usual, value)?,
                None if name.ends_with("_token") && self.token(name).is_none() => {
                    if let Some(text) = token_of(value) {
                        self.set_token(name, text.to_owned());
                    }
                }
                None => {}
            }
        }
        self.take_own(object)
    }

    fn take_usual(&mut self, name: &'static str, value: &Json) -> Result<(), Damage> {
        match token_of(value) {
            Some(text) => self.set_token(name, text.to_owned()),
            None if value.is_null() => self.tokens.retain(|(known, _)| known != name),
            None => {
                let expected = "a text or an object with its `content`";
                return Err(Damage::WrongType { field: name, expected, found: value.kind() });
            }
        }
        Ok(())
    }

    /// A list of extra tokens has no names that a template could use.
    fn take_own(&mut self, object: &Object) -> Result<(), Damage> {
        for field in OWN {
            let named = object.get(field).and_then(Json::as_object);
            for (name, value) in named.into_iter().flat_map(Object::iter) {
                let expected = "an object of tokens by name";
                let wrong = || Damage::WrongType { field, expected, found: value.kind() };
                let text = token_of(value).ok_or_else(wrong)?;
                if !TAKEN.contains(&name) {
                    self.set_token(name, text.to_owned());
                }
            }
        }
        Ok(())
    }
}
