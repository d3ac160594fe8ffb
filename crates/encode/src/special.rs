//! The tokens that a tokenizer adds to a text by itself: BOS before it and EOS after it.

use std::fmt;

use rolecall_render::Prompt;

use crate::{Encoded, EncodedToken};
use rolecall_tokenizer::{TokenRef, Tokenizer, WRONG_TYPE};

/// Whether an encoder adds the tokenizer's own BOS and EOS to a prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AddSpecial {
    /// Adds nothing: the prompt is already complete, as in transformers' `apply_chat_template`.
    #[default]
    Never,
    /// Adds the tokens that the prompt does not contain at its ends yet, so that each occurs once.
    /// EOS is added only if the prompt is complete.
    Missing,
}

/// A possible problem at the ends of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note {
    /// The tokenizer puts this token before every text, but the prompt lacks it.
    NoBos {
        /// Its id.
        id: u32,
        /// Its text.
        token: String,
    },
    /// The file of the tokenizer says that this token is text, but it marks turns or ends a text, so it is
    /// a control token.
    WrongType {
        /// Its id.
        id: u32,
        /// Its text.
        token: String,
    },
    /// The prompt begins with the same BOS token twice.
    TwoBos {
        /// Its id.
        id: u32,
        /// Its text.
        token: String,
    },
}

impl Note {
    /// Returns a stable name for the kind of note.
    pub fn code(&self) -> &'static str {
        match self {
            Note::NoBos { .. } => "no_bos",
            Note::WrongType { .. } => "wrong_type",
            Note::TwoBos { .. } => "two_bos",
        }
    }
}

impl Note {
    /// Returns a hint on how to fix the problem.
    pub fn help(&self) -> &'static str {
        match self {
            Note::NoBos { .. } => {
                "let the encoder add it, or rely on an engine that does; the reference encodes the template's text \
                 unchanged and does not add it"
            }
            Note::WrongType { .. } => {
                "the file was probably converted wrongly: llama.cpp overrides the type in the same way"
            }
            Note::TwoBos { .. } => "both the template and a text in it write this token: remove it from one of them",
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Note::NoBos { id, token } => write!(
                f,
                "the prompt does not begin with `{token}` (id {id}), which the tokenizer adds before every text"
            ),
            Note::WrongType { id, token } => write!(
                f,
                "`{token}` (id {id}) has the type of text in the tokenizer's file and is encoded as a control token"
            ),
            Note::TwoBos { id, token } => write!(f, "the prompt begins with `{token}` (id {id}) twice"),
        }
    }
}

/// Adds the tokenizer's own tokens at the ends if requested, and notes possible problems there.
pub(crate) fn surround(encoded: &mut Encoded, prompt: &Prompt, tokenizer: &dyn Tokenizer, add: AddSpecial) {
    let mut leading = encoded.tokens.iter().filter(|token| !is_blank(token, prompt));
    let ends = [leading.next(), leading.next()].map(|token| token.filter(|token| token.control).map(|token| token.id));
    if let Some(id) = missing_bos(ends, tokenizer, add) {
        encoded.tokens.insert(0, EncodedToken { id, start: 0, end: 0, control: true });
    }
    encoded.notes.extend(notes_of(ends, tokenizer, add));
    let wrong = WrongTypes::of(tokenizer);
    let is_written = |id| encoded.tokens.iter().any(|token| token.control && token.id == id);
    encoded.notes.extend(wrong.notes(tokenizer, is_written));
    let last = encoded.tokens.iter().rev().find(|token| !is_blank(token, prompt));
    if let Some(id) = missing_eos(last.map(|last| (last.id, last.control)), prompt, tokenizer, add) {
        let end = prompt.text().len();
        encoded.tokens.push(EncodedToken { id, start: end, end, control: true });
    }
}

