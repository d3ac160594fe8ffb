//! Encodes text with a BPE tokenizer as the reference crate does, many times faster.
//!
//! `added` splits at added tokens, `normalization` composes characters, `words` or `joints` split
//! the rest into words, and `bpe` merges them, unless `memory` knows their tokens. `words` reads text
//! in the blocks of `block_words`, as far as `proved_rules` shows that the pattern does the same as
//! the `word_rules`, and other text with the table of `scanner`, at the places of `lanes` at once.
//! `pieces` divides a long text between processors. When a file is loaded, `hugging_face/covered.rs`
//! decides whether this engine covers it; if not, the reference crate encodes. Start reading at
//! [`Native::encode`].

pub(super) mod added;
pub(super) mod alphabet;
pub(super) mod automaton;
mod block_words;
pub(super) mod bpe;
pub(super) mod byte_joints;
mod char_block;
mod char_classes;
mod char_window;
pub(super) mod forged;
pub(super) mod joints;
mod kept;
mod lanes;
mod large_table;
mod long_words;
pub(super) mod memory;
pub(super) mod merges;
mod normalization;
mod pair_set;
pub(super) mod pattern;
pub(super) mod pieces;
mod proved_rules;
mod scanner;
mod short_words;
pub(crate) mod whole_characters;
mod word_cache;
mod word_rules;
pub(super) mod words;

use std::convert::Infallible;
use std::ops::ControlFlow;
use std::sync::Arc;

use self::added::AddedSearch;
use self::automaton::TooHard;
use self::bpe::Bpe;
pub(super) use self::bpe::{Reading, Tables};
use self::joints::Joints;
pub(super) use self::kept::Kept;
use self::lanes::Lanes;
use self::memory::Memory;
pub(super) use self::memory::MemoryOwner;
pub(super) use self::normalization::NormalizedText;
use self::pieces::{Destination, LONG_TEXT, LongText};
use self::words::Words;
use super::{Error, LONGEST_TEXT, TextPlace, Token};

/// Our own byte-pair encoder.
pub(super) struct Native {
    pub core: Arc<Core>,
    pub bpe: Bpe,
    /// The added tokens that text may encode to, matched in raw text and in normalized text.
    pub plain: [AddedSearch; 2],
    pub owner: MemoryOwner,
}

/// The parts that do not depend on which tokens are kept out of text.
pub(super) struct Core {
    pub composes: bool,
    pub normalizer_replaces: bool,
    pub prefix: Prefix,
    pub cuts: Cuts,
    pub tables: Arc<Tables>,
    /// All added tokens, if the reference's handling of them is covered.
    pub added: Option<[AddedSearch; 2]>,
}

/// The prefix added to a text.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Prefix {
    Nothing,
    /// A character that represents a space, unless the text begins with one.
    Space {
        character: char,
        first_only: bool,
    },
    /// The same character in every case.
    AnotherSpace {
        character: char,
    },
}

/// How a text is split into words.
pub(super) enum Cuts {
    Words(Words),
    Joints(Joints),
    /// Not at all.
    None,
}

impl Cuts {
    /// Calls `visit` with runs of neighboring words: the start of the first and the end of each.
    fn split(
        &self,
        text: &str,
        range: (usize, usize),
        lanes: &mut Lanes,
        visit: &mut impl FnMut(usize, &[u32]) -> ControlFlow<()>,
    ) -> Result<(), NativeRefusal> {
        match self {
            Self::Words(words) => {
                words.split(text, range, lanes, visit).map_err(|TooHard| NativeRefusal::NotCovered)?
            }
            Self::Joints(joints) => joints.split(text, range, visit),
            Self::None => {
                // Nothing is left to stop.
                let _ = visit(range.0, &[range.1 as u32]);
            }
        }
        Ok(())
    }

    /// Returns a place between two positions at which a word begins, whatever precedes it.
    fn find_place(&self, text: &str, from: usize, to: usize) -> Option<usize> {
        match self {
            Self::Words(words) => words.find_place(text, from, to),
            Self::Joints(joints) => joints.find_place(text, from, to),
            Self::None => None,
        }
    }
}

