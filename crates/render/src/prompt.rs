use std::ops::Range;
use std::sync::Arc;

use rolecall_conversation::Place;
use rolecall_format::{Control, ControlId, Generation};
use rolecall_text::{Source, Text};

use crate::Origin;

/// A rendered conversation: its text, where every byte came from, and how the model is to go on.
#[derive(Clone, Debug, PartialEq)]
pub struct Prompt {
    pub(crate) text: Text,
    /// What the sources behind those of the format stand for.
    pub(crate) origins: Vec<Origin>,
    pub(crate) controls: Arc<[Control]>,
    /// How the maker lets the model speak, with the texts to stop at.
    pub generation: Arc<Generation>,
    /// What the format has no place for and left out, as its maker's code does.
    pub dropped: Vec<Dropped>,
}

/// Something of the conversation that is not in the prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// Where it stands.
    pub place: Place,
    /// Why it is not there.
    pub why: &'static str,
}

/// A run of prompt text with one origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment<'a> {
    /// The characters.
    pub text: &'a str,
    /// Where they came from.
    pub origin: Origin,
    /// Where they begin in the prompt, in bytes.
    pub start: usize,
}

/// What the tokenizer sees: a control token, or all text up to the next one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Run<'a> {
    /// A control token as it is spelled here.
    Control {
        /// Its text.
        text: &'a str,
        /// Which.
        id: ControlId,
        /// Where it begins in the prompt, in bytes.
        start: usize,
    },
    /// Text that is encoded in one call.
    Text {
        /// The characters.
        text: &'a str,
        /// Where they begin in the prompt, in bytes.
        start: usize,
    },
}

/// The sources that every prompt has, before those of its control tokens and of its conversation.
pub(crate) const FORMAT: Source = Source(0);
pub(crate) const SEAM: Source = Source(1);
const FIRST_CONTROL: u32 = 2;

/// The source of a control token.
pub(crate) fn control_source(id: ControlId) -> Source {
    Source(FIRST_CONTROL + id.0 as u32)
}

/// The source of an origin, by its number among the conversation's.
pub(crate) fn origin_source(controls: usize, number: usize) -> Source {
    Source(FIRST_CONTROL + controls as u32 + number as u32)
}

impl Prompt {
    /// The prompt as one string.
    pub fn text(&self) -> &str {
        self.text.plain()
    }

    /// The prompt as one string, without a copy.
    pub fn into_text(self) -> String {
        self.text.into_plain()
    }

    /// The control tokens that the format may emit.
    pub fn controls(&self) -> &[Control] {
        &self.controls
    }

    /// The ids to stop at, where public.
    pub fn stop_ids(&self) -> Vec<u32> {
        self.controls.iter().filter(|control| control.ends_turn).filter_map(|control| control.id).collect()
    }

    /// The pieces of the prompt in order. They join to its text.
    pub fn segments(&self) -> impl Iterator<Item = Segment<'_>> {
        self.text.pieces().filter(|piece| !piece.text.is_empty()).map(|piece| Segment {
            text: piece.text,
            origin: self.origin(piece.source),
            start: piece.start,
        })
    }

    /// The pieces of a part of the prompt, cut at its ends.
    pub fn segments_in(&self, range: Range<usize>) -> impl Iterator<Item = Segment<'_>> {
        let inside = self.text.pieces_in(range).filter(|piece| !piece.text.is_empty());
        inside.map(|piece| Segment { text: piece.text, origin: self.origin(piece.source), start: piece.start })
    }

    /// What wrote the byte at this offset.
    pub fn origin_at(&self, offset: usize) -> Option<Origin> {
        self.text.source_at(offset).map(|source| self.origin(source))
    }

    fn origin(&self, source: Source) -> Origin {
        match source {
            FORMAT | SEAM => Origin::Format,
            Source(number) => {
                let number = (number - FIRST_CONTROL) as usize;
                match number.checked_sub(self.controls.len()) {
                    None => Origin::Control(ControlId(number)),
                    Some(number) => self.origins.get(number).cloned().unwrap_or(Origin::Format),
                }
            }
        }
    }

    /// The prompt as the tokenizer sees it: control tokens, and between them text in one run (cut where the maker's
    /// code calls its tokenizer anew).
    pub fn runs(&self) -> Runs<'_> {
        Runs { prompt: self, pieces: self.text.pieces().peekable() }
    }
}

/// The runs of a [`Prompt`], in order.
pub struct Runs<'a> {
    prompt: &'a Prompt,
    pieces: std::iter::Peekable<rolecall_text::Pieces<'a>>,
}

impl<'a> Iterator for Runs<'a> {
    type Item = Run<'a>;

    fn next(&mut self) -> Option<Run<'a>> {
        let controls = self.prompt.controls.len() as u32;
        let mut text: Option<Range<usize>> = None;
        while let Some(piece) = self.pieces.peek().copied() {
            let control = piece.source.0.checked_sub(FIRST_CONTROL).filter(|number| *number < controls);
            if text.is_some() && (control.is_some() || piece.source == SEAM) {
                break;
            }
            self.pieces.next();
            if let Some(number) = control {
                return Some(Run::Control { text: piece.text, id: ControlId(number as usize), start: piece.start });
            }
            let end = piece.start + piece.text.len();
            match &mut text {
                Some(run) => run.end = end,
                None if piece.source == SEAM => {}
                None => text = Some(piece.start..end),
            }
        }
        let run = text?;
        Some(Run::Text { text: &self.prompt.text()[run.clone()], start: run.start })
    }
}