/// Does the same as [`surround`] for tokens that arrive one by one.
pub(crate) struct Surrounding<'a> {
    prompt: &'a Prompt,
    tokenizer: &'a dyn Tokenizer,
    add: AddSpecial,
    take: &'a mut dyn FnMut(EncodedToken),
    /// The number of non-blank tokens seen, up to two.
    seen: usize,
    /// The ids of the first two non-blank tokens, if they are control tokens.
    first: [Option<u32>; 2],
    /// White space before the first non-blank token, held until it is known whether BOS precedes
    /// it.
    waiting: Vec<EncodedToken>,
    /// The last non-blank token: its id, and whether it is a control token.
    last: Option<(u32, bool)>,
    /// The control tokens of the wrong type, and those of them that were written.
    wrong: WrongTypes,
    written: Vec<u32>,
    /// Whether BOS may have to be added before the prompt, or EOS after it.
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
        Surrounding {
            prompt,
            tokenizer,
            add,
            take,
            seen: 0,
            first: [None; 2],
            waiting: Vec::new(),
            last: None,
            wrong: WrongTypes::of(tokenizer),
            written: Vec::new(),
            may_open,
            may_close,
        }
    }

    pub fn take(&mut self, token: EncodedToken) {
        if token.control && self.wrong.0.contains(&token.id) && !self.written.contains(&token.id) {
            self.written.push(token.id);
        }
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

    /// Emits BOS if it is missing, and then the white space held before the first non-blank token.
    fn open(&mut self) {
        if let Some(id) = missing_bos(self.first, self.tokenizer, self.add) {
            (self.take)(EncodedToken { id, start: 0, end: 0, control: true });
            self.last = Some((id, true));
        }
        self.waiting.drain(..).for_each(&mut *self.take);
    }

    /// Emits EOS if it is missing, and returns the notes.
    pub fn end(mut self) -> Vec<Note> {
        if self.seen == 0 {
            self.open();
        }
        if let Some(id) = missing_eos(self.last, self.prompt, self.tokenizer, self.add) {
            let end = self.prompt.text().len();
            (self.take)(EncodedToken { id, start: end, end, control: true });
        }
        let mut notes = notes_of(self.first, self.tokenizer, self.add);
        notes.extend(self.wrong.notes(self.tokenizer, |id| self.written.contains(&id)));
        notes
    }
}

/// Returns the BOS token to add before a prompt. The array holds the ids of the first two non-blank
/// tokens if they are control tokens.
fn missing_bos([first, _]: [Option<u32>; 2], tokenizer: &dyn Tokenizer, add: AddSpecial) -> Option<u32> {
    tokenizer.adds_bos().filter(|bos| add == AddSpecial::Missing && first != Some(*bos))
}

fn notes_of([first, second]: [Option<u32>; 2], tokenizer: &dyn Tokenizer, add: AddSpecial) -> Vec<Note> {
    let none = tokenizer.adds_bos().filter(|bos| add == AddSpecial::Never && first != Some(*bos));
    let two = first.filter(|id| tokenizer.bos() == Some(*id) && second == first);
    let none = none.map(|id| Note::NoBos { id, token: text_of(tokenizer, id) });
    let two = two.map(|id| Note::TwoBos { id, token: text_of(tokenizer, id) });
    none.into_iter().chain(two).collect()
}

/// The ids of the control tokens that the tokenizer's file calls text.
struct WrongTypes(Vec<u32>);

impl WrongTypes {
    fn of(tokenizer: &dyn Tokenizer) -> WrongTypes {
        let wrong = tokenizer.named().iter().filter(|named| named.name == WRONG_TYPE);
        WrongTypes(wrong.filter_map(|named| if let TokenRef::Id(id) = named.token { Some(id) } else { None }).collect())
    }

    /// Returns a note for each of them that is written as a control token. Text that spells it is text.
    fn notes(&self, tokenizer: &dyn Tokenizer, is_written: impl Fn(u32) -> bool) -> Vec<Note> {
        let written = self.0.iter().filter(|id| is_written(**id));
        written.map(|id| Note::WrongType { id: *id, token: text_of(tokenizer, *id) }).collect()
    }
}

fn text_of(tokenizer: &dyn Tokenizer, id: u32) -> String {
    tokenizer.token_text(id).unwrap_or_default()
}

/// Returns the EOS token to add after a prompt. `last` is the id of the last non-blank token and
/// whether it is a control token.
fn missing_eos(last: Option<(u32, bool)>, prompt: &Prompt, tokenizer: &dyn Tokenizer, add: AddSpecial) -> Option<u32> {
    let eos = tokenizer.adds_eos().filter(|_| add == AddSpecial::Missing && !prompt.open)?;
    (last != Some((eos, true))).then_some(eos)
}

/// Reports whether a token is white space, which templates may write around the tokens at the ends.
fn is_blank(token: &EncodedToken, prompt: &Prompt) -> bool {
    !token.control && prompt.text().get(token.start..token.end).is_some_and(|text| text.trim().is_empty())
}
