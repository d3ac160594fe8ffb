use std::ops::Range;

use aho_corasick::{AhoCorasick, Input, MatchKind};

/// Added tokens at which a text is split: the leftmost, preferring the longest at each position.
pub(crate) struct AddedSearch {
    search: Option<(AhoCorasick, Vec<u32>)>,
}

impl AddedSearch {
    pub fn new(tokens: Vec<(String, u32)>) -> Result<Self, String> {
        let tokens: Vec<_> = tokens.into_iter().filter(|(text, _)| !text.is_empty()).collect();
        if tokens.is_empty() {
            return Ok(Self { search: None });
        }
        let texts = tokens.iter().map(|(text, _)| text);
        let search = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(texts);
        let search = search.map_err(|_| "too many added tokens".to_owned())?;
        Ok(Self { search: Some((search, tokens.iter().map(|&(_, id)| id).collect())) })
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
