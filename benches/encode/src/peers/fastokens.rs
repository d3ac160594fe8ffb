//! fastokens: `encode_ordinary`, from tokenizer.json or from ranks.

use fastokens::{TiktokenConfig, Tokenizer};

use super::Encoder;
use crate::model::Model;

struct Fastokens {
    tokenizer: Tokenizer,
    /// The id of rank 0.
    first: u32,
}

pub fn load(model: &Model) -> Result<Box<dyn Encoder>, String> {
    if model.file.ends_with("tokenizer.json") {
        let tokenizer = Tokenizer::from_file(&model.file).map_err(|error| error.to_string())?;
        return Ok(Box::new(Fastokens { tokenizer, first: 0 }));
    }
    let ranks = model.ranks.as_ref().ok_or("it reads no such file")?;
    let config = TiktokenConfig::new(&ranks.pattern, Vec::new());
    let tokenizer = Tokenizer::from_tiktoken_file(&ranks.file, config).map_err(|error| error.to_string())?;
    Ok(Box::new(Fastokens { tokenizer, first: ranks.first }))
}

impl Encoder for Fastokens {
    fn encode(&mut self, text: &str) -> usize {
        self.tokenizer.encode_ordinary(text).map_or(0, |ids| ids.len())
    }

    fn ids(&mut self, text: &str) -> Result<Vec<u32>, String> {
        let ids = self.tokenizer.encode_ordinary(text).map_err(|error| error.to_string())?;
        Ok(ids.iter().map(|id| id + self.first).collect())
    }

    fn decode(&self, ids: &[u32]) -> Result<Vec<u8>, String> {
        let ids: Vec<u32> = ids.iter().map(|id| id - self.first).collect();
        self.tokenizer.decode(&ids, false).map(String::into_bytes).map_err(|error| error.to_string())
    }
}
