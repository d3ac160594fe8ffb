//! The tokenizer's added tokens in text that the format or template wrote.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use aho_corasick::{AhoCorasick, MatchKind};
use rolecall_render::{Prompt, Trust};

use crate::tokenizer::AddedToken;
use crate::{Error, Tokenizer};

/// Finds added tokens as the reference does: those of raw text first, then those of normalized text in what is left.
pub(crate) struct Markers {
    passes: Vec<Pass>,
    /// Whether text is normalized before some of them are looked for, so that only the tokenizer itself can find them.
    is_left_to_tokenizer: bool,
    /// White space that a token takes: before it, and behind it.
    strips: HashMap<u32, (bool, bool)>,
    /// Tokens that no word may go on beside.
    alone: HashSet<u32>,
}

struct Pass {
    automaton: AhoCorasick,
    tokens: Vec<AddedToken>,
}

/// An added token and where it is written.
pub(crate) struct Marker {
    pub id: u32,
    pub span: Range<usize>,
}

impl Markers {
    pub fn new(tokenizer: &dyn Tokenizer) -> Markers {
        let (normalized, raw): (Vec<_>, Vec<_>) =
            tokenizer.added_tokens().iter().cloned().partition(|token| token.normalized);
        let is_left_to_tokenizer = !normalized.is_empty() && tokenizer.normalizes();
        let strips = tokenizer.added_tokens().iter().filter(|token| token.lstrip || token.rstrip);
        Markers {
            strips: strips.map(|token| (token.id, (token.lstrip, token.rstrip))).collect(),
            alone: tokenizer.added_tokens().iter().filter(|token| token.single_word).map(|token| token.id).collect(),
            passes: [raw, normalized].into_iter().filter_map(Pass::new).collect(),
            is_left_to_tokenizer,
        }
    }

    /// The added tokens that the format or template wrote in a run, in order. A token that only stands there because of a
    /// role of the conversation's own, a number or a filter is refused.
    pub fn find(&self, prompt: &Prompt, run: &Range<usize>, tokenizer: &dyn Tokenizer) -> Result<Vec<Marker>, Error> {
        let mut found = Vec::new();
        if self.passes.is_empty() {
            return Ok(found);
        }
        let stretches = prompt.stretches(run.clone());
        for (stretch, _) in stretches.iter().filter(|(_, trust)| *trust == Trust::Written) {
            self.find_in(prompt.text(), stretch, tokenizer, &mut found)?;
        }
        if stretches.iter().any(|(_, trust)| *trust == Trust::Built) {
            self.refuse_built(prompt, &stretches, &found, tokenizer)?;
        }
        Ok(found)
    }

    /// White space that a token takes before it and behind it.
    pub fn strips(&self, id: u32) -> (bool, bool) {
        self.strips.get(&id).copied().unwrap_or_default()
    }

    pub fn any_strips(&self) -> bool {
        !self.strips.is_empty()
    }

    fn find_in(
        &self,
        text: &str,
        stretch: &Range<usize>,
        tokenizer: &dyn Tokenizer,
        found: &mut Vec<Marker>,
    ) -> Result<(), Error> {
        if self.is_left_to_tokenizer {
            let mut tokens = Vec::new();
            tokenizer.find_added(&text[stretch.clone()], &mut tokens)?;
            let markers = tokens.into_iter().map(|token| {
                let span = stretch.start + token.start..stretch.start + token.end;
                Marker { id: token.id, span }
            });
            // The stretch ends where words of the conversation may go on.
            let stays = |marker: &Marker| !self.alone.contains(&marker.id) || stands_alone(text, &marker.span);
            found.extend(markers.filter(stays));
            return Ok(());
        }
        let first = found.len();
        for (number, pass) in self.passes.iter().enumerate() {
            if number == 0 {
                pass.find(text, stretch, found);
                continue;
            }
            // What the pass before has left.
            let taken: Vec<Range<usize>> = found[first..].iter().map(|marker| marker.span.clone()).collect();
            let mut from = stretch.start;
            for end in taken.iter().map(|span| span.start).chain([stretch.end]) {
                pass.find(text, &(from..end), found);
                from = taken.iter().find(|span| span.start == end).map_or(end, |span| span.end);
            }
            found[first..].sort_by_key(|marker| marker.span.start);
        }
        Ok(())
    }

    fn refuse_built(
        &self,
        prompt: &Prompt,
        stretches: &[(Range<usize>, Trust)],
        written: &[Marker],
        tokenizer: &dyn Tokenizer,
    ) -> Result<(), Error> {
        let mut found = Vec::new();
        for said in stretches.split(|(_, trust)| *trust == Trust::Said) {
            if let (Some((first, _)), Some((last, _))) = (said.first(), said.last()) {
                self.find_in(prompt.text(), &(first.start..last.end), tokenizer, &mut found)?;
            }
        }
        let is_built = |marker: &&Marker| {
            let first = stretches.partition_point(|(stretch, _)| stretch.end <= marker.span.start);
            let under = stretches[first..].iter().take_while(|(stretch, _)| stretch.start < marker.span.end);
            let is_known = written.binary_search_by_key(&marker.span.start, |known| known.span.start).is_ok();
            !is_known && under.into_iter().any(|(_, trust)| *trust == Trust::Built)
        };
        match found.iter().find(is_built) {
            None => Ok(()),
            Some(marker) => Err(Error::BuiltControl {
                token: prompt.text()[marker.span.clone()].to_owned(),
                id: marker.id,
                start: marker.span.start,
            }),
        }
    }
}

impl Pass {
    fn new(tokens: Vec<AddedToken>) -> Option<Pass> {
        let texts = tokens.iter().map(|token| token.text.as_str());
        // A set too large to search for is not searched for; no tokenizer file comes near.
        let automaton = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(texts).ok()?;
        (!tokens.is_empty()).then_some(Pass { automaton, tokens })
    }

    fn find(&self, text: &str, stretch: &Range<usize>, found: &mut Vec<Marker>) {
        for hit in self.automaton.find_iter(&text[stretch.clone()]) {
            let token = &self.tokens[hit.pattern().as_usize()];
            let span = stretch.start + hit.start()..stretch.start + hit.end();
            if !token.single_word || stands_alone(text, &span) {
                found.push(Marker { id: token.id, span });
            }
        }
    }
}

/// Whether no word goes on before or behind a span.
fn stands_alone(text: &str, span: &Range<usize>) -> bool {
    let is_word = |character: char| character.is_alphanumeric() || character == '_';
    !text[..span.start].chars().next_back().is_some_and(is_word)
        && !text[span.end..].chars().next().is_some_and(is_word)
}
