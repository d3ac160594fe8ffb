//! Splits a prompt into control tokens and the text between them.

use std::ops::Range;

use rolecall_render::{Prompt, Run};

use crate::{Encoder, Error};

/// A control token with its id, or text that is encoded in one call. Both have their byte range in
/// the prompt.
pub(crate) enum PromptPart {
    Control(u32, Range<usize>),
    Text(Range<usize>),
}

impl PromptPart {
    pub fn span(&self) -> &Range<usize> {
        match self {
            PromptPart::Control(_, span) | PromptPart::Text(span) => span,
        }
    }
}

impl Encoder {
    /// Returns the pieces of a prompt from byte `from` on, which must be the start of the prompt or
    /// of a control token.
    pub(crate) fn pieces(&self, prompt: &Prompt, from: usize) -> Result<Vec<PromptPart>, Error> {
        let mut pieces = Vec::with_capacity(8);
        for run in prompt.runs_from(from) {
            match run {
                Run::Control { text, id, start } => {
                    pieces.push(PromptPart::Control(self.control_id(id)?, start..start + text.len()));
                }
                Run::Text { text, start } => self.split_literals(prompt, start..start + text.len(), &mut pieces)?,
            }
        }
        Ok(pieces)
    }

    /// Splits a run at the added tokens that the format's or template's own text spells.
    pub(crate) fn split_literals(
        &self,
        prompt: &Prompt,
        run: Range<usize>,
        pieces: &mut Vec<PromptPart>,
    ) -> Result<(), Error> {
        let mut from = run.start;
        for marker in self.markers.find(prompt, &run, self.tokenizer())? {
            if from < marker.span.start {
                pieces.push(PromptPart::Text(from..marker.span.start));
            }
            from = marker.span.end;
            pieces.push(PromptPart::Control(marker.id, marker.span));
        }
        if from < run.end {
            pieces.push(PromptPart::Text(from..run.end));
        }
        Ok(())
    }

    /// Trims the white space that the neighboring tokens absorb, as the reference does.
    pub(crate) fn stripped(
        &self,
        text: &str,
        mut span: Range<usize>,
        pieces: &[PromptPart],
        at: usize,
    ) -> Range<usize> {
        if !self.markers.any_strips() {
            return span;
        }
        let neighbour = |at: Option<usize>| match pieces.get(at?)? {
            PromptPart::Control(id, _) => Some(self.markers.strips(*id)),
            PromptPart::Text(_) => None,
        };
        if neighbour(at.checked_sub(1)).is_some_and(|(_, behind)| behind) {
            let slice = &text[span.clone()];
            span.start += slice.len() - slice.trim_start().len();
        }
        if neighbour(Some(at + 1)).is_some_and(|(before, _)| before) {
            span.end = span.start + text[span.clone()].trim_end().len();
        }
        span
    }
}
