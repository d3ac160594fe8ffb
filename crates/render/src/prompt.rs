use std::ops::Range;
use std::sync::Arc;

use rolecall_conversation::Place;
use rolecall_format::{Control, ControlId, Generation, Slot, sources};
use rolecall_text::{Piece, Source, Text};

use crate::origin::Origins;
use crate::{Origin, Trust};

/// A rendered conversation: its text, where every byte came from, and how the model is to go on.
///
/// ```
/// use rolecall_conversation::{Conversation, Message};
/// use rolecall_format::builtin;
/// use rolecall_render::{Options, Run, render};
///
/// let registry = builtin();
/// let format = registry.get("chatml").expect("built in");
/// let prompt = render(&Conversation::new(vec![Message::user("\nHi")]), format, &Options::default())?;
/// // The format's newline and the content's are one run for the tokenizer, and two segments for whoever asks.
/// let Some(Run::Text { text, .. }) = prompt.runs().nth(1) else { panic!("a text") };
/// assert_eq!(text, "user\n\nHi");
/// assert_eq!(prompt.segments().nth(2).map(|segment| segment.origin.message()), Some(Some(0)));
/// # Ok::<(), rolecall_render::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Prompt {
    pub(crate) text: Text,
    /// What the sources behind those of the format stand for.
    pub(crate) origins: Origins,
    pub(crate) controls: Arc<[Control]>,
    /// The text of the chat template that wrote it; none where a format did.
    pub(crate) template: Option<Arc<str>>,
    pub(crate) turns: Vec<Turn>,
    /// How the maker lets the model speak, with the texts to stop at.
    pub generation: Arc<Generation>,
    /// What the format has no place for and left out, as its maker's code does.
    pub dropped: Vec<Dropped>,
    /// Whether the template writes the calls that were left out where it is given them in its own form
    /// ([`CallForm::AsWanted`](crate::CallForm)).
    pub calls_as_wanted: bool,
    /// Options whose value is none of those that they are meant for.
    pub unusual: Vec<Unusual>,
    /// Whether the model is to go on with it: it ends with a generation prompt, or inside a message.
    pub open: bool,
    /// What a template marks as the model's own words, in bytes; a format marks none.
    pub generated: Vec<Range<usize>>,
}

/// Where a turn begins in a prompt; it goes on to the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Its first byte.
    pub start: usize,
    /// Which layout wrote it.
    pub slot: Slot,
    /// The message it belongs to, from 0; none for what the format adds.
    pub message: Option<usize>,
}

impl Turn {
    /// Whether it is what the assistant said: a message, and no generation prompt.
    pub fn is_reply(&self) -> bool {
        self.slot == Slot::Assistant && self.message.is_some()
    }
}

/// Something of the conversation that is not in the prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// Where it stands.
    pub place: Place,
    /// Why it is not there.
    pub why: &'static str,
    /// Whether the model's maker leaves it out on purpose, as reasoning of earlier turns.
    pub by_design: bool,
}

/// All that is not in a prompt for one reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftOut<'a> {
    /// The reason.
    pub why: &'static str,
    /// How much it is.
    pub count: usize,
    /// Where the first of it stands.
    pub first: &'a Place,
    /// Whether the model's maker leaves it out on purpose.
    pub by_design: bool,
}

/// An option whose value is taken, although it is none of those that the option is meant for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unusual {
    /// The option.
    pub option: String,
    /// Its value.
    pub value: String,
    /// The values that it is meant for.
    pub usual: Vec<String>,
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
    /// Whether they were made while rendering: a number, the braces of a printed value, what a filter made of a literal.
    pub is_made: bool,
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

impl Prompt {
    /// The prompt as one string.
    pub fn text(&self) -> &str {
        self.text.plain()
    }

    /// The prompt as one string, without a copy.
    pub fn into_text(self) -> String {
        self.text.into_plain()
    }

    /// The prompt without the token that opens it, where the format or template wrote this one there: for an engine or a
    /// tokenizer that adds it by itself.
    #[must_use]
    pub fn without_bos(self, bos: &str) -> Prompt {
        let written = |end| self.stretches(0..end).iter().all(|(_, trust)| *trust == Trust::Written);
        match !bos.is_empty() && self.text().starts_with(bos) && written(bos.len()) {
            true => self.behind(bos.len()),
            false => self,
        }
    }

    /// The control tokens that the format may emit.
    pub fn controls(&self) -> &[Control] {
        &self.controls
    }

    /// The text of the chat template that wrote it; none where a format did.
    pub fn template(&self) -> Option<&Arc<str>> {
        self.template.as_ref()
    }

    /// Whether it is of a format with these control tokens.
    pub fn is_of(&self, controls: &Arc<[Control]>) -> bool {
        Arc::ptr_eq(&self.controls, controls) || self.controls == *controls
    }

    /// The turns in order, empty ones left out.
    pub fn turns(&self) -> &[Turn] {
        &self.turns
    }

    /// The bytes of a turn, by its number: up to where the next one begins.
    pub fn turn_span(&self, at: usize) -> Range<usize> {
        let start = |at: usize| self.turns.get(at).map_or(self.text.len(), |turn| turn.start);
        start(at)..start(at + 1)
    }

