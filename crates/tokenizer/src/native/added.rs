use std::collections::HashSet;
use std::ops::Range;

use aho_corasick::{AhoCorasick, AhoCorasickKind, Input, MatchKind};
use foldhash::quality::RandomState;

/// Texts with more bytes in total are sought by a slower automaton, since the fastest takes up to a
/// kilobyte for each of them.
const MOST_FAST: usize = 1 << 14;

/// Added tokens at which a text is split: the leftmost, preferring the longest at each position.
pub(crate) struct AddedSearch {
    search: Option<(AhoCorasick, Vec<u32>)>,
}

impl AddedSearch {
    /// Creates a search for these texts. If a text occurs twice, its first number applies.
    pub fn new(tokens: Vec<(String, u32)>) -> Result<Self, String> {
        let mut seen: HashSet<&str, RandomState> = HashSet::default();
        let texts = tokens.iter().filter(|(text, _)| !text.is_empty());
        let tokens: Vec<&(String, u32)> = texts.filter(|(text, _)| seen.insert(text)).collect();
        if tokens.is_empty() {
            return Ok(Self { search: None });
        }
        let texts = tokens.iter().map(|(text, _)| text);
        let bytes: usize = tokens.iter().map(|(text, _)| text.len()).sum();
        let kind = (bytes > MOST_FAST).then_some(AhoCorasickKind::ContiguousNFA);
        let search = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).kind(kind).build(texts);
        let search = search.map_err(|_| "too many added tokens".to_owned())?;
        Ok(Self { search: Some((search, tokens.iter().map(|(_, id)| *id).collect())) })
    }

    pub fn is_empty(&self) -> bool {
        self.search.is_none()
    }

    /// Returns the first token at or after a place, and the bytes where it is.
    pub fn find(&self, text: &str, from: usize) -> Option<(u32, Range<usize>)> {
        let (search, ids) = self.search.as_ref()?;
        let found = search.find(Input::new(text).range(from..))?;
        Some((*ids.get(found.pattern().as_usize())?, found.range()))
    }

    /// Calls `visit` with the parts of a text from left to right, each with its id if it is one of
    /// the tokens.
    pub fn split<E>(
        &self,
        text: &str,
        mut visit: impl FnMut(Option<u32>, usize, usize) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut open = 0;
        if let Some((search, ids)) = &self.search {
            for found in search.find_iter(text) {
                if open < found.start() {
                    visit(None, open, found.start())?;
                }
                visit(ids.get(found.pattern().as_usize()).copied(), found.start(), found.end())?;
                open = found.end();
            }
        }
        if open < text.len() {
            visit(None, open, text.len())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::AddedSearch;

    #[test]
    fn long_texts_take_memory_in_proportion() {
        let text: String =
            (0x80..0x800).chain(0x800..0xD800).cycle().take(200_000).filter_map(char::from_u32).collect();
        let search = AddedSearch::new(vec![(text.clone(), 7), (text.clone(), 8)]).unwrap();
        let (automaton, _) = search.search.as_ref().unwrap();
        assert!(automaton.memory_usage() < 100 * text.len(), "{} of {}", automaton.memory_usage(), text.len());
        assert_eq!(search.find(&format!("a{text}b"), 0), Some((7, 1..1 + text.len())));
    }
}
