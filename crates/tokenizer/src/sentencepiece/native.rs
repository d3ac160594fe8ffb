use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::super::native::added::AddedSearch;
use super::super::native::alphabet::{Alphabet, Characters, Otherwise};
use super::super::native::bpe::{Bpe, Reading as Guard, Tables, UnmergedWords, find_long_word};
use super::super::native::forged::ForgedTokens;
use super::super::native::joints::Joints;
use super::super::native::memory::{Memory, WordMemory};
use super::super::native::merges::{LARGEST_ID, Merges};
use super::super::native::pieces::{Destination, LONG_TEXT, LongText};
use super::super::native::{Kept, MemoryOwner};
use super::super::{Error, Token};
use super::Reading;
use super::model::{Algorithm, Model, PieceKind};

const SPACE: char = '\u{2581}';

/// The pairs of a sentencepiece model in the form of merges, which our fast engine applies to words
/// separately.
///
/// It supports BPE models with byte fallback whose normalizer only escapes spaces, as current
/// models are. Other models use the step-by-step encoder in `normalizer` and `bpe`.
pub(super) struct Words {
    joints: Joints,
    bpe: Bpe,
    owner: MemoryOwner,
}

/// The number of tokens to hand over at once.
const PART: usize = 1 << 12;

/// The destination for the tokens of a section.
struct Out<'a, K> {
    tokens: Vec<K>,
    take: &'a mut dyn FnMut(&[K]) -> ControlFlow<()>,
    /// Whether the receiver wants no more.
    flow: ControlFlow<()>,
}

impl<K> Out<'_, K> {
    fn hand_over(&mut self) {
        if self.flow.is_continue() {
            self.flow = (self.take)(&self.tokens);
        }
        self.tokens.clear();
    }
}

impl<K> Destination<K> for Out<'_, K> {
    fn tokens(&mut self) -> &mut Vec<K> {
        &mut self.tokens
    }

    fn has_reached(&mut self, _end: usize) -> ControlFlow<()> {
        self.hand_over();
        self.flow
    }
}

impl Words {
    /// Creates the engine for the pieces that a reading opens. Returns `None` if the model does
    /// more than merge.
    pub fn new(model: &Model, reading: &Reading) -> Option<Self> {
        let bytes = model.byte_pieces.as_ref()?;
        if model.pieces.len() > LARGEST_ID as usize {
            return None;
        }
        let is_plain = model.normalizer.charsmap.is_empty()
            && !model.normalizer.remove_extra_whitespaces
            && model.normalizer.escape_whitespaces
            && !model.whitespace_as_suffix;
        // Pieces that are split again need the step-by-step encoder.
        if !is_plain || !matches!(model.algorithm, Algorithm::Bpe) || reading.takes_apart() {
            return None;
        }
        let open = || (0..).zip(&model.pieces).filter(|&(id, _)| reading.is_open(id));
        // User-defined pieces are matched before merging, so no merge produces one.
        let learned = || open().filter(|(_, piece)| piece.kind.is_learned());
        let symbols: HashMap<char, u32> = learned()
            .filter(|(_, piece)| piece.kind == PieceKind::Normal)
            .filter_map(|(id, piece)| Some((one_character(&piece.text)?, id)))
            .collect();
        let longer = || learned().filter(|(_, piece)| one_character(&piece.text).is_none());
        let has_symbols = |text: &str| text.chars().all(|c| symbols.contains_key(&c));
        if !longer().all(|(_, piece)| piece.kind == PieceKind::Normal && has_symbols(&piece.text)) {
            return None;
        }
        let ids: HashMap<&str, u32> = learned()
            .filter(|(_, piece)| piece.kind == PieceKind::Normal)
            .map(|(id, piece)| (piece.text.as_str(), id))
            .collect();
        let mut by_score: Vec<_> = longer().collect();
        by_score.sort_by(|(_, a), (_, b)| b.score.total_cmp(&a.score));
        let mut merges = Vec::new();
        let (mut rank, mut score) = (0, f32::NAN);
        for (product, piece) in by_score {
            if score.total_cmp(&piece.score).is_ne() {
                (rank, score) = (rank + 1, piece.score);
            }
            for (middle, _) in piece.text.char_indices().skip(1) {
                let (left, right) = piece.text.split_at(middle);
                if let (Some(&left), Some(&right)) = (ids.get(left), ids.get(right)) {
                    merges.push((rank, left, right, product));
                }
            }
        }
        let joints = Joints::new(longer().map(|(_, piece)| piece.text.as_str()), Some(SPACE), false);
        let characters = Characters::new(symbols.into_iter(), Otherwise::Bytes(bytes.clone()), Some(SPACE));
        let alphabet = Alphabet::Characters(characters);
        let tables = Tables {
            alphabet,
            merges: Merges::with_ranks(&merges, model.pieces.len() as u32).ok()?,
            unmerged: UnmergedWords::new(HashMap::default()),
            joints: None,
            characters: None,
        };
        let bpe = Bpe { tables: Arc::new(tables), forged: ForgedTokens::new(HashMap::new()) };
        Some(Self { joints, bpe, owner: MemoryOwner::new() })
    }

