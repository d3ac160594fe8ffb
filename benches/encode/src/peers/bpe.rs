//! bpe-openai, from ranks, with the pattern rewritten as its own are.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};

use bpe_openai::Tokenizer;
use bpe_openai::byte_pair_encoding::{BytePairEncoding, find_hash_factor_for_dictionary};

use super::{Encoder, read_ranks};
use crate::model::Model;

struct Bpe {
    tokenizer: Tokenizer,
    /// The id of rank 0.
    first: u32,
}

/// The end of all patterns. The library has no negative look-ahead, and its own patterns replace
/// this end in the same way.
const SPACES: &str = r"|\s+(?!\S)|\s+";

pub fn load(model: &Model) -> Result<Box<dyn Encoder>, String> {
    let ranks = model.ranks.as_ref().ok_or("its ids are not ranks")?;
    let pattern = ranks.pattern.strip_suffix(SPACES).ok_or("it has another pattern")?;
    let tokens = read_ranks(&ranks.file)?;
    let factor = hash_factor(&ranks.file, &tokens);
    let encoding = BytePairEncoding::from_dictionary(tokens, Some(factor));
    let patterns = [(&*format!(r"{pattern}|\s+$"), false), (r"\s+\s", true), (r"\s+", false)];
    let tokenizer = Tokenizer::new_lookahead(encoding, &patterns, ranks.nfc).map_err(|error| error.to_string())?;
    Ok(Box::new(Bpe { tokenizer, first: ranks.first }))
}

/// Returns a factor with which no hashes of tokens collide. The library recommends to store it, so
/// it is searched once for each file.
fn hash_factor(file: &Path, tokens: &[Vec<u8>]) -> u64 {
    static FACTORS: LazyLock<Mutex<HashMap<PathBuf, u64>>> = LazyLock::new(Mutex::default);
    let mut factors = FACTORS.lock().unwrap_or_else(PoisonError::into_inner);
    *factors.entry(file.to_owned()).or_insert_with(|| find_hash_factor_for_dictionary(tokens.to_vec()))
}

impl Encoder for Bpe {
    fn encode(&mut self, text: &str) -> usize {
        self.tokenizer.encode(text).len()
    }

    fn ids(&mut self, text: &str) -> Result<Vec<u32>, String> {
        Ok(self.tokenizer.encode(text).iter().map(|id| id + self.first).collect())
    }

    fn decode(&self, ids: &[u32]) -> Result<Vec<u8>, String> {
        let ids: Vec<u32> = ids.iter().map(|id| id - self.first).collect();
        Ok(self.tokenizer.bpe.decode_tokens(&ids))
    }
}
