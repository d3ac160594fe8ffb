//! rolecall, into a reused list: ids, like its peers, or ids with spans.

use std::sync::Arc;

use rolecall::encode::Decoder;
use rolecall::tokenizer::{TextPlace, Token, Tokenizer, load as load_tokenizer};

use super::Encoder;
use crate::model::Model;

/// What rolecall returns for each token.
#[derive(Clone, Copy)]
pub enum Output {
    Ids,
    Tokens,
}

struct Rolecall {
    tokenizer: Arc<dyn Tokenizer>,
    decoder: Decoder,
    output: Output,
    ids: Vec<u32>,
    tokens: Vec<Token>,
}

pub fn load(model: &Model, output: Output) -> Result<Box<dyn Encoder>, String> {
    let tokenizer: Arc<dyn Tokenizer> = load_tokenizer(&model.file).map_err(|error| error.to_string())?.into();
    let decoder = Decoder::new(tokenizer.clone());
    Ok(Box::new(Rolecall { tokenizer, decoder, output, ids: Vec::new(), tokens: Vec::new() }))
}

impl Encoder for Rolecall {
    fn encode(&mut self, text: &str) -> usize {
        self.ids.clear();
        self.tokens.clear();
        match self.output {
            Output::Ids => self.tokenizer.encode_ids(text, TextPlace::Start, &mut self.ids),
            Output::Tokens => self.tokenizer.encode_ordinary(text, TextPlace::Start, &mut self.tokens),
        }
        .expect("it encodes all texts");
        self.ids.len() + self.tokens.len()
    }

    fn ids(&mut self, text: &str) -> Result<Vec<u32>, String> {
        self.encode(text);
        let of_tokens = self.tokens.iter().map(|token| token.id);
        Ok(self.ids.iter().copied().chain(of_tokens).collect())
    }

    fn decode(&self, ids: &[u32]) -> Result<Vec<u8>, String> {
        self.decoder.decode(ids).map_err(|error| error.to_string())
    }
}
