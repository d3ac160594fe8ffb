//! The tokens that a tokenizer puts around a text by itself: BOS before it, EOS behind it.

use std::fmt;

use rolecall_render::Prompt;

use crate::{Encoded, EncodedToken, Tokenizer};

/// Whether an encoder puts the tokenizer's own BOS and EOS around a prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AddSpecial {
    /// No: the prompt says all, as in transformers' `apply_chat_template`.
    #[default]
    Never,
    /// Those that the prompt has not got there already, so that each is there once; EOS only where the prompt is
    /// complete.
    Missing,
}

/// What may be wrong at the ends of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note {
    /// The tokenizer puts this token before every text, and the prompt has none.
    NoBos {
        /// Its id.
        id: u32,
        /// Its text.
        token: String,
    },
    /// The prompt begins with the same opening token twice.
    TwoBos {
        /// Its id.
        id: u32,
        /// Its text.
        token: String,
    },
}

impl Note {
    /// A stable name for the kind of note.
    pub fn code(&self) -> &'static str {
        match self {
            Note::NoBos { .. } => "no_bos",
            Note::TwoBos { .. } => "two_bos",
        }
    }
}

impl Note {
    /// What to do about it.
    pub fn help(&self) -> &'static str {
        match self {
            Note::NoBos { .. } => {
                "`--bos auto` adds it, `--bos none` says that an engine will; the reference, which encodes a template's text as \
                 it is, has none"
            }
            Note::TwoBos { .. } => "a template and a text in it both write it: take it out of one of them",
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Note::NoBos { id, token } => write!(
                f,
                "the prompt does not begin with `{token}` (id {id}), which the tokenizer puts before every text by itself"
            ),
            Note::TwoBos { id, token } => write!(f, "the prompt begins with `{token}` (id {id}) twice"),
        }
    }
}

/// Puts the tokenizer's own tokens around, where they are wanted, and notes what may be wrong there.
pub(crate) fn surround(encoded: &mut Encoded, prompt: &Prompt, tokenizer: &dyn Tokenizer, add: AddSpecial) {
    let text = |id| tokenizer.token_text(id).unwrap_or_default();
    let mut leading = encoded.tokens.iter().filter(|token| !is_blank(token, prompt));
    let first = leading.next().filter(|token| token.control).map(|token| token.id);
    let second = leading.next().filter(|token| token.control).map(|token| token.id);
    if let Some(bos) = tokenizer.adds_bos()
        && first != Some(bos)
    {
        match add {
            AddSpecial::Missing => {
                encoded.tokens.insert(0, EncodedToken { id: bos, start: 0, end: 0, control: true });
            }
            AddSpecial::Never => encoded.notes.push(Note::NoBos { id: bos, token: text(bos) }),
        }
    }
    if let Some(id) = first.filter(|id| tokenizer.bos() == Some(*id) && second == first) {
        encoded.notes.push(Note::TwoBos { id, token: text(id) });
    }
    if let Some(eos) = tokenizer.adds_eos().filter(|_| add == AddSpecial::Missing && !prompt.open) {
        let last = encoded.tokens.iter().rev().find(|token| !is_blank(token, prompt));
        if last.is_none_or(|last| !last.control || last.id != eos) {
            let end = prompt.text().len();
            encoded.tokens.push(EncodedToken { id: eos, start: end, end, control: true });
        }
    }
}

/// Whether a token is white space, which templates have before and behind the tokens at the ends.
fn is_blank(token: &EncodedToken, prompt: &Prompt) -> bool {
    !token.control && prompt.text().get(token.start..token.end).is_some_and(|text| text.trim().is_empty())
}
