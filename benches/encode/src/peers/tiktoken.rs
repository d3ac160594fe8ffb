//! tiktoken-rs, from ranks. It does not compose text.

use tiktoken_rs::CoreBPE;

use super::{Encoder, read_ranks};
use crate::model::Model;

struct Tiktoken(CoreBPE);

pub fn load(model: &Model) -> Result<Box<dyn Encoder>, String> {
    let ranks = model.ranks.as_ref().ok_or("its ids are not ranks")?;
    // Only the order of ranks counts, so they may begin at any number.
    let encoder = read_ranks(&ranks.file)?.into_iter().zip(ranks.first..).collect();
    let encoder = CoreBPE::new(encoder, Default::default(), &ranks.pattern).map_err(|error| error.to_string())?;
    Ok(Box::new(Tiktoken(encoder)))
}

impl Encoder for Tiktoken {
    fn encode(&mut self, text: &str) -> usize {
        self.0.encode_ordinary(text).len()
    }

    fn ids(&mut self, text: &str) -> Result<Vec<u32>, String> {
        Ok(self.0.encode_ordinary(text))
    }

    fn decode(&self, ids: &[u32]) -> Result<Vec<u8>, String> {
        self.0.decode_bytes(ids).map_err(|error| error.to_string())
    }
}