/// The reason why a text was not encoded.
pub(super) enum NativeRefusal {
    /// The reference crate must encode it; nothing was appended.
    NotCovered,
    Error(Error),
}

/// The number of tokens to hand over at once when tokens are taken in parts.
pub(super) const PART: usize = 1 << 12;

/// The destination for the tokens of a text.
pub(super) struct Out<'a, K> {
    tokens: &'a mut Vec<K>,
    /// The index of the first token that belongs to this text and has not been handed over.
    first: usize,
    /// Whether some of the text may lie outside all spans.
    may_have_gaps: bool,
    take: Option<Take<'a, K>>,
    /// The number of tokens after which the rest of the text does not matter.
    most: usize,
}

/// The receiver of tokens that are handed over.
type Take<'a, K> = &'a mut dyn FnMut(&[K]);

impl<'a> Out<'a, Token> {
    /// Hands tokens over in parts, including the last ones.
    pub fn in_parts(tokens: &'a mut Vec<Token>, take: Take<'a, Token>) -> Self {
        tokens.clear();
        Self { first: 0, tokens, may_have_gaps: false, take: Some(take), most: usize::MAX }
    }
}

impl<'a, K: Kept> Out<'a, K> {
    /// Appends the tokens to those already present.
    pub fn behind(tokens: &'a mut Vec<K>) -> Self {
        Self { first: tokens.len(), tokens, may_have_gaps: false, take: None, most: usize::MAX }
    }

    /// Stops once there are more tokens.
    pub fn at_most(self, most: usize) -> Self {
        Self { most, ..self }
    }

    fn is_over(&self) -> bool {
        self.take.is_none() && self.tokens.len() - self.first > self.most
    }

    fn is_full(&self) -> bool {
        self.take.is_some() && self.tokens.len() >= PART
    }

    /// Hands the tokens over; the next token begins at `end`.
    fn hand_over(&mut self, text: &str, end: usize) {
        if self.may_have_gaps {
            crate::combining::cover_marks(text, end, K::spans(&mut self.tokens[self.first..]));
        }
        if let Some(take) = &mut self.take {
            take(self.tokens);
            self.tokens.clear();
        }
    }
}

/// The part of a text between two added tokens, after normalization.
#[derive(Clone, Copy)]
struct Section<'a> {
    whole: &'a str,
    /// The byte offset of the section in the whole text.
    start: usize,
    form: &'a NormalizedText<'a>,
}

impl Section<'_> {
    /// Maps a token of the normalized section to its position in the whole text.
    fn place(&self, token: Token) -> Token {
        let mut tokens = [token];
        self.place_all(&mut tokens);
        tokens[0]
    }

    /// Maps tokens of the normalized section, left to right.
    fn place_all(&self, tokens: &mut [Token]) {
        let mut near = 0;
        for token in tokens {
            let (from, to) = self.form.original_near(&mut near, token.start as usize, token.end as usize);
            *token = Token::covering(token.id, (from + self.start, to + self.start), self.whole);
        }
    }
}

/// The destination for the tokens of a section.
struct SectionOut<'a, 'b, 'c, K> {
    section: Section<'a>,
    out: &'c mut Out<'b, K>,
    /// The index of the first token whose position is not yet one in the whole text.
    from: usize,
}

impl<K: Kept> SectionOut<'_, '_, '_, K> {
    /// Moves the tokens to their positions in the whole text.
    fn place(&mut self) {
        if self.section.form.is_changed() {
            self.section.place_all(K::spans(&mut self.out.tokens[self.from..]));
        }
        self.from = self.out.tokens.len();
    }

    /// Hands tokens over before the token or word that begins at `next`.
    fn hand_over(&mut self, next: usize) {
        self.place();
        let Section { form, start, whole } = self.section;
        let next = if form.is_changed() { start + form.original(next, next + 1).0 } else { next };
        // Do not separate tokens that share a character.
        if K::spans(self.out.tokens).last().is_some_and(|last| last.end as usize <= next) {
            self.out.hand_over(whole, next);
            self.from = self.out.tokens.len();
        }
    }
}

