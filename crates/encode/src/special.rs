//! The tokens that a tokenizer puts around a text by itself: BOS before it, EOS behind it.

use std::fmt;

use rolecall_render::Prompt;

use crate::{Encoded, EncodedToken};
use rolecall_tokenizer::Tokenizer;

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
                "let the encoder add it, or leave it to an engine that does; the reference, which encodes a template's text as it \
                 is, has none"
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
    let mut leading = encoded.tokens.iter().filter(|token| !is_blank(token, prompt));
    let ends = [leading.next(), leading.next()].map(|token| token.filter(|token| token.control).map(|token| token.id));
    if let Some(id) = missing_bos(ends, tokenizer, add) {
        encoded.tokens.insert(0, EncodedToken { id, start: 0, end: 0, control: true });
    }
    encoded.notes.extend(notes_of(ends, tokenizer, add));
    let last = encoded.tokens.iter().rev().find(|token| !is_blank(token, prompt));
    if let Some(id) = missing_eos(last.map(|last| (last.id, last.control)), prompt, tokenizer, add) {
        let end = prompt.text().len();
        encoded.tokens.push(EncodedToken { id, start: end, end, control: true });
    }
}

/// The same for tokens that come one by one.
pub(crate) struct Surrounding<'a> {
    prompt: &'a Prompt,
    tokenizer: &'a dyn Tokenizer,
    add: AddSpecial,
    take: &'a mut dyn FnMut(EncodedToken),
    /// How many tokens there were that are no white space, up to two; of these the ids, if they are control tokens.
    seen: usize,
    first: [Option<u32>; 2],
    /// White space before the first of them, while it is not known whether a token goes before it.
    waiting: Vec<EncodedToken>,
    /// The last token that is no white space: its id, and whether it is a control token.
    last: Option<(u32, bool)>,
    /// Whether anything depends on what stands before and behind.
    may_open: bool,
    may_close: bool,
}

impl<'a> Surrounding<'a> {
    pub fn new(
        prompt: &'a Prompt,
        tokenizer: &'a dyn Tokenizer,
        add: AddSpecial,
        take: &'a mut dyn FnMut(EncodedToken),
    ) -> Surrounding<'a> {
        let may_open = add == AddSpecial::Missing && tokenizer.adds_bos().is_some();
        let may_close = add == AddSpecial::Missing && tokenizer.adds_eos().is_some();
        let (first, waiting) = ([None; 2], Vec::new());
        Surrounding { prompt, tokenizer, add, take, seen: 0, first, waiting, last: None, may_open, may_close }
    }

    pub fn take(&mut self, token: EncodedToken) {
        if self.seen == self.first.len() && !self.may_close {
            return (self.take)(token);
        }
        match (is_blank(&token, self.prompt), self.seen) {
            (true, 0) if self.may_open => return self.waiting.push(token),
            (true, _) => {}
            (false, seen) => {
                if let Some(first) = self.first.get_mut(seen) {
                    *first = token.control.then_some(token.id);
                    self.seen += 1;
                }
                if seen == 0 {
                    self.open();
                }
                self.last = Some((token.id, token.control));
            }
        }
        (self.take)(token);
    }

    /// What stands before the first token that is no white space.
    fn open(&mut self) {
        if let Some(id) = missing_bos(self.first, self.tokenizer, self.add) {
            (self.take)(EncodedToken { id, start: 0, end: 0, control: true });
            self.last = Some((id, true));
        }
        self.waiting.drain(..).for_each(&mut *self.take);
    }

    /// What stands behind the last token, and what may be wrong.
    pub fn end(mut self) -> Vec<Note> {
        if self.seen == 0 {
            self.open();
        }
        if let Some(id) = missing_eos(self.last, self.prompt, self.tokenizer, self.add) {
            let end = self.prompt.text().len();
            (self.take)(EncodedToken { id, start: end, end, control: true });
        }
        notes_of(self.first, self.tokenizer, self.add).collect()
    }
}

/// The token that is to be put before a prompt, of which the first two tokens are told if they are control tokens.
fn missing_bos([first, _]: [Option<u32>; 2], tokenizer: &dyn Tokenizer, add: AddSpecial) -> Option<u32> {
    tokenizer.adds_bos().filter(|bos| add == AddSpecial::Missing && first != Some(*bos))
}

fn notes_of(
    [first, second]: [Option<u32>; 2],
    tokenizer: &dyn Tokenizer,
    add: AddSpecial,
) -> impl Iterator<Item = Note> {
    let text = |id| tokenizer.token_text(id).unwrap_or_default();
    let none = tokenizer.adds_bos().filter(|bos| add == AddSpecial::Never && first != Some(*bos));
    let two = first.filter(|id| tokenizer.bos() == Some(*id) && second == first);
    let none = none.map(|id| Note::NoBos { id, token: text(id) });
    none.into_iter().chain(two.map(|id| Note::TwoBos { id, token: text(id) }))
}

/// The token that is to be put behind a prompt with this last token, which may be a control token.
fn missing_eos(last: Option<(u32, bool)>, prompt: &Prompt, tokenizer: &dyn Tokenizer, add: AddSpecial) -> Option<u32> {
    let eos = tokenizer.adds_eos().filter(|_| add == AddSpecial::Missing && !prompt.open)?;
    (last != Some((eos, true))).then_some(eos)
}

/// Whether a token is white space, which templates have before and behind the tokens at the ends.
fn is_blank(token: &EncodedToken, prompt: &Prompt) -> bool {
    !token.control && prompt.text().get(token.start..token.end).is_some_and(|text| text.trim().is_empty())
}
