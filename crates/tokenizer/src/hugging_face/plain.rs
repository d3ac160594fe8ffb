use aho_corasick::{AhoCorasick, MatchKind};
use tokenizers::normalizer::Range;
use tokenizers::{NormalizedString, Normalizer, NormalizerWrapper, PreTokenizedString, Token};

use super::super::{AddedToken, Error, stands_alone};

/// The added tokens that text may encode to, matched in content as the reference matches them.
pub(super) struct PlainTokens {
    raw: Matcher,
    /// The tokens that are matched against normalized text, with normalized spelling.
    normalized: Matcher,
}

/// A text to search for and its token.
type Entry = (String, AddedToken);

/// Finds the leftmost of several texts, preferring the longest at each position.
struct Matcher {
    search: Option<AhoCorasick>,
    tokens: Vec<AddedToken>,
}

impl PlainTokens {
    pub fn new(tokens: Vec<AddedToken>, normalizer: Option<&NormalizerWrapper>) -> Result<Self, Error> {
        let (mut raw, mut normalized): (Vec<Entry>, Vec<Entry>) = (Vec::new(), Vec::new());
        for token in tokens {
            if !token.normalized {
                raw.push((token.text.clone(), token));
                continue;
            }
            let mut text = NormalizedString::from(token.text.as_str());
            if let Some(normalizer) = normalizer {
                normalizer.normalize(&mut text).map_err(Error::unencodable)?;
            }
            normalized.push((text.get().to_owned(), token));
        }
        Ok(Self { raw: Matcher::new(raw)?, normalized: Matcher::new(normalized)? })
    }

    pub fn split_raw(&self, run: &mut PreTokenizedString) -> Result<(), Error> {
        self.raw.split(run)
    }

    pub fn split_normalized(&self, run: &mut PreTokenizedString) -> Result<(), Error> {
        self.normalized.split(run)
    }
}

impl Matcher {
    fn new(mut entries: Vec<Entry>) -> Result<Self, Error> {
        entries.retain(|(text, _)| !text.is_empty());
        let search = match entries.is_empty() {
            true => None,
            false => {
                let texts = entries.iter().map(|(text, _)| text);
                let search = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(texts);
                Some(search.map_err(|error| Error::malformed("added_tokens", error.to_string()))?)
            }
        };
        Ok(Self { search, tokens: entries.into_iter().map(|(_, token)| token).collect() })
    }

    fn split(&self, run: &mut PreTokenizedString) -> Result<(), Error> {
        let Some(search) = &self.search else { return Ok(()) };
        run.split(|_, text| {
            let mut parts = Vec::new();
            for (start, end, id) in self.find(search, text.get()) {
                let part = text.slice(Range::Normalized(start..end)).ok_or("an added token splits a character")?;
                let token = id.map(|id| vec![Token::new(id, part.get().to_owned(), (0, end - start))]);
                parts.push((part, token));
            }
            Ok(parts)
        })
        .map_err(Error::unencodable)
    }

    /// Returns the parts of a text from left to right, each with its id if it is one of the tokens.
    fn find(&self, search: &AhoCorasick, text: &str) -> Vec<(usize, usize, Option<u32>)> {
        let mut parts = Vec::new();
        let mut open = 0;
        for found in search.find_iter(text) {
            let token = &self.tokens[found.pattern().as_usize()];
            let (mut start, mut end) = (found.start(), found.end());
            if token.single_word && !stands_alone(text, &(start..end)) {
                continue;
            }
            if token.lstrip {
                start = text[..start].trim_end().len().max(open);
            }
            if token.rstrip {
                end = text.len() - text[end..].trim_start().len();
            }
            // The previous token keeps the white space that it absorbed.
            start = start.max(open);
            if start >= end {
                continue;
            }
            if open < start {
                parts.push((open, start, None));
            }
            parts.push((start, end, Some(token.id)));
            open = end;
        }
        if open < text.len() {
            parts.push((open, text.len(), None));
        }
        parts
    }
}
