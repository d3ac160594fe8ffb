//! Encodes text with a BPE tokenizer as the reference crate does, many times faster.
//!
//! `added` splits at added tokens, `normalization` composes characters, `words` or `joints` split
//! the rest into words, and `bpe` merges them. When a file is loaded, `hugging_face/covered.rs`
//! decides whether this engine covers it; if not, the reference crate encodes. Start reading at
//! [`Native::encode`].

pub(super) mod added;
pub(super) mod alphabet;
pub(super) mod automaton;
pub(super) mod bpe;
mod char_classes;
pub(super) mod forged;
pub(super) mod joints;
pub(super) mod merges;
mod normalization;
pub(super) mod pattern;
pub(super) mod word_cache;
pub(super) mod words;

use std::convert::Infallible;
use std::sync::Arc;

use self::added::AddedSearch;
use self::bpe::{Bpe, LONG_WORD};
pub(super) use self::bpe::{Reading, Tables};
use self::joints::Joints;
pub(super) use self::normalization::NormalizedText;
pub(super) use self::word_cache::CacheOwner;
use self::word_cache::Memory;
use self::words::{TooHard, Words};
use super::{Error, TextPlace, Token};

/// Our own byte-pair encoder.
pub(super) struct Native {
    pub core: Arc<Core>,
    pub bpe: Bpe,
    /// The added tokens that text may encode to, matched in raw text and in normalized text.
    pub plain: [AddedSearch; 2],
    pub owner: CacheOwner,
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
    Joints {
        joints: Joints,
        before_spaces: bool,
    },
    /// Not at all.
    None,
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
pub(super) struct Out<'a> {
    tokens: &'a mut Vec<Token>,
    /// The index of the first token that belongs to this text and has not been handed over.
    first: usize,
    /// Whether some of the text may lie outside all spans.
    may_have_gaps: bool,
    take: Option<Take<'a>>,
    /// The number of tokens after which the rest of the text does not matter.
    most: usize,
}

/// The receiver of tokens that are handed over.
type Take<'a> = &'a mut dyn FnMut(&[Token]);

impl<'a> Out<'a> {
    /// Appends the tokens to those already present.
    pub fn behind(tokens: &'a mut Vec<Token>) -> Self {
        Self { first: tokens.len(), tokens, may_have_gaps: false, take: None, most: usize::MAX }
    }

    /// Hands tokens over in parts, including the last ones.
    pub fn in_parts(tokens: &'a mut Vec<Token>, take: &'a mut dyn FnMut(&[Token])) -> Self {
        tokens.clear();
        Self { first: 0, tokens, may_have_gaps: false, take: Some(take), most: usize::MAX }
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
            crate::combining::cover_marks(text, end, &mut self.tokens[self.first..]);
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
        let (from, to) = self.form.original(token.start, token.end);
        Token::covering(token.id, (from + self.start, to + self.start), self.whole)
    }
}

