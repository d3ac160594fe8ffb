//! The special tokens that transformers passes to a template: its `special_tokens_map`.

use rolecall_conversation::Json;
use rolecall_conversation::json::Object;
use rolecall_render::ChatTemplate;

use super::ModelTemplates;
use crate::damage::Damage;

/// The tokens that any tokenizer may have. transformers 5: `additional_special_tokens` is no longer
/// one of them.
const USUAL: [&str; 7] = ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

/// The keys of a model's own tokens, by name. The second key is used by some configs of
/// transformers 5.
const OWN: [&str; 2] = ["model_specific_special_tokens", "extra_special_tokens"];

/// Returns the text of a token as tokenizer files write it: a string, or an object with a
/// `content`.
pub(crate) fn token_of(value: &Json) -> Option<&str> {
    match value {
        Json::String(text) => Some(text),
        Json::Object(object) => object.get("content")?.as_str(),
        _ => None,
    }
}

/// The parts of the config that determine how the map of special tokens is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TokensConfig {
    /// Whether the config lists the added tokens.
    lists_added: bool,
    /// The model's own tokens that the config gives as strings, or in an object of strings.
    own: Vec<String>,
}

/// Reports whether a key may be one of a model's own tokens.
fn is_own(name: &str) -> bool {
    name.ends_with("_token") && !USUAL.contains(&name)
}

impl ModelTemplates {
    /// Reads the tokens of a `tokenizer_config.json`.
    pub(crate) fn take_config_tokens(&mut self, object: &Object) -> Result<(), Damage> {
        let own_texts = object.iter().filter(|(name, value)| is_own(name) && value.as_str().is_some());
        let in_objects = OWN.iter().filter_map(|field| object.get(field)?.as_object()).flat_map(Object::iter);
        self.config = TokensConfig {
            lists_added: object.get("added_tokens_decoder").is_some(),
            own: own_texts.chain(in_objects).map(|(name, _)| name.to_owned()).collect(),
        };
        for (name, value) in object.iter() {
            self.take_token(name, value)?;
        }
        self.take_own(object)
    }

    /// Reads the tokens of a `special_tokens_map.json`, after the config. transformers: it is read
    /// only if the config does not list the added tokens. It then overrides the config, except for
    /// most of a model's own tokens.
    pub(crate) fn take_map_tokens(&mut self, object: &Object) -> Result<(), Damage> {
        if self.config.lists_added {
            return Ok(());
        }
        for (name, value) in object.iter() {
            if !self.config.own.iter().any(|own| own == name) {
                self.take_token(name, value)?;
            }
        }
        self.take_own(object)
    }

    fn take_token(&mut self, name: &str, value: &Json) -> Result<(), Damage> {
        if let Some(usual) = USUAL.iter().find(|usual| **usual == name) {
            return self.take_usual(usual, value);
        }
        if is_own(name) {
            match token_of(value) {
                Some(text) => self.set_token(name, text.to_owned()),
                // `add_bos_token` and similar keys have such names and are not tokens.
                None => self.tokens.retain(|(known, _)| known != name),
            }
        }
        Ok(())
    }

    fn take_usual(&mut self, name: &'static str, value: &Json) -> Result<(), Damage> {
        match token_of(value) {
            Some(text) => self.set_token(name, text.to_owned()),
            None if value.is_null() => self.tokens.retain(|(known, _)| known != name),
            None => {
                let expected = "a string or an object with a `content`";
                return Err(Damage::WrongType { field: name, expected, found: value.kind() });
            }
        }
        Ok(())
    }

    /// Reads the model's own tokens. A list of extra tokens has no names that a template could use,
    /// so it is skipped.
    fn take_own(&mut self, object: &Object) -> Result<(), Damage> {
        for field in OWN {
            let named = object.get(field).and_then(Json::as_object);
            for (name, value) in named.into_iter().flat_map(Object::iter) {
                let expected = "an object of tokens by name";
                let wrong = || Damage::WrongType { field, expected, found: value.kind() };
                let text = token_of(value).ok_or_else(wrong)?;
                // A token must not replace a variable that the conversation provides.
                if !ChatTemplate::GIVEN.contains(&name) {
                    self.set_token(name, text.to_owned());
                }
            }
        }
        Ok(())
    }
}