impl<K: Kept> Destination<K> for SectionOut<'_, '_, '_, K> {
    fn tokens(&mut self) -> &mut Vec<K> {
        self.out.tokens
    }

    fn has_reached(&mut self, end: usize) -> ControlFlow<()> {
        // The tokens of pieces are where they belong.
        self.from = self.out.tokens.len();
        if self.out.take.is_some() {
            self.hand_over(end);
        }
        ControlFlow::Continue(())
    }
}

impl Native {
    /// Encodes a text as the reference crate does in this reading. On failure, `out` loses the
    /// tokens of this text; tokens that were already handed over are still the first tokens of the
    /// text.
    pub fn encode<K: Kept>(
        &self,
        text: &str,
        place: TextPlace,
        reading: Reading,
        mut out: Out<'_, K>,
    ) -> Result<(), NativeRefusal> {
        let [raw, normalized] = match reading {
            Reading::Ordinary => &self.plain,
            Reading::Reference => self.core.added.as_ref().ok_or(NativeRefusal::NotCovered)?,
        };
        // Positions are stored in 32 bits, and composing can triple the length of a text.
        let longest = if self.core.composes { LONGEST_TEXT / 4 } else { LONGEST_TEXT };
        if text.len() > longest {
            return Err(NativeRefusal::NotCovered);
        }
        out.may_have_gaps = self.drops_text();
        let result = self.owner.with_memory(|memory| {
            raw.split(text, |id, start, end| {
                if out.is_over() {
                    return Ok(());
                }
                if let Some(id) = id {
                    out.tokens.push(K::of(Token::new(id, start, end)));
                    return Ok(());
                }
                let form = self.form(&text[start..end]);
                let section = Section { whole: text, start, form: &form };
                out.may_have_gaps |= form.is_changed();
                normalized.split(&form.text, |id, from, to| {
                    if out.is_over() {
                        return Ok(());
                    }
                    if let Some(id) = id {
                        out.tokens.push(K::of(section.place(Token::new(id, from, to))));
                        return Ok(());
                    }
                    let is_first = place == TextPlace::Start && start + form.original(from, to).0 == 0;
                    self.encode_part(section, (from, to), is_first, reading, memory, &mut out)
                })
            })
        });
        match result {
            Ok(()) => {
                // Beyond the limit, what follows the last token is not a gap.
                let is_over = out.is_over();
                let last = K::spans(out.tokens).last().filter(|_| is_over);
                let end = last.map_or(text.len(), |last| last.end as usize);
                out.hand_over(text, end);
            }
            Err(_) => out.tokens.truncate(out.first),
        }
        result
    }

    /// Appends the added tokens that the reference finds in a text. Returns false if that is not
    /// covered.
    pub fn find_added(&self, text: &str, out: &mut Vec<Token>) -> bool {
        let Some([raw, normalized]) = &self.core.added else { return false };
        raw.split(text, |id, start, end| {
            if let Some(id) = id {
                out.push(Token::new(id, start, end));
            } else if !normalized.is_empty() {
                let form = self.form(&text[start..end]);
                normalized.split(&form.text, |id, from, to| {
                    let (from, to) = form.original(from, to);
                    out.extend(id.map(|id| Token::covering(id, (from + start, to + start), text)));
                    Ok::<(), Infallible>(())
                })?;
            }
            Ok::<(), Infallible>(())
        })
        .is_ok()
    }

