use std::sync::Arc;

use rolecall_render::Prompt;
use rolecall_tokenizer::TextPlace;

use crate::each::TokenLimit;
use crate::special::surround;
use crate::{Encoded, Encoder, Error};

/// Encoder for a growing conversation: it encodes only the new part of each prompt and keeps the
/// ids of the rest.
///
/// The ids always equal those of [`Encoder::encode`], even if a prompt has nothing in common with
/// the one before.
///
/// ```
/// use std::sync::Arc;
///
/// use rolecall_conversation::{Conversation, Message};
/// use rolecall_tokenizer::HuggingFace;
/// use rolecall_encode::{Encoder, Growing, Protection};
/// use rolecall_render::{ChatTemplate, TemplateOptions, Writer};
///
/// let tokenizer = br#"{"added_tokens": [], "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "|": 2}, "merges": []}}"#;
/// let template = ChatTemplate::compile("{% for m in messages %}{{ m.content }}|{% endfor %}", Vec::new())?;
/// let protection = Protection::default().with_template("default", &template);
/// let encoder = Encoder::new(&protection, Arc::new(HuggingFace::from_bytes(tokenizer, None)?))?;
/// let mut growing = Growing::new(Arc::new(encoder));
///
/// let mut conversation = Conversation::new(vec![Message::user("a")]);
/// let writer = Writer::template(template, TemplateOptions::default());
/// assert_eq!(growing.encode(writer.render(&conversation)?)?.ids(), [0, 2]);
/// conversation.messages.push(Message::user("b"));
/// assert_eq!(growing.encode(writer.render(&conversation)?)?.ids(), [0, 2, 1, 2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Growing {
    encoder: Arc<Encoder>,
    last: Option<(Prompt, Encoded)>,
    /// The number of tokens reused for the last prompt.
    kept: usize,
}

impl Growing {
    /// Creates the state for a conversation of which nothing is encoded yet.
    pub fn new(encoder: Arc<Encoder>) -> Growing {
        Growing { encoder, last: None, kept: 0 }
    }

    /// Encodes the next prompt of the conversation.
    pub fn encode(&mut self, prompt: Prompt) -> Result<&Encoded, Error> {
        self.encoder.check(&prompt)?;
        let (from, mut encoded) = match self.last.take() {
            Some((before, encoded)) => kept(&before, encoded, &prompt),
            None => (0, Encoded::default()),
        };
        self.kept = encoded.tokens.len();
        let pieces = self.encoder.pieces(&prompt, from)?;
        encoded.tokens.reserve((prompt.text().len() - from) / 3);
        let mut sink = TokenLimit { tokens: &mut encoded.tokens, most: usize::MAX };
        self.encoder.encode_pieces(prompt.text(), &pieces, 0, TextPlace::Start, &mut sink)?;
        surround(&mut encoded, &prompt, self.encoder.tokenizer(), self.encoder.add);
        let (_, encoded) = self.last.insert((prompt, encoded));
        Ok(encoded)
    }

    /// Returns how many tokens of the last prompt were reused from the prompt before it.
    pub fn kept(&self) -> usize {
        self.kept
    }
}

/// Returns the byte from which `prompt` must be encoded again, and the part of the encoding that
/// can be kept. The cut is at the second to last control token that both prompts contain in full,
/// so that later text cannot change how the kept part is encoded.
fn kept(before: &Prompt, mut encoded: Encoded, prompt: &Prompt) -> (usize, Encoded) {
    let same = before.same_as(prompt);
    let whole = encoded.tokens.partition_point(|token| token.start < same);
    let mut controls = encoded.tokens[..whole].iter().enumerate().rev();
    let mut controls =
        controls.by_ref().filter(|(_, token)| token.control && token.end <= same && token.start < token.end);
    let (at, from) = controls.nth(1).map_or((0, 0), |(at, token)| (at, token.start));
    encoded.tokens.truncate(at);
    encoded.notes.clear();
    (from, encoded)
}
