//! tokenizers: `encode_fast`, which returns no spans, without its special tokens.

use tokenizers::Tokenizer;
use tokenizers::pre_tokenizers::metaspace::{Metaspace, PrependScheme};

use super::Encoder;
use crate::model::Model;

struct Tokenizers(Tokenizer);

pub fn load(model: &Model) -> Result<Box<dyn Encoder>, String> {
    if !model.file.ends_with("tokenizer.json") {
        return Err("it reads no such file".to_owned());
    }
    let mut tokenizer = Tokenizer::from_file(&model.file).map_err(|error| error.to_string())?;
    tokenizer.set_encode_special_tokens(true);
    let config = std::fs::read(model.file.with_file_name("tokenizer_config.json")).unwrap_or_default();
    let config: serde_json::Value = serde_json::from_slice(&config).unwrap_or_default();
    // transformers: `legacy` decides where the prefix space goes.
    if let Some(legacy) = config["legacy"].as_bool()
        && tokenizer.get_pre_tokenizer().is_none()
    {
        let scheme = if legacy { PrependScheme::Always } else { PrependScheme::First };
        let none = None::<tokenizers::NormalizerWrapper>;
        tokenizer.with_normalizer(none).map_err(|error| error.to_string())?;
        tokenizer.with_pre_tokenizer(Some(Metaspace::new('\u{2581}', scheme, false)));
    }
    Ok(Box::new(Tokenizers(tokenizer)))
}

impl Encoder for Tokenizers {
    fn encode(&mut self, text: &str) -> usize {
        self.0.encode_fast(text, false).map_or(0, |encoding| encoding.len())
    }

    fn ids(&mut self, text: &str) -> Result<Vec<u32>, String> {
        let encoding = self.0.encode_fast(text, false).map_err(|error| error.to_string())?;
        Ok(encoding.get_ids().to_vec())
    }

    fn decode(&self, ids: &[u32]) -> Result<Vec<u8>, String> {
        self.0.decode(ids, false).map(String::into_bytes).map_err(|error| error.to_string())
    }
}
