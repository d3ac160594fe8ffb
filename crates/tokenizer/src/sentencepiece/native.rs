use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::super::native::CacheOwner;
use super::super::native::added::AddedSearch;
use super::super::native::alphabet::{Alphabet, Characters, Otherwise};
use super::super::native::bpe::{Bpe, LONG_WORD, Reading as Guard, Tables};
use super::super::native::forged::ForgedTokens;
use super::super::native::joints::Joints;
use super::super::native::merges::Merges;
use super::super::native::word_cache::Memory;
use super::super::{Error, Token};
use super::Reading;
use super::model::{Algorithm, Model, PieceKind};
use super::normalizer::ESCAPED_SPACE;

const SPACE: char = '\u{2581}';

/// The pairs of a sentencepiece model in the form of merges, which our fast engine applies to words
/// separately.
///
/// It supports BPE models with byte fallback whose normalizer only escapes spaces, as current
/// models are. Other models use the step-by-step encoder in `normalizer` and `bpe`.
pub(super) struct Words {
    joints: Joints,
    bpe: Bpe,
    owner: CacheOwner,
}

/// The number of tokens to hand over at once.
const PART: usize = 1 << 12;

/// The destination for the tokens of a section.
struct Out<'a> {
    tokens: Vec<Token>,
    take: &'a mut dyn FnMut(&[Token]) -> ControlFlow<()>,
    /// Whether the receiver wants no more.
    flow: ControlFlow<()>,
}

impl Out<'_> {
    fn hand_over(&mut self) {
        if self.flow.is_continue() {
            self.flow = (self.take)(&self.tokens);
        }
        self.tokens.clear();
    }
}

impl Words {
    /// Creates the engine for the pieces that a reading opens. Returns `None` if the model does
    /// more than merge.
    pub fn new(model: &Model, reading: &Reading) -> Option<Self> {
        let bytes = model.byte_pieces.as_ref()?;
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
        let joints = Joints::new(longer().map(|(_, piece)| piece.text.as_str()), Some(SPACE));
        let characters = Characters::new(symbols.into_iter(), Otherwise::Bytes(bytes.clone()), Some(SPACE));
        let alphabet = Alphabet::Characters(characters);
        let tables = Tables { alphabet, merges: Merges::with_ranks(&merges).ok()?, whole: None };
        let bpe = Bpe { tables: Arc::new(tables), forged: ForgedTokens::new(HashMap::new()) };
        Some(Self { joints, bpe, owner: CacheOwner::new() })
    }

    /// Hands over the tokens of a section in parts, splitting at user-defined pieces. `prefix` is
    /// whether a space is added before the section.
    pub fn encode(
        &self,
        text: &str,
        matched: &AddedSearch,
        prefix: bool,
        take: &mut dyn FnMut(&[Token]) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, Error> {
        self.owner.with_memory(|memory| {
            let mut out = Out { tokens: Vec::new(), take, flow: ControlFlow::Continue(()) };
            let mut prefix = prefix.then_some(SPACE);
            let result = matched.split(text, |id, start, end| match id {
                None => self.encode_part(text, (start, end), &mut prefix, memory, &mut out),
                Some(id) => {
                    if let Some(space) = prefix.take() {
                        self.encode_prefixed(space, "", memory, &mut out.tokens)?;
                    }
                    out.tokens.push(Token { id, start, end });
                    Ok(())
                }
            });
            out.hand_over();
            result.map(|()| out.flow)
        })
    }

    fn encode_part(
        &self,
        text: &str,
        (start, end): (usize, usize),
        prefix: &mut Option<char>,
        memory: &mut Memory,
        out: &mut Out<'_>,
    ) -> Result<(), Error> {
        let part = &text[start..end];
        let mut first = out.tokens.len();
        let place = |tokens: &mut [Token]| {
            for token in tokens {
                token.start += start;
                token.end += start;
            }
        };
        let mut result = Ok(());
        self.joints.split(part, false, |from, to| {
            if result.is_err() || out.flow.is_break() {
                return;
            }
            if out.tokens.len() >= PART {
                place(&mut out.tokens[first..]);
                out.hand_over();
                first = 0;
            }
            result = match prefix.take() {
                Some(space) => self.encode_prefixed(space, &part[from..to], memory, &mut out.tokens),
                None if to - from > LONG_WORD => {
                    self.bpe.encode_long_word(part, (from, to), Guard::Reference, memory, |token| {
                        if out.tokens.len() >= PART {
                            place(&mut out.tokens[first..]);
                            out.hand_over();
                            first = 0;
                        }
                        out.tokens.push(token);
                    })
                }
                None => self.bpe.encode_word(part, (from, to), Guard::Reference, memory, &mut out.tokens),
            };
        });
        place(&mut out.tokens[first..]);
        result
    }

    fn encode_prefixed(&self, space: char, word: &str, memory: &mut Memory, out: &mut Vec<Token>) -> Result<(), Error> {
        let text = format!("{space}{word}");
        let first = out.len();
        self.bpe.encode_word(&text, (0, text.len()), Guard::Reference, memory, out)?;
        for token in &mut out[first..] {
            token.start = token.start.saturating_sub(ESCAPED_SPACE.len());
            token.end = token.end.saturating_sub(ESCAPED_SPACE.len());
        }
        Ok(())
    }
}

fn one_character(text: &str) -> Option<char> {
    let mut characters = text.chars();
    characters.next().filter(|_| characters.next().is_none())
}