    fn form<'a>(&self, section: &'a str) -> NormalizedText<'a> {
        if self.core.composes { NormalizedText::composed(section) } else { NormalizedText::unchanged(section) }
    }

    fn encode_part<K: Kept>(
        &self,
        section: Section<'_>,
        (start, end): (usize, usize),
        is_first: bool,
        reading: Reading,
        memory: &mut Memory,
        out: &mut Out<'_, K>,
    ) -> Result<(), NativeRefusal> {
        let prefix = self.prefix_of(&section.form.text[start..end], is_first);
        // Positions are those of the whole text, unless they have to be looked up anyway.
        let shift = if section.form.is_changed() { 0 } else { section.start };
        self.encode_range(section, (start + shift, end + shift), prefix, reading, memory, out)
    }

    /// Encodes a range of the whole text or, if the section is changed, of the section.
    fn encode_range<K: Kept>(
        &self,
        section: Section<'_>,
        (mut start, end): (usize, usize),
        mut prefix: Option<char>,
        reading: Reading,
        memory: &mut Memory,
        out: &mut Out<'_, K>,
    ) -> Result<(), NativeRefusal> {
        let is_changed = section.form.is_changed();
        let text = if is_changed { &*section.form.text } else { section.whole };
        if end - start >= LONG_TEXT
            && out.most == usize::MAX
            && prefix.is_some()
            && let Some(place) = self.core.cuts.find_place(text, start + 1, start + LONG_TEXT / 2)
        {
            self.encode_range(section, (start, place), prefix.take(), reading, memory, out)?;
            start = place;
        }
        let mut section_out = SectionOut { section, from: out.tokens.len(), out };
        if end - start >= LONG_TEXT && section_out.out.most == usize::MAX && prefix.is_none() {
            let find_place = |from, to| self.core.cuts.find_place(text, from, to);
            let encode = |range: (usize, usize), memory: &mut Memory, tokens: &mut Vec<K>| {
                let from = tokens.len();
                self.encode_piece(text, range, reading, memory, tokens)?;
                if is_changed {
                    section.place_all(K::spans(&mut tokens[from..]));
                }
                Ok::<(), NativeRefusal>(())
            };
            let long = LongText { owner: &self.owner, start, end };
            start = long.encode(memory, find_place, encode, &mut section_out)?;
        }
        let Memory { lanes, words: known } = memory;
        let mut failed = None;
        let mut encode = |mut first: usize, mut ends: &[u32]| {
            if section_out.out.is_full() {
                section_out.hand_over(first);
            }
            if let Some(prefix) = prefix.take()
                && let [end, rest @ ..] = ends
            {
                self.bpe.encode_prefixed(prefix, text, (first, *end as usize), reading, known, section_out.tokens())?;
                (first, ends) = (*end as usize, rest);
            }
            // Tokens of a very long word are handed over while they are read.
            while section_out.out.take.is_some()
                && let Some(at) = bpe::find_long_word(first, ends)
            {
                self.bpe.encode_words(text, first, &ends[..at], reading, known, section_out.tokens())?;
                let word = (at.checked_sub(1).map_or(first, |before| ends[before] as usize), ends[at] as usize);
                self.bpe.encode_long_word(text, word, reading, known, |token| {
                    if section_out.out.is_full() {
                        section_out.hand_over(token.start as usize);
                    }
                    section_out.out.tokens.push(K::of(token));
                })?;
                (first, ends) = (word.1, &ends[at + 1..]);
            }
            self.bpe.encode_words(text, first, ends, reading, known, section_out.tokens())?;
            Ok(if section_out.out.is_over() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        };
        let mut visit = |first: usize, ends: &[u32]| match encode(first, ends) {
            Ok(flow) => flow,
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        };
        self.core.cuts.split(text, (start, end), lanes, &mut visit)?;
        match failed {
            Some(error) => Err(NativeRefusal::Error(error)),
            None => {
                section_out.place();
                Ok(())
            }
        }
    }

    /// Encodes a piece of a long text.
    fn encode_piece<K: Kept>(
        &self,
        text: &str,
        range: (usize, usize),
        reading: Reading,
        memory: &mut Memory,
        tokens: &mut Vec<K>,
    ) -> Result<(), NativeRefusal> {
        let Memory { lanes, words } = memory;
        let mut failed = Ok(());
        self.core.cuts.split(text, range, lanes, &mut |first, ends| {
            failed = self.bpe.encode_words(text, first, ends, reading, words, tokens);
            if failed.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        Ok(failed?)
    }

    fn prefix_of(&self, part: &str, is_first: bool) -> Option<char> {
        match self.core.prefix {
            Prefix::Nothing => None,
            Prefix::AnotherSpace { character } => Some(character),
            Prefix::Space { character, first_only } => {
                let wants_one = (is_first || !first_only) && !part.starts_with([' ', character]);
                wants_one.then_some(character)
            }
        }
    }

    fn drops_text(&self) -> bool {
        matches!(&self.core.cuts, Cuts::Words(words) if words.drop_text())
    }
}

impl From<Error> for NativeRefusal {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}
