//! Reads `tekken.json`: ranks along with the pattern. Control tokens come first, so an id is the
//! rank plus the number of control tokens.

use std::collections::HashSet;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::error::Category;

use super::base64::decode_base64;
use super::byte_pairs::BytePairs;
use super::facts::{Cutting, tekken_tokens};
use super::hugging_face::is_object;
use super::ranks::Ranks;
use super::{AddedToken, Beside, Error, HuggingFace};

const EXPECTED: &str = "a tekken.json";
/// The limit on control tokens in one file; real files have a thousand.
const MOST_SPECIAL: usize = 1 << 16;

/// Reports whether a JSON file is a tekken file.
pub fn is_tekken(json: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Head {
        config: Option<IgnoredAny>,
        vocab: Option<IgnoredAny>,
        model: Option<IgnoredAny>,
    }
    // Parse the file only if it contains this key. Every tokenizer.json is searched for it, so the search must be fast.
    is_object(json)
        && std::str::from_utf8(json).is_ok_and(|text| text.contains("\"token_bytes\""))
        && serde_json::from_slice::<Head>(json)
            .is_ok_and(|head| head.config.is_some() && head.vocab.is_some() && head.model.is_none())
}

#[derive(Deserialize)]
struct TekkenFile {
    config: Spec,
    vocab: Vec<TekkenToken>,
    special_tokens: Option<Vec<Special>>,
}

#[derive(Deserialize)]
struct Spec {
    pattern: String,
    default_vocab_size: usize,
    default_num_special_tokens: usize,
}

#[derive(Deserialize)]
struct TekkenToken {
    rank: u32,
    token_bytes: String,
}

#[derive(Deserialize)]
struct Special {
    rank: u32,
    token_str: String,
    /// Whether decoders omit the token from readable text.
    #[serde(default = "yes")]
    is_control: bool,
}

fn yes() -> bool {
    true
}

impl HuggingFace {
    /// Reads a `tekken.json`, with the `tokenizer_config.json` next to it if there is one.
    pub fn from_tekken<'a>(json: &[u8], beside: impl Into<Beside<'a>>) -> Result<Self, Error> {
        let file: TekkenFile = serde_json::from_slice(json).map_err(|error| match error.classify() {
            Category::Eof => Error::Truncated { expected: EXPECTED, offset: json.len() },
            Category::Data => Error::malformed("tekken.json", error.to_string()),
            Category::Syntax | Category::Io => Error::NotRecognized { expected: EXPECTED, why: error.to_string() },
        })?;
        let added = control_tokens(file.special_tokens, file.config.default_num_special_tokens)?;
        let size = file.config.default_vocab_size;
        let count = size.checked_sub(added.len()).filter(|&count| count <= file.vocab.len()).ok_or_else(|| {
            let why = format!("expected {size} tokens, found {} and {} control tokens", file.vocab.len(), added.len());
            Error::malformed("config.default_vocab_size", why)
        })?;
        let mut ranks = Ranks::default();
        for (index, token) in file.vocab.into_iter().take(count).enumerate() {
            let place = || format!("vocab[{index}]");
            if token.rank as usize != index {
                return Err(Error::malformed(place(), format!("expected rank {index}, found {}", token.rank)));
            }
            let bytes = decode_base64(&token.token_bytes)
                .ok_or_else(|| Error::malformed(format!("{}.token_bytes", place()), "not base64"))?;
            ranks.push(bytes, token.rank, place)?;
        }
        if let Some(byte) = ranks.missing_byte() {
            return Err(Error::malformed("vocab", format!("no token for byte 0x{byte:02X}")));
        }
        // The number of control tokens was checked above.
        let vocabulary = ranks.vocabulary(added.len() as u32);
        let merges = ranks.merges()?;
        // tiktoken: a word that is a token is encoded as that token.
        let cutting = Cutting { cuts: vec![file.config.pattern], whole: true, ..Cutting::default() };
        BytePairs { vocabulary, merges, cutting, added, ..BytePairs::default() }.into_tokenizer(beside.into())
    }
}

/// Returns the file's own control tokens or the published ones, with generated names for the
/// remaining ids.
fn control_tokens(listed: Option<Vec<Special>>, count: usize) -> Result<Vec<AddedToken>, Error> {
    if count > MOST_SPECIAL {
        let why = format!("expected at most {MOST_SPECIAL}, found {count}");
        return Err(Error::malformed("config.default_num_special_tokens", why));
    }
    let (published, numbered) = tekken_tokens();
    let of_published = |(rank, token_str)| Special { rank, token_str, is_control: true };
    let listed = listed.unwrap_or_else(|| (0..).zip(published).map(of_published).collect());
    if listed.len() > count {
        let why = format!("found {} tokens, but config.default_num_special_tokens is {count}", listed.len());
        return Err(Error::malformed("special_tokens", why));
    }
    let mut seen = HashSet::new();
    let mut added = Vec::with_capacity(count);
    for (index, token) in listed.into_iter().enumerate() {
        let place = || format!("special_tokens[{index}]");
        if token.rank as usize != index {
            return Err(Error::malformed(place(), format!("expected rank {index}, found {}", token.rank)));
        }
        if token.token_str.is_empty() || !seen.insert(token.token_str.clone()) {
            return Err(Error::malformed(place(), format!("`{}` is empty or a duplicate", token.token_str)));
        }
        added.push(AddedToken { special: token.is_control, ..AddedToken::special(token.token_str, token.rank) });
    }
    for id in added.len()..count {
        let text = numbered.replace("{id}", &id.to_string());
        if !seen.insert(text.clone()) {
            return Err(Error::malformed("special_tokens", format!("`{text}` is reserved as the name of id {id}")));
        }
        added.push(AddedToken::special(text, id as u32));
    }
    Ok(added)
}
