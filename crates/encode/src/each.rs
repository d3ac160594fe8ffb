//! Streaming encoding for callers that do not need all tokens in memory at once.

use rolecall_render::{Prompt, Run};

use crate::pieces::PromptPart;
use crate::special::Surrounding;
use crate::{EncodedToken, Encoder, Error, Note};
use rolecall_tokenizer::{TextPlace, Token};

/// The number of encoded pieces that may pile up before they are dropped.
const KEPT: usize = 1 << 10;

/// Receives the tokens of a prompt in order.
pub(crate) trait Sink {
    fn control(&mut self, token: EncodedToken);

    /// Receives tokens of a text that begins at byte `start` of the prompt.
    fn text(&mut self, tokens: &[Token], start: usize);

    /// The most tokens that may still come, if their number is limited.
    fn room(&self) -> Room {
        Room::Any
    }
}

/// The number of tokens that a receiver still takes.
#[derive(Clone, Copy)]
pub(crate) enum Room {
    Any,
    Only(usize),
    /// None, because there were more than this limit.
    Over(usize),
}

/// Collects at most so many tokens, and a few more. `usize::MAX` is no limit.
pub(crate) struct TokenLimit<'a> {
    pub tokens: &'a mut Vec<EncodedToken>,
    pub most: usize,
}

impl Sink for TokenLimit<'_> {
    fn control(&mut self, token: EncodedToken) {
        self.tokens.push(token);
    }

    fn text(&mut self, tokens: &[Token], start: usize) {
        self.tokens.extend(tokens.iter().map(|token| in_prompt(token, start)));
    }

    fn room(&self) -> Room {
        match self.most.checked_sub(self.tokens.len()) {
            _ if self.most == usize::MAX => Room::Any,
            Some(room) => Room::Only(room),
            None => Room::Over(self.most),
        }
    }
}

/// Passes tokens on one by one.
impl Sink for Surrounding<'_> {
    fn control(&mut self, token: EncodedToken) {
        self.take(token);
    }

    fn text(&mut self, tokens: &[Token], start: usize) {
        tokens.iter().for_each(|token| self.take(in_prompt(token, start)));
    }
}

fn in_prompt(token: &Token, start: usize) -> EncodedToken {
    let range = token.range();
    EncodedToken { id: token.id, start: range.start + start, end: range.end + start, control: false }
}

impl Encoder {
    /// Encodes a prompt as [`Encoder::encode`] does and passes each token to `take`, so that the
    /// tokens need not all be in memory at once. Returns the notes. After an error, discard the
    /// tokens that were passed so far.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use rolecall_conversation::{Conversation, Message};
    /// use rolecall_encode::{Encoder, Protection};
    /// use rolecall_tokenizer::HuggingFace;
    /// use rolecall_render::{ChatTemplate, TemplateOptions, Writer};
    ///
    /// let tokenizer = br#"{"added_tokens": [], "model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}}"#;
    /// let template = ChatTemplate::compile("{{ messages[0].content }}", Vec::new())?;
    /// let tokenizer = Arc::new(HuggingFace::from_bytes(tokenizer, None)?);
    /// let encoder = Encoder::new(&Protection::default().with_template("default", &template), tokenizer)?;
    /// let conversation = Conversation::new(vec![Message::user("abba")]);
    /// let prompt = Writer::template(template, TemplateOptions::default()).render(&conversation)?;
    /// let mut ids = Vec::new();
    /// encoder.encode_each(&prompt, &mut |token| ids.push(token.id))?;
    /// assert_eq!(ids, [0, 1, 1, 0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn encode_each(&self, prompt: &Prompt, take: &mut dyn FnMut(EncodedToken)) -> Result<Vec<Note>, Error> {
        let mut around = Surrounding::new(prompt, self.tokenizer(), self.add, take);
        self.encode_into(prompt, &mut around)?;
        Ok(around.end())
    }

    /// Encodes a prompt piece by piece.
    pub(crate) fn encode_into(&self, prompt: &Prompt, sink: &mut impl Sink) -> Result<(), Error> {
        self.check(prompt)?;
        let mut place = TextPlace::Start;
        let mut pieces = Vec::new();
        // The first piece that is not encoded yet. The piece before it stays in the list because it
        // may take white space from its neighbor.
        let mut next = 0;
        for run in prompt.runs() {
            match run {
                Run::Control { text, id, start } => {
                    pieces.push(PromptPart::Control(self.control_id(id)?, start..start + text.len()));
                }
                Run::Text { text, start } => self.split_literals(prompt, start..start + text.len(), &mut pieces)?,
            }
            // The next piece may also take white space, so encode a piece only once the next one is
            // known.
            while next + 1 < pieces.len() {
                self.encode_piece(prompt.text(), &pieces, next, &mut place, sink)?;
                next += 1;
            }
            if next > KEPT {
                pieces.drain(..next - 1);
                next = 1;
            }
        }
        while next < pieces.len() {
            self.encode_piece(prompt.text(), &pieces, next, &mut place, sink)?;
            next += 1;
        }
        Ok(())
    }

    /// Encodes the pieces of a text from `first` on. `place` is that of the first piece of all.
    pub(crate) fn encode_pieces(
        &self,
        text: &str,
        pieces: &[PromptPart],
        first: usize,
        place: TextPlace,
        sink: &mut impl Sink,
    ) -> Result<(), Error> {
        let mut place = if first == 0 { place } else { TextPlace::Inside };
        (first..pieces.len()).try_for_each(|at| self.encode_piece(text, pieces, at, &mut place, sink))
    }

    fn encode_piece(
        &self,
        text: &str,
        pieces: &[PromptPart],
        at: usize,
        place: &mut TextPlace,
        sink: &mut impl Sink,
    ) -> Result<(), Error> {
        let here = std::mem::replace(place, TextPlace::Inside);
        match &pieces[at] {
            PromptPart::Control(id, span) => {
                sink.control(EncodedToken { id: *id, start: span.start, end: span.end, control: true });
                within(sink)
            }
            PromptPart::Text(span) => {
                let span = self.stripped(text, span.clone(), pieces, at);
                let Some(text) = text.get(span.clone()).filter(|text| !text.is_empty()) else { return Ok(()) };
                if let Room::Only(room) = sink.room() {
                    let mut tokens = Vec::with_capacity((text.len() / 3).min(room));
                    self.tokenizer().encode_at_most(text, here, room, &mut tokens)?;
                    sink.text(&tokens, span.start);
                    return within(sink);
                }
                let mut take = |tokens: &[Token]| sink.text(tokens, span.start);
                Ok(self.tokenizer().encode_in_parts(text, here, &mut take)?)
            }
        }
    }
}

/// Refuses tokens beyond a limit.
fn within(sink: &impl Sink) -> Result<(), Error> {
    match sink.room() {
        Room::Over(most) => Err(Error::TooLong { most }),
        Room::Any | Room::Only(_) => Ok(()),
    }
}