    /// Hands over the tokens of a section in parts, splitting at user-defined pieces. `prefix` is
    /// whether a space is added before the section.
    pub fn encode<K: Kept>(
        &self,
        text: &str,
        matched: &AddedSearch,
        prefix: bool,
        take: &mut dyn FnMut(&[K]) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, Error> {
        self.owner.with_memory(|memory| {
            let mut out = Out { tokens: Vec::new(), take, flow: ControlFlow::Continue(()) };
            let mut prefix = prefix.then_some(SPACE);
            let result = matched.split(text, |id, start, end| match id {
                None => self.encode_part(text, (start, end), &mut prefix, memory, &mut out),
                Some(id) => {
                    if let Some(space) = prefix.take() {
                        let before = (start, start);
                        let known = &mut memory.words;
                        self.bpe.encode_prefixed(space, text, before, Guard::Reference, known, &mut out.tokens)?;
                    }
                    out.tokens.push(K::of(Token::new(id, start, end)));
                    Ok(())
                }
            });
            out.hand_over();
            result.map(|()| out.flow)
        })
    }

    fn encode_part<K: Kept>(
        &self,
        text: &str,
        (mut start, end): (usize, usize),
        prefix: &mut Option<char>,
        memory: &mut Memory,
        out: &mut Out<'_, K>,
    ) -> Result<(), Error> {
        if end - start >= LONG_TEXT {
            let find_place = |from, to| self.joints.find_place(text, from, to);
            if prefix.is_some()
                && let Some(place) = find_place(start + 1, start + LONG_TEXT / 2)
            {
                self.encode_part(text, (start, place), prefix, memory, out)?;
                start = place;
            }
            if prefix.is_none() {
                let encode = |range: (usize, usize), memory: &mut Memory, tokens: &mut Vec<K>| {
                    self.encode_piece(text, range, &mut memory.words, tokens)
                };
                let long = LongText { owner: &self.owner, start, end };
                start = long.encode(memory, find_place, encode, out)?;
                if out.flow.is_break() {
                    return Ok(());
                }
            }
        }
        let memory = &mut memory.words;
        let mut result = Ok(());
        let mut encode = |mut first: usize, mut ends: &[u32]| {
            let tables = &self.bpe;
            if out.tokens.len() >= PART {
                out.hand_over();
            }
            if let Some(space) = prefix.take()
                && let [end, rest @ ..] = ends
            {
                tables.encode_prefixed(
                    space,
                    text,
                    (first, *end as usize),
                    Guard::Reference,
                    memory,
                    &mut out.tokens,
                )?;
                (first, ends) = (*end as usize, rest);
            }
            while let Some(at) = find_long_word(first, ends) {
                tables.encode_words(text, first, &ends[..at], Guard::Reference, memory, &mut out.tokens)?;
                let word = (at.checked_sub(1).map_or(first, |before| ends[before] as usize), ends[at] as usize);
                tables.encode_long_word(text, word, Guard::Reference, memory, |token| {
                    if out.tokens.len() >= PART {
                        out.hand_over();
                    }
                    out.tokens.push(K::of(token));
                })?;
                (first, ends) = (word.1, &ends[at + 1..]);
            }
            tables.encode_words(text, first, ends, Guard::Reference, memory, &mut out.tokens)?;
            Ok(out.flow)
        };
        self.joints.split(text, (start, end), &mut |first, ends| match encode(first, ends) {
            Ok(flow) => flow,
            Err(error) => {
                result = Err(error);
                ControlFlow::Break(())
            }
        });
        result
    }
}

impl Words {
    /// Encodes a piece of a long text.
    fn encode_piece<K: Kept>(
        &self,
        text: &str,
        range: (usize, usize),
        words: &mut WordMemory,
        tokens: &mut Vec<K>,
    ) -> Result<(), Error> {
        let mut result = Ok(());
        self.joints.split(text, range, &mut |first, ends| {
            result = self.bpe.encode_words(text, first, ends, Guard::Reference, words, tokens);
            if result.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        result
    }
}

fn one_character(text: &str) -> Option<char> {
    let mut characters = text.chars();
    characters.next().filter(|_| characters.next().is_none())
}
