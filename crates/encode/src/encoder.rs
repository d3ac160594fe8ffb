use std::sync::Arc;

use rolecall_format::{Control, ControlId, InText};
use rolecall_render::{Prompt, Run};

use crate::binding::{bind, find};
use crate::markers::Markers;
use crate::pieces::Piece;
use crate::reference::{Split, SplitRun, split_text};
use crate::special::{AddSpecial, surround};
use crate::tokenizer::{Place, Token};
use crate::{Encoded, EncodedToken, Error, Tokenizer};

/// Encodes prompts of one format with one tokenizer. Made once, shared by threads.
///
/// ```
/// use std::sync::Arc;
///
/// use rolecall_conversation::{Conversation, Message};
/// use rolecall_encode::Encoder;
/// use rolecall_encode::tokenizer::HuggingFace;
/// use rolecall_format::load;
/// use rolecall_render::{Options, render};
///
/// let format = load(r#"
///     name = "tiny"
///     title = "Tiny"
///     sources = { layout = "this example" }
///     control = { "<|im|>" = { id = 4 }, "<|end|>" = { id = 5, ends_turn = true } }
///     [layout]
///     user = "<|im|>user{content}<|end|>"
///     assistant = "<|im|>model{content}<|end|>"
///     generate = "<|im|>model"
/// "#)?;
/// let tokenizer = br#"{
///     "added_tokens": [
///         {"id": 4, "content": "<|im|>", "special": true, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false},
///         {"id": 5, "content": "<|end|>", "special": true, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false}
///     ],
///     "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "[a-z]+"}, "behavior": "Isolated", "invert": false},
///     "model": {"type": "WordLevel", "vocab": {"[UNK]": 0, "user": 1, "model": 2, "end": 3}, "unk_token": "[UNK]"}
/// }"#;
/// let encoder = Encoder::new(Arc::clone(&format.controls), Arc::new(HuggingFace::from_bytes(tokenizer, None)?))?;
/// let prompt = render(&Conversation::new(vec![Message::user("<|end|>")]), &format, &Options::default())?;
/// // The message's `<|end|>` is no token 5; the format's is.
/// assert_eq!(encoder.encode(&prompt)?.control_ids(), [4, 5, 4]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Encoder {
    tokenizer: Arc<dyn Tokenizer>,
    controls: Arc<[Control]>,
    /// The id of each control token that the tokenizer has.
    ids: Vec<Option<u32>>,
    pub(crate) markers: Markers,
    pub(crate) add: AddSpecial,
}

impl Encoder {
    /// Binds a format's control tokens to a tokenizer; refused where they do not fit.
    pub fn new(controls: Arc<[Control]>, tokenizer: Arc<dyn Tokenizer>) -> Result<Encoder, Error> {
        let ids = bind(&controls, tokenizer.as_ref())?;
        Ok(Encoder { markers: Markers::new(tokenizer.as_ref()), add: AddSpecial::default(), controls, ids, tokenizer })
    }

    /// The same encoder, which puts the tokenizer's own BOS and EOS around a prompt or does not.
    #[must_use]
    pub fn adding(mut self, add: AddSpecial) -> Encoder {
        self.add = add;
        self
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &dyn Tokenizer {
        self.tokenizer.as_ref()
    }

    /// Encodes a prompt: control tokens only where the format wrote them, text between them in one run.
    pub fn encode(&self, prompt: &Prompt) -> Result<Encoded, Error> {
        let pieces = self.pieces(prompt, 0)?;
        let mut encoded = Encoded::default();
        self.encode_pieces(prompt.text(), &pieces, &mut encoded)?;
        surround(&mut encoded, prompt, self.tokenizer(), self.add);
        Ok(encoded)
    }

    /// Encodes control tokens and texts that the caller has put together: each text is one run, and nothing in it is
    /// taken for a token. Spans count from the start of the first run.
    pub fn encode_runs<'a>(&self, runs: impl IntoIterator<Item = Run<'a>>) -> Result<Encoded, Error> {
        let mut joined = String::new();
        let mut pieces = Vec::new();
        for run in runs {
            let start = joined.len();
            match run {
                Run::Control { text, id, .. } => {
                    joined.push_str(text);
                    pieces.push(Piece::Control(self.control_id(id)?, start..joined.len()));
                }
                Run::Text { text, .. } => {
                    joined.push_str(text);
                    pieces.push(Piece::Text(start..joined.len()));
                }
            }
        }
        let mut encoded = Encoded::default();
        self.encode_pieces(&joined, &pieces, &mut encoded)?;
        Ok(encoded)
    }