    /// What stands before so many bytes; none, if that is not on a character border.
    pub fn up_to(&self, end: usize) -> Option<Prompt> {
        let mut prompt = self.clone();
        prompt.text = self.text.slice(0..end)?;
        prompt.turns.retain(|turn| turn.start < end);
        for span in &mut prompt.generated {
            span.end = span.end.min(end);
        }
        prompt.generated.retain(|span| span.start < span.end);
        Some(prompt)
    }

    /// What stands behind so many bytes; on a character border. A turn that goes on there begins at 0.
    pub(crate) fn behind(mut self, start: usize) -> Prompt {
        if let Some(rest) = self.text.slice(start..self.text.len()) {
            let first = self.turns.iter().rposition(|turn| turn.start <= start).unwrap_or(0);
            self.turns.drain(..first);
            for turn in &mut self.turns {
                turn.start = turn.start.saturating_sub(start);
            }
            self.turns.retain(|turn| turn.start < rest.len());
            for span in &mut self.generated {
                *span = span.start.saturating_sub(start)..span.end.saturating_sub(start);
            }
            self.generated.retain(|span| !span.is_empty());
            self.text = rest;
        }
        self
    }

    /// What is not in the prompt, one for each reason, in the order of the first.
    pub fn left_out(&self) -> Vec<LeftOut<'_>> {
        let mut reasons: Vec<LeftOut<'_>> = Vec::new();
        for Dropped { place, why, by_design } in &self.dropped {
            match reasons.iter_mut().find(|known| known.why == *why) {
                Some(known) => known.count += 1,
                None => reasons.push(LeftOut { why, count: 1, first: place, by_design: *by_design }),
            }
        }
        reasons
    }

    /// The texts to stop at, the tokenizer's own closing token with them.
    pub fn stops(&self) -> Vec<&str> {
        rolecall_format::stops(&self.generation, &self.controls)
    }

    /// The ids to stop at, where public.
    pub fn stop_ids(&self) -> Vec<u32> {
        let own = self.controls.iter().filter(|control| control.ends_turn).filter_map(|control| control.id);
        let mut ids: Vec<u32> = own.collect();
        ids.extend(self.generation.stop_ids.iter().filter(|id| !ids.contains(id)).copied().collect::<Vec<u32>>());
        ids
    }

    /// The pieces of the prompt in order. They join to its text.
    pub fn segments(&self) -> impl Iterator<Item = Segment<'_>> {
        self.text.pieces().filter(|piece| !piece.text.is_empty()).map(|piece| Segment {
            text: piece.text,
            origin: self.origin(piece.source),
            start: piece.start,
            is_made: piece.source == sources::MADE,
        })
    }

    /// The pieces of a part of the prompt, cut at its ends.
    pub fn segments_in(&self, range: Range<usize>) -> impl Iterator<Item = Segment<'_>> {
        let inside = self.text.pieces_in(range).filter(|piece| !piece.text.is_empty());
        inside.map(|piece| Segment {
            text: piece.text,
            origin: self.origin(piece.source),
            start: piece.start,
            is_made: piece.source == sources::MADE,
        })
    }

    /// What wrote the byte at this offset.
    pub fn origin_at(&self, offset: usize) -> Option<Origin> {
        self.text.source_at(offset).map(|source| self.origin(source))
    }

    fn origin(&self, source: Source) -> Origin {
        match sources::read(source, self.controls.len()) {
            None => Origin::Format,
            Some(Ok(id)) => Origin::Control(id),
            Some(Err(number)) => self.origins.get(number).unwrap_or(Origin::Format),
        }
    }

    /// The prompt as the tokenizer sees it: control tokens, and between them text in one run (cut where the maker's
    /// code calls its tokenizer anew).
    pub fn runs(&self) -> Runs<'_> {
        self.runs_from(0)
    }

    /// The same from one byte on, where a piece begins.
    pub fn runs_from(&self, start: usize) -> Runs<'_> {
        Runs { prompt: self, pieces: self.text.pieces_from(start).peekable() }
    }

    /// How many bytes two prompts of one format have in common at their start, written by the same.
    pub fn same_as(&self, other: &Prompt) -> usize {
        let mut pieces = self.text.pieces().zip(other.text.pieces());
        let is_same = |(ours, theirs): &(Piece<'_>, Piece<'_>)| {
            ours.text == theirs.text
                && ours.source == theirs.source
                && self.trust(ours) == other.trust(theirs)
                && ours.text.len() == theirs.text.len()
        };
        match pieces.find(|pair| !is_same(pair)) {
            Some((ours, _)) => ours.start,
            None => self.text.len().min(other.text.len()),
        }
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
        let controls = self.prompt.controls.len();
        let mut text: Option<Range<usize>> = None;
        while let Some(piece) = self.pieces.peek().copied() {
            let control = sources::read(piece.source, controls).and_then(Result::ok);
            if text.is_some() && (control.is_some() || piece.source == sources::SEAM) {
                break;
            }
            self.pieces.next();
            if let Some(id) = control {
                return Some(Run::Control { text: piece.text, id, start: piece.start });
            }
            let end = piece.start + piece.text.len();
            match &mut text {
                Some(run) => run.end = end,
                None if piece.source == sources::SEAM => {}
                None => text = Some(piece.start..end),
            }
        }
        let run = text?;
        Some(Run::Text { text: &self.prompt.text()[run.clone()], start: run.start })
    }
}
