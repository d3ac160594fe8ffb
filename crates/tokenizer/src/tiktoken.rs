//! Reads rank files as tiktoken does, with one line `base64 rank` per token.
//!
//! Rank files contain no pattern and no control tokens. These come from the config next to the
//! file, or else from published facts.

use std::collections::HashSet;

use serde::Deserialize;

use super::base64::decode_base64;
use super::byte_pairs::BytePairs;
use super::config::Config;
use super::facts::{Cutting, KnownRanks, known_ranks};
use super::ranks::Ranks;
use super::{AddedToken, Beside, Error, HuggingFace};

const EXPECTED: &str = "lines with a base64 token and its rank";

/// Reports whether a file begins like a rank file.
pub fn is_tiktoken(bytes: &[u8]) -> bool {
    let start = &bytes[..bytes.len().min(4096)];
    let line = start.split(|&byte| byte == b'\n').next().unwrap_or_default();
    matches!(std::str::from_utf8(line).map(|line| read_line(line.trim_end())), Ok(Some(_)))
}

impl HuggingFace {
    /// Reads a rank file as tiktoken does, with the `tokenizer_config.json` next to it.
    ///
    /// Control tokens come from the config's `added_tokens_decoder`, and the pattern from its
    /// `pat_str`. Anything that the config leaves out comes from published facts if the file is a
    /// known one.
    pub fn from_tiktoken<'a>(bytes: &[u8], beside: impl Into<Beside<'a>>) -> Result<Self, Error> {
        let beside = beside.into();
        let (ranks, last) = read_ranks(bytes)?;
        let said: TiktokenConfig = match beside.config {
            Some(config) => {
                serde_json::from_slice(config).map_err(|e| Error::malformed("tokenizer_config.json", e.to_string()))?
            }
            None => TiktokenConfig::default(),
        };
        let known = known_ranks(ranks.len(), last, said.tokenizer_class.as_deref());
        let KnownRanks { cutting, special, numbered } = known.unwrap_or_default();
        let cutting = match said.pat_str {
            Some(pattern) => Cutting { cuts: vec![pattern], ..cutting },
            None if cutting.cuts.is_empty() => return Err(Error::NoPattern { tokens: ranks.len() }),
            None => cutting,
        };
        if let Some(byte) = ranks.missing_byte() {
            return Err(Error::malformed("ranks", format!("no token for byte 0x{byte:02X}")));
        }
        let vocabulary = ranks.vocabulary(0);
        let added = added_tokens(&vocabulary, Config::beside(beside.clone())?.added, special, numbered);
        let merges = ranks.merges()?;
        BytePairs { vocabulary, merges, cutting, added, ..BytePairs::default() }.into_tokenizer(beside)
    }
}

#[derive(Default, Deserialize)]
struct TiktokenConfig {
    #[serde(alias = "pattern")]
    pat_str: Option<String>,
    tokenizer_class: Option<String>,
}

/// Returns the config's tokens, and the published program's tokens for the remaining ids and texts.
fn added_tokens(
    vocabulary: &[(String, u32)],
    mut added: Vec<AddedToken>,
    special: Vec<(String, u32)>,
    numbered: Vec<(String, u32)>,
) -> Vec<AddedToken> {
    let mut ids: HashSet<u32> = vocabulary.iter().map(|&(_, id)| id).collect();
    ids.extend(added.iter().map(|token| token.id));
    let mut texts: HashSet<String> = added.iter().map(|token| token.text.clone()).collect();
    for (text, id) in special.into_iter().chain(numbered) {
        if !texts.contains(&text) && ids.insert(id) {
            texts.insert(text.clone());
            added.push(AddedToken::special(text, id));
        }
    }
    added
}

/// Returns the ranks, and the last token as written in the file.
fn read_ranks(bytes: &[u8]) -> Result<(Ranks, &str), Error> {
    let text = std::str::from_utf8(bytes).map_err(|error| Error::NotRecognized {
        expected: EXPECTED,
        why: format!("the bytes are not UTF-8 from byte {} on", error.valid_up_to()),
    })?;
    let mut ranks = Ranks::default();
    let mut last = "";
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        let place = || format!("line {number}");
        let Some((written, token, rank)) = read_line(line.trim()) else {
            // A truncated file ends without its last line break.
            let is_cut = !text.ends_with('\n') && number == text.lines().count();
            return Err(match is_cut {
                true => Error::Truncated { expected: EXPECTED, offset: bytes.len() },
                false => Error::malformed(place(), "expected a base64 token, a space and its rank"),
            });
        };
        ranks.push(token, rank, place)?;
        last = written;
    }
    if ranks.len() == 0 {
        return Err(Error::NotRecognized { expected: EXPECTED, why: "the file has no such line".to_owned() });
    }
    Ok((ranks, last))
}

fn read_line(line: &str) -> Option<(&str, Vec<u8>, u32)> {
    let (token, rank) = line.split_once(' ')?;
    let rank = rank.bytes().all(|byte| byte.is_ascii_digit()).then(|| rank.parse().ok())??;
    Some((token, decode_base64(token)?, rank))
}

#[cfg(test)]
mod tests {
    use super::added_tokens;

    #[test]
    fn neither_a_text_nor_an_id_is_added_twice() {
        let named = |text: &str, id| (text.to_owned(), id);
        let added = added_tokens(
            &[named("word", 1)],
            Vec::new(),
            vec![named("<a>", 1), named("<a>", 2), named("<a>", 3)],
            vec![named("<b>", 2), named("<b>", 4), named("<a>", 5)],
        );
        let found: Vec<(&str, u32)> = added.iter().map(|token| (token.text.as_str(), token.id)).collect();
        assert_eq!(found, [("<a>", 2), ("<b>", 4)]);
    }
}