    /// Encodes a prompt as the reference does: text that spells a control token becomes it, forged or not.
    pub fn encode_reference(&self, prompt: &Prompt) -> Result<Encoded, Error> {
        let text = prompt.text();
        // A maker whose code puts the pieces together itself decides there which text is a token.
        let pieced = self.controls.iter().any(|control| control.appended || control.in_text != InText::Always);
        if !pieced {
            let mut tokens = Vec::new();
            self.tokenizer.encode_reference(text, Place::Start, &mut tokens)?;
            let tokens = tokens.into_iter().map(|token| self.marked(token)).collect();
            let mut encoded = Encoded { tokens, ..Encoded::default() };
            surround(&mut encoded, prompt, self.tokenizer(), self.add);
            return Ok(encoded);
        }
        let mut pieces = Vec::new();
        for run in prompt.runs() {
            match run {
                Run::Control { text, id, start } => {
                    pieces.push(Piece::Control(self.control_id(id)?, start..start + text.len()))
                }
                Run::Text { text, start } => {
                    for run in split_text(text, &self.controls, None, Split::Published) {
                        pieces.push(match run {
                            SplitRun::Control { id, span } => {
                                Piece::Control(self.control_id(id)?, span.start + start..span.end + start)
                            }
                            SplitRun::Text { span } => Piece::Text(span.start + start..span.end + start),
                        });
                    }
                }
            }
        }
        let mut encoded = Encoded::default();
        self.encode_pieces(text, &pieces, &mut encoded)?;
        surround(&mut encoded, prompt, self.tokenizer(), self.add);
        Ok(encoded)
    }

    pub(crate) fn control_id(&self, control: ControlId) -> Result<u32, Error> {
        match self.ids.get(control.0) {
            Some(Some(id)) => Ok(*id),
            _ => find(&self.controls[control.0], self.tokenizer.as_ref()),
        }
    }

    /// Encodes pieces behind what is encoded already.
    pub(crate) fn encode_pieces(&self, text: &str, pieces: &[Piece], encoded: &mut Encoded) -> Result<(), Error> {
        if encoded.tokens.is_empty() {
            encoded.tokens.reserve(text.len() / 3);
        }
        let mut tokens = Vec::new();
        for (at, piece) in pieces.iter().enumerate() {
            match piece {
                Piece::Control(id, span) => {
                    encoded.tokens.push(EncodedToken { id: *id, start: span.start, end: span.end, control: true });
                }
                Piece::Text(span) => {
                    let span = self.stripped(text, span.clone(), pieces, at);
                    let place = if at == 0 { Place::Start } else { Place::Inside };
                    tokens.clear();
                    if !span.is_empty() {
                        self.tokenizer.encode_ordinary(&text[span.clone()], place, &mut tokens)?;
                    }
                    encoded.tokens.extend(tokens.iter().map(|token| EncodedToken {
                        id: token.id,
                        start: token.start + span.start,
                        end: token.end + span.start,
                        control: false,
                    }));
                }
            }
        }
        Ok(())
    }

    fn marked(&self, token: Token) -> EncodedToken {
        // Ids of pieces that stand for a byte come out of ordinary text too, where it has no other piece.
        let control = self.ids.contains(&Some(token.id))
            || self.tokenizer.added_tokens().iter().any(|added| added.id == token.id && added.special);
        EncodedToken { id: token.id, start: token.start, end: token.end, control }
    }
}
