//! kitoken, from the tokenizer's own file.

use kitoken::{Kitoken, SpecialTokenKind};

use super::Encoder;
use crate::model::Model;

/// No special token of a text is looked for.
const NONE: &[SpecialTokenKind] = &[];

struct Loaded(Kitoken);

pub fn load(model: &Model) -> Result<Box<dyn Encoder>, String> {
    let loaded = Kitoken::from_file(&model.file).map_err(|error| format!("{error:?}"))?;
    Ok(Box::new(Loaded(loaded)))
}

impl Encoder for Loaded {
    fn encode(&mut self, text: &str) -> usize {
        self.0.encode(text, NONE).map_or(0, |ids| ids.len())
    }

    fn ids(&mut self, text: &str) -> Result<Vec<u32>, String> {
        self.0.encode(text, NONE).map_err(|error| format!("{error:?}"))
    }

    fn decode(&self, ids: &[u32]) -> Result<Vec<u8>, String> {
        self.0.decode(ids, true).map_err(|error| format!("{error:?}"))
    }
}