impl Native {
    /// Encodes a text as the reference crate does in this reading. On failure, `out` loses the
    /// tokens of this text; tokens that were already handed over are still the first tokens of the
    /// text.
    pub fn encode(
        &self,
        text: &str,
        place: TextPlace,
        reading: Reading,
        mut out: Out<'_>,
    ) -> Result<(), NativeRefusal> {
        let [raw, normalized] = match reading {
            Reading::Ordinary => &self.plain,
            Reading::Reference => self.core.added.as_ref().ok_or(NativeRefusal::NotCovered)?,
        };
        // Positions are stored in 32 bits, and composing can triple the length of a text.
        let longest = if self.core.composes { u32::MAX / 4 } else { u32::MAX };
        if text.len() > longest as usize {
            return Err(NativeRefusal::NotCovered);
        }
        out.may_have_gaps = self.drops_text();
        let result = self.owner.with_memory(|memory| {
            raw.split(text, |id, start, end| {
                if let Some(id) = id {
                    out.tokens.push(Token { id, start, end });
                    return Ok(());
                }
                let form = self.form(&text[start..end]);
                let section = Section { whole: text, start, form: &form };
                out.may_have_gaps |= form.is_changed();
                normalized.split(&form.text, |id, from, to| {
                    if let Some(id) = id {
                        out.tokens.push(section.place(Token { id, start: from, end: to }));
                        return Ok(());
                    }
                    let is_first = place == TextPlace::Start && start + form.original(from, to).0 == 0;
                    self.encode_part(section, (from, to), is_first, reading, memory, &mut out)
                })
            })
        });
        match result {
            Ok(()) => out.hand_over(text, text.len()),
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
                out.push(Token { id, start, end });
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

    fn encode_part(
        &self,
        section: Section<'_>,
        (start, end): (usize, usize),
        is_first: bool,
        reading: Reading,
        memory: &mut Memory,
        out: &mut Out<'_>,
    ) -> Result<(), NativeRefusal> {
        let part = &section.form.text[start..end];
        let place = |tokens: &mut [Token]| {
            for token in tokens {
                *token = section.place(Token { id: token.id, start: token.start + start, end: token.end + start });
            }
        };
        let mut prefix = self.prefix_of(part, is_first);
        let mut from = out.tokens.len();
        let mut failed = None;
        // Hands tokens over before the token or word that begins at `next` in the part.
        let hand_over = |out: &mut Out<'_>, from: &mut usize, next: usize| {
            place(&mut out.tokens[*from..]);
            *from = out.tokens.len();
            let next = section.start + section.form.original(start + next, start + next + 1).0;
            // Do not separate tokens that share a character.
            if out.tokens.last().is_some_and(|last| last.end <= next) {
                out.hand_over(section.whole, next);
                *from = 0;
            }
        };
        let mut visit = |word: usize, behind: usize| {
            if failed.is_some() || out.is_over() {
                return;
            }
            if out.is_full() {
                hand_over(out, &mut from, word);
            }
            let is_long = out.take.is_some() && behind - word > LONG_WORD;
            let mut take = |token: Token| {
                if out.is_full() {
                    hand_over(out, &mut from, token.start);
                }
                out.tokens.push(token);
            };
            let encoded = match prefix.take() {
                Some(prefix) if is_long => {
                    let (text, shift) = (format!("{prefix}{}", &part[word..behind]), prefix.len_utf8());
                    self.bpe.encode_long_word(&text, (0, text.len()), reading, memory, |token| {
                        let (start, end) = (token.start.saturating_sub(shift), token.end.saturating_sub(shift));
                        take(Token { start, end, ..token });
                    })
                }
                Some(prefix) => self.encode_prefixed(prefix, &part[word..behind], reading, memory, out.tokens),
                None if is_long => self.bpe.encode_long_word(part, (word, behind), reading, memory, take),
                None => self.bpe.encode_word(part, (word, behind), reading, memory, out.tokens),
            };
            failed = encoded.err();
        };
        match &self.core.cuts {
            Cuts::Words(words) => words.split(part, visit).map_err(|TooHard| NativeRefusal::NotCovered)?,
            Cuts::Joints { joints, before_spaces } => joints.split(part, *before_spaces, visit),
            Cuts::None => visit(0, part.len()),
        }
        match failed {
            Some(error) => Err(NativeRefusal::Error(error)),
            None => {
                place(&mut out.tokens[from..]);
                Ok(())
            }
        }
    }

    /// Encodes the first word after a prefix that is not part of the text.
    fn encode_prefixed(
        &self,
        prefix: char,
        word: &str,
        reading: Reading,
        memory: &mut Memory,
        out: &mut Vec<Token>,
    ) -> Result<(), Error> {
        let text = format!("{prefix}{word}");
        let first = out.len();
        self.bpe.encode_word(&text, (0, text.len()), reading, memory, out)?;
        for token in &mut out[first..] {
            token.start = token.start.saturating_sub(prefix.len_utf8());
            token.end = token.end.saturating_sub(prefix.len_utf8());
        }
        Ok(())
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
