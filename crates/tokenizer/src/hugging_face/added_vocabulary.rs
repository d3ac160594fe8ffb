use std::collections::HashMap;

use foldhash::fast::RandomState;

use super::super::LARGEST_ID;
use super::super::{AddedToken, Error};

/// The added tokens by text and by id, in addition to the model's vocabulary.
pub(super) struct AddedVocabulary {
    ids: HashMap<String, u32>,
    texts: HashMap<u32, String, RandomState>,
    /// The number of added tokens that the model's vocabulary lacks.
    beyond: usize,
}

impl AddedVocabulary {
    /// Assigns ids as the reference crate does, in order after the `model_size` tokens of the
    /// model. A file that disagrees is rejected, because the crate would silently use other ids.
    pub fn new(added: &[AddedToken], model_id: impl Fn(&str) -> Option<u32>, model_size: usize) -> Result<Self, Error> {
        if let Some(token) = added.iter().find(|token| token.id > LARGEST_ID || token.text.is_empty()) {
            let why = format!("`{}` is empty, or its id {} is too large", token.text, token.id);
            return Err(Error::malformed("added_tokens", why));
        }
        let mut vocabulary = Self { ids: HashMap::new(), texts: HashMap::default(), beyond: 0 };
        let mut next = u32::try_from(model_size).unwrap_or(u32::MAX);
        for token in added {
            let known = vocabulary.ids.get(&token.text).copied().or_else(|| model_id(&token.text));
            let given = known.unwrap_or(next);
            if known.is_none() {
                next = next.saturating_add(1);
                vocabulary.beyond += 1;
            }
            vocabulary.ids.insert(token.text.clone(), given);
            vocabulary.texts.insert(given, token.text.clone());
        }
        for token in added {
            let given = vocabulary.ids.get(&token.text).copied();
            if given != Some(token.id) {
                let given = given.map_or("none".to_owned(), |id| id.to_string());
                let why = format!("`{}` has id {}, but id {given} in the vocabulary", token.text, token.id);
                return Err(Error::malformed("added_tokens", why));
            }
        }
        Ok(vocabulary)
    }

    pub fn id(&self, text: &str) -> Option<u32> {
        self.ids.get(text).copied()
    }

    pub fn text(&self, id: u32) -> Option<&str> {
        self.texts.get(&id).map(String::as_str)
    }

    /// Returns the number of added tokens that are not tokens of the model.
    pub fn beyond(&self) -> usize {
        self.beyond
    }
}
