//! rolecall: ids with spans, into a reused list.

use std::sync::Arc;

use rolecall::encode::Decoder;
use rolecall::tokenizer::{TextPlace, Token, Tokenizer, load as load_tokenizer};

use super::Encoder;
use crate::model::Model;

struct Rolecall {
    tokenizer: Arc<dyn Tokenizer>,
    decoder: Decoder,
    tokens: Vec<Token>,
}

pub fn load(model: &Model) -> Result<Box<dyn Encoder>, String> {
    let tokenizer: Arc<dyn Tokenizer> = load_tokenizer(&model.file).map_err(|error| error.to_string())?.into();
    Ok(Box::new(Rolecall { decoder: Decoder::new(tokenizer.clone()), tokenizer, tokens: Vec::new() }))
}

impl Encoder for Rolecall {
    fn encode(&mut self, text: &str) -> usize {
        self.tokens.clear();
        self.tokenizer.encode_ordinary(text, TextPlace::Start, &mut self.tokens).expect("it encodes all texts");
        self.tokens.len()
    }

    fn ids(&mut self, text: &str) -> Result<Vec<u32>, String> {
        self.encode(text);
        Ok(self.tokens.iter().map(|token| token.id).collect())
    }

    fn decode(&self, ids: &[u32]) -> Result<Vec<u8>, String> {
        self.decoder.decode(ids).map_err(|error| error.to_string())
    }
}
