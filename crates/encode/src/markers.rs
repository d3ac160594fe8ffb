//! Finds protected tokens in text that the format or template wrote.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;

use aho_corasick::{AhoCorasick, MatchKind};
use rolecall_render::{Prompt, Trust};

use crate::{Error, Protect, ProtectedTokens};
use rolecall_tokenizer::{AddedToken, Tokenizer, is_space, stands_alone};

/// Finds added tokens as the reference does: first those that match raw text, then those that match
/// normalized text in the rest. The protected ones among them are markers, and the others are text.
pub(crate) struct Markers {
    passes: Vec<Pass>,
    /// Protected words of the vocabulary, if the tokenizer itself finds the added tokens.
    words: Option<Pass>,
    markers: BTreeSet<u32>,
    /// Added tokens that no literal of the template spells, so the template should not write them.
    foreign: BTreeSet<u32>,
    /// Whether text is normalized before some of the tokens are matched, so that only the tokenizer
    /// itself can find them.
    is_left_to_tokenizer: bool,
    /// Whether a token absorbs the white space before it and the white space after it.
    strips: HashMap<u32, (bool, bool)>,
    /// Tokens that must not be adjacent to a word.
    alone: BTreeSet<u32>,
}

struct Pass {
    automaton: AhoCorasick,
    tokens: Vec<AddedToken>,
}

/// An added token and its position.
pub(crate) struct Marker {
    pub id: u32,
    pub span: Range<usize>,
}

impl Markers {
    pub fn new(tokenizer: &dyn Tokenizer, protected: &ProtectedTokens, mode: Protect) -> Markers {
        let added: Vec<AddedToken> = tokenizer.added_tokens().iter().cloned().chain(tokenizer.text_tokens()).collect();
        let ids: HashSet<u32> = added.iter().map(|token| token.id).collect();
        let words = protected.tokens().filter(|token| !ids.contains(&token.id));
        let words: Vec<AddedToken> = words.map(|token| AddedToken::special(token.text.clone(), token.id)).collect();
        // If the config lists the protected tokens, or all added tokens are protected, no token is
        // unforeseen.
        let is_foreign = |token: &&AddedToken| !protected.contains(token.id) && !is_space(&token.text);
        let foreign = match (mode, tokenizer.chat_control_tokens()) {
            (Protect::Control, None) => added.iter().filter(is_foreign).map(|token| token.id).collect(),
            _ => BTreeSet::new(),
        };
        let (normalized, mut raw): (Vec<_>, Vec<_>) = added.into_iter().partition(|token| token.normalized);
        let is_left_to_tokenizer = !normalized.is_empty() && tokenizer.normalizes();
        if !is_left_to_tokenizer {
            raw.extend(words.iter().cloned());
        }
        let strips = tokenizer.added_tokens().iter().filter(|token| token.lstrip || token.rstrip);
        Markers {
            strips: strips.map(|token| (token.id, (token.lstrip, token.rstrip))).collect(),
            alone: tokenizer.added_tokens().iter().filter(|token| token.single_word).map(|token| token.id).collect(),
            markers: protected.tokens().map(|token| token.id).collect(),
            foreign,
            words: Pass::new(words).filter(|_| is_left_to_tokenizer),
            passes: [raw, normalized].into_iter().filter_map(Pass::new).collect(),
            is_left_to_tokenizer,
        }
    }

    /// Returns the added tokens that the format or template wrote in a run, in order. Fails if a
    /// token only exists because of a nonstandard role, a number or a filter.
    pub fn find(&self, prompt: &Prompt, run: &Range<usize>, tokenizer: &dyn Tokenizer) -> Result<Vec<Marker>, Error> {
        let mut found = Vec::with_capacity(8);
        if self.passes.is_empty() && self.words.is_none() {
            return Ok(found);
        }
        let stretches = prompt.stretches(run.clone());
        for (stretch, _) in stretches.iter().filter(|(_, trust)| *trust == Trust::Written) {
            self.find_in(prompt.text(), stretch, tokenizer, &mut found)?;
        }
        self.refuse_foreign(prompt, &found)?;
        found.retain(|marker| self.markers.contains(&marker.id));
        if stretches.iter().any(|(_, trust)| *trust == Trust::Built) {
            self.refuse_built(prompt, &stretches, &found, tokenizer)?;
        }
        Ok(found)
    }

