use tokenizers::normalizer::Range;
use tokenizers::{NormalizedString, Normalizer, NormalizerWrapper, PreTokenizedString, Token};

use super::super::{AddedToken, Error};
use super::unencodable;

/// The added tokens that are text (runs of spaces, doubled dashes): matched in content as the reference matches them.
pub(super) struct PlainTokens {
    raw: Vec<(String, u32)>,
    /// Those matched in normalized text, spelled as normalized.
    normalized: Vec<(String, u32)>,
}

impl PlainTokens {
    pub fn new(tokens: Vec<AddedToken>, normalizer: Option<&NormalizerWrapper>) -> Result<Self, Error> {
        let mut plain = Self { raw: Vec::new(), normalized: Vec::new() };
        for token in tokens {
            if !token.normalized {
                plain.raw.push((token.text, token.id));
                continue;
            }
            let mut text = NormalizedString::from(token.text.as_str());
            if let Some(normalizer) = normalizer {
                normalizer.normalize(&mut text).map_err(unencodable)?;
            }
            plain.normalized.push((text.get().to_owned(), token.id));
        }
        for list in [&mut plain.raw, &mut plain.normalized] {
            list.retain(|(text, _)| !text.is_empty());
            // Longest first: at one position the longest match wins.
            list.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        }
        Ok(plain)
    }

    pub fn split_raw(&self, run: &mut PreTokenizedString) -> Result<(), Error> {
        split(run, &self.raw)
    }

    pub fn split_normalized(&self, run: &mut PreTokenizedString) -> Result<(), Error> {
        split(run, &self.normalized)
    }
}

fn split(run: &mut PreTokenizedString, tokens: &[(String, u32)]) -> Result<(), Error> {
    if tokens.is_empty() {
        return Ok(());
    }
    run.split(|_, text| {
        let mut parts = Vec::new();
        for (start, end, id) in find(text.get(), tokens) {
            let part = text.slice(Range::Normalized(start..end)).ok_or("an added token cuts a character")?;
            let token = id.map(|id| vec![Token::new(id, part.get().to_owned(), (0, end - start))]);
            parts.push((part, token));
        }
        Ok(parts)
    })
    .map_err(unencodable)
}

/// The parts of a text, left to right, each with its id if it is one of the tokens.
fn find(text: &str, tokens: &[(String, u32)]) -> Vec<(usize, usize, Option<u32>)> {
    let mut parts = Vec::new();
    let mut open = 0;
    let mut at = 0;
    while let Some(next) = text[at..].chars().next() {
        match tokens.iter().find(|(token, _)| text[at..].starts_with(token.as_str())) {
            Some((token, id)) => {
                if open < at {
                    parts.push((open, at, None));
                }
                parts.push((at, at + token.len(), Some(*id)));
                at += token.len();
                open = at;
            }
            None => at += next.len_utf8(),
        }
    }
    if open < text.len() {
        parts.push((open, text.len(), None));
    }
    parts
}
