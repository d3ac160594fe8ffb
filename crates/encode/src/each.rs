//! Tokens as they come, for whoever needs not have them all at once.

use rolecall_render::{Prompt, Run};

use crate::pieces::Piece;
use crate::special::Surrounding;
use crate::tokenizer::Place;
use crate::{EncodedToken, Encoder, Error, Note};

/// So many pieces are kept at most before those that are encoded are dropped.
const KEPT: usize = 1 << 10;

impl Encoder {
    /// Encodes a prompt as [`Encoder::encode`] does and hands over token by token, so that they are not all in memory at
    /// once. After an error, what was handed over is of no use. The notes come last.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use rolecall_conversation::{Conversation, Message};
    /// use rolecall_encode::{Encoder, Protection};
    /// use rolecall_encode::tokenizer::HuggingFace;
    /// use rolecall_render::{ChatTemplate, TemplateOptions, render_template};
    ///
    /// let tokenizer = br#"{"added_tokens": [], "model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}}"#;
    /// let template = ChatTemplate::compile("{{ messages[0].content }}", Vec::new())?;
    /// let tokenizer = Arc::new(HuggingFace::from_bytes(tokenizer, None)?);
    /// let encoder = Encoder::new(&Protection::of_template("default", &template), tokenizer)?;
    /// let conversation = Conversation::new(vec![Message::user("abba")]);
    /// let prompt = render_template(&conversation, &template, &TemplateOptions::default())?;
    /// let mut ids = Vec::new();
    /// encoder.encode_each(&prompt, &mut |token| ids.push(token.id))?;
    /// assert_eq!(ids, [0, 1, 1, 0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn encode_each(&self, prompt: &Prompt, take: &mut dyn FnMut(EncodedToken)) -> Result<Vec<Note>, Error> {
        self.check(prompt)?;
        let mut around = Surrounding::new(prompt, self.tokenizer(), self.add, take);
        let mut place = Place::Start;
        let mut pieces = Vec::new();
        // The first piece that is not encoded; the one before stays, since it may take white space of its neighbour.
        let mut next = 0;
        for run in prompt.runs() {
            match run {
                Run::Control { text, id, start } => {
                    pieces.push(Piece::Control(self.control_id(id)?, start..start + text.len()));
                }
                Run::Text { text, start } => self.split_literals(prompt, start..start + text.len(), &mut pieces)?,
            }
            // The one behind may take white space, too.
            while next + 1 < pieces.len() {
                self.encode_piece(prompt, &pieces, next, &mut place, &mut around)?;
                next += 1;
            }
            if next > KEPT {
                pieces.drain(..next - 1);
                next = 1;
            }
        }
        while next < pieces.len() {
            self.encode_piece(prompt, &pieces, next, &mut place, &mut around)?;
            next += 1;
        }
        Ok(around.end())
    }

    fn encode_piece(
        &self,
        prompt: &Prompt,
        pieces: &[Piece],
        at: usize,
        place: &mut Place,
        around: &mut Surrounding<'_>,
    ) -> Result<(), Error> {
        let here = std::mem::replace(place, Place::Inside);
        match &pieces[at] {
            Piece::Control(id, span) => {
                around.take(EncodedToken { id: *id, start: span.start, end: span.end, control: true });
                Ok(())
            }
            Piece::Text(span) => {
                let span = self.stripped(prompt.text(), span.clone(), pieces, at);
                let Some(text) = prompt.text().get(span.clone()).filter(|text| !text.is_empty()) else { return Ok(()) };
                let taken = self.tokenizer().encode_in_parts(text, here, &mut |tokens| {
                    for token in tokens {
                        let (start, end) = (token.start + span.start, token.end + span.start);
                        around.take(EncodedToken { id: token.id, start, end, control: false });
                    }
                });
                Ok(taken?)
            }
        }
    }
}