    /// Reports whether a token absorbs the white space before it and the white space after it.
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
        if !self.is_left_to_tokenizer {
            let first = found.len();
            self.find_by_passes(text, stretch, first, found);
            return Ok(());
        }
        let mut words = Vec::new();
        if let Some(pass) = &self.words {
            pass.find(text, stretch, &mut words);
        }
        let mut from = stretch.start;
        for word in words {
            found.extend(self.markers_between(text, from..word.span.start, tokenizer)?);
            from = word.span.end;
            found.push(word);
        }
        found.extend(self.markers_between(text, from..stretch.end, tokenizer)?);
        Ok(())
    }

    /// Returns the markers that the tokenizer finds in part of a text.
    fn markers_between(
        &self,
        text: &str,
        part: Range<usize>,
        tokenizer: &dyn Tokenizer,
    ) -> Result<impl Iterator<Item = Marker>, Error> {
        let mut tokens = Vec::new();
        if !part.is_empty() {
            tokenizer.find_added(&text[part.clone()], &mut tokens)?;
        }
        let markers = tokens.into_iter().map(move |token| {
            let Range { start, end } = token.range();
            let span = part.start + start..part.start + end;
            Marker { id: token.id, span }
        });
        // The part may end where a word of the conversation continues.
        Ok(markers.filter(|marker| !self.alone.contains(&marker.id) || stands_alone(text, &marker.span)))
    }

    fn find_by_passes(&self, text: &str, stretch: &Range<usize>, first: usize, found: &mut Vec<Marker>) {
        for (number, pass) in self.passes.iter().enumerate() {
            if number == 0 {
                pass.find(text, stretch, found);
                continue;
            }
            // Search only the text that the previous pass has left.
            let taken: Vec<Range<usize>> = found[first..].iter().map(|marker| marker.span.clone()).collect();
            let mut from = stretch.start;
            for end in taken.iter().map(|span| span.start).chain([stretch.end]) {
                pass.find(text, &(from..end), found);
                from = taken.iter().find(|span| span.start == end).map_or(end, |span| span.end);
            }
            found[first..].sort_by_key(|marker| marker.span.start);
        }
    }

    /// Rejects a token that the template wrote although none of its literals spells it. Such a
    /// token is not protected, so a message could write it too.
    fn refuse_foreign(&self, prompt: &Prompt, found: &[Marker]) -> Result<(), Error> {
        // A role that happens to spell a token is not a literal.
        let is_written = |marker: &Marker| prompt.segments_in(marker.span.clone()).any(|part| part.origin.is_format());
        match found.iter().find(|marker| self.foreign.contains(&marker.id) && is_written(marker)) {
            None => Ok(()),
            Some(marker) => Err(Error::UnforeseenControl {
                token: prompt.text()[marker.span.clone()].to_owned(),
                id: marker.id,
                start: marker.span.start,
            }),
        }
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
            let is_control = self.markers.contains(&marker.id)
                || self.foreign.contains(&marker.id) && is_composed(prompt, &marker.span);
            !is_known && is_control && under.into_iter().any(|(_, trust)| *trust == Trust::Built)
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
        // A set that is too large to build is not searched. No tokenizer file comes near that
        // limit.
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

/// Reports whether a text is more than a lone role, number or word, which are allowed to spell a
/// token.
fn is_composed(prompt: &Prompt, span: &Range<usize>) -> bool {
    let is_word = prompt.text()[span.clone()].chars().all(char::is_alphanumeric);
    !is_word && prompt.segments_in(span.clone()).any(|part| part.origin.is_format())
}
