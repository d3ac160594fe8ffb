use std::sync::Arc;

use rolecall_render::Prompt;

use crate::special::surround;
use crate::{Encoded, Encoder, Error};

/// A conversation that grows: of each prompt only what is new is encoded, and the ids of the rest are kept.
///
/// The ids are always those of [`Encoder::encode`], also where a prompt is another one altogether.
///
/// ```
/// use std::sync::Arc;
///
/// use rolecall_conversation::{Conversation, Message};
/// use rolecall_tokenizer::HuggingFace;
/// use rolecall_encode::{Encoder, Growing, Protection};
/// use rolecall_render::{ChatTemplate, TemplateOptions, render_template};
///
/// let tokenizer = br#"{"added_tokens": [], "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "|": 2}, "merges": []}}"#;
/// let template = ChatTemplate::compile("{% for m in messages %}{{ m.content }}|{% endfor %}", Vec::new())?;
/// let protection = Protection::of_template("default", &template);
/// let encoder = Encoder::new(&protection, Arc::new(HuggingFace::from_bytes(tokenizer, None)?))?;
/// let mut growing = Growing::new(Arc::new(encoder));
///
/// let mut conversation = Conversation::new(vec![Message::user("a")]);
/// let prompt = render_template(&conversation, &template, &TemplateOptions::default())?;
/// assert_eq!(growing.encode(prompt)?.ids(), [0, 2]);
/// conversation.messages.push(Message::user("b"));
/// let prompt = render_template(&conversation, &template, &TemplateOptions::default())?;
/// assert_eq!(growing.encode(prompt)?.ids(), [0, 2, 1, 2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Growing {
    encoder: Arc<Encoder>,
    last: Option<(Prompt, Encoded)>,
    /// Tokens of the last prompt that were kept.
    kept: usize,
}

impl Growing {
    /// A conversation of which nothing is encoded yet.
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
        self.encoder.encode_pieces(prompt.text(), &pieces, &mut encoded)?;
        surround(&mut encoded, &prompt, self.encoder.tokenizer(), self.encoder.add);
        let (_, encoded) = self.last.insert((prompt, encoded));
        Ok(encoded)
    }

    /// How many tokens of the last prompt were kept from the one before.
    pub fn kept(&self) -> usize {
        self.kept
    }
}

/// What of an encoding stays for another prompt, and from which byte on it has to be encoded anew: a control token before
/// the last one that both prompts have whole, so that what comes behind it cannot change how it is read.
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
