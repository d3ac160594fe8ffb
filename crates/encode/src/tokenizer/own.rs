//! In: a text, and what a BPE file says of its parts. Out: the tokens that the reference crate gives, many times faster.
//! Between: `added` cuts at added tokens, `normalization` composes, `words` or `joints` cut the rest into words, `bpe` merges them.
//! What is not covered is said at load (`hugging_face/covered.rs`), and the reference crate does it instead.
//! Start reading at [`Own::encode`].

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

use self::added::Added;
use self::bpe::Bpe;
pub(super) use self::bpe::{Reading, Tables};
use self::joints::Joints;
pub(super) use self::normalization::Normalized;
use self::word_cache::Memory;
pub(super) use self::word_cache::Owner;
use self::words::{TooHard, Words};
use super::{Error, Place, Token};

/// A byte-pair encoder of our own.
pub(super) struct Own {
    pub core: Arc<Core>,
    pub bpe: Bpe,
    /// The added tokens that text may become, in the text as it is and in the normalized one.
    pub plain: [Added; 2],
    pub owner: Owner,
}

/// What of it is the same, whatever tokens are kept out of text.
pub(super) struct Core {
    pub composes: bool,
    pub normalizer_replaces: bool,
    pub prefix: Prefix,
    pub cuts: Cuts,
    pub tables: Arc<Tables>,
    /// All added tokens, where the reference's way with them is covered.
    pub added: Option<[Added; 2]>,
}

/// What is put before a text.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Prefix {
    Nothing,
    /// A character that stands for a space, unless there is one.
    Space {
        character: char,
        first_only: bool,
    },
    /// The same, always.
    AnotherSpace {
        character: char,
    },
}

/// How a text is cut into words.
pub(super) enum Cuts {
    Words(Words),
    Joints {
        joints: Joints,
        before_spaces: bool,
    },
    /// Not at all.
    None,
}

/// Why a text was not encoded.
pub(super) enum Unencoded {
    /// The reference crate must do it; nothing was appended.
    NotCovered,
    Error(Error),
}

impl Own {
    /// Appends the tokens of a text, as the reference crate gives them in this reading.
    pub fn encode(&self, text: &str, place: Place, reading: Reading, out: &mut Vec<Token>) -> Result<(), Unencoded> {
        let [raw, normalized] = match reading {
            Reading::Ordinary => &self.plain,
            Reading::Reference => self.core.added.as_ref().ok_or(Unencoded::NotCovered)?,
        };
        let first = out.len();
        let mut may_have_gaps = self.drops_text();
        let result = self.owner.with_memory(|memory| {
            raw.split(text, |id, start, end| {
                if let Some(id) = id {
                    out.push(Token { id, start, end });
                    return Ok(());
                }
                let section = &text[start..end];
                let first = out.len();
                let form = self.form(section);
                normalized.split(&form.text, |id, from, to| {
                    if let Some(id) = id {
                        out.push(Token { id, start: from, end: to });
                        return Ok(());
                    }
                    let is_first = place == Place::Start && start + form.original(from, to).0 == 0;
                    self.encode_part(&form.text, (from, to), is_first, reading, memory, out)
                })?;
                for token in &mut out[first..] {
                    let (from, to) = form.original(token.start, token.end);
                    *token = Token::covering(token.id, (from + start, to + start), text);
                }
                may_have_gaps |= form.is_changed();
                Ok(())
            })
        });
        if result.is_err() {
            out.truncate(first);
        } else if may_have_gaps {
            super::hugging_face::cover_marks(text, &mut out[first..]);
        }
        result
    }

    /// Appends the added tokens that the reference finds in a text; false where that is not covered.
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

    fn form<'a>(&self, section: &'a str) -> Normalized<'a> {
        if self.core.composes { Normalized::composed(section) } else { Normalized::unchanged(section) }
    }

    fn encode_part(
        &self,
        text: &str,
        (start, end): (usize, usize),
        is_first: bool,
        reading: Reading,
        memory: &mut Memory,
        out: &mut Vec<Token>,
    ) -> Result<(), Unencoded> {
        let part = &text[start..end];
        let mut prefix = self.prefix_of(part, is_first);
        let from = out.len();
        let mut failed = None;
        let mut visit = |start, end| {
            if failed.is_some() {
                return;
            }
            let encoded = match prefix.take() {
                Some(prefix) => self.encode_prefixed(prefix, &part[start..end], reading, memory, out),
                None => self.bpe.encode_word(part, (start, end), reading, memory, out),
            };
            failed = encoded.err();
        };
        match &self.core.cuts {
            Cuts::Words(words) => words.split(part, visit).map_err(|TooHard| Unencoded::NotCovered)?,
            Cuts::Joints { joints, before_spaces } => joints.split(part, *before_spaces, visit),
            Cuts::None => visit(0, part.len()),
        }
        match failed {
            Some(error) => Err(Unencoded::Error(error)),
            None => {
                for token in &mut out[from..] {
                    token.start += start;
                    token.end += start;
                }
                Ok(())
            }
        }
    }

    /// The first word behind a prefix that is no part of the text.
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

impl From<Error> for Unencoded {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}
