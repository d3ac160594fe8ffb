use std::ops::Range;

use rolecall_render::Prompt;
use rolecall_tokenizer::TextPlace;

use crate::each::TokenLimit;
use crate::pieces::PromptPart;
use crate::{Encoded, Encoder, Error};

impl Encoder {
    /// Encodes a part of a prompt that continues ids which are already known.
    ///
    /// The run of text at each end of the range is cut there, so the ids do not depend on what is
    /// outside the range. Nothing is added at the ends. Token positions count from the start of the
    /// prompt, which may itself be only the end of a longer one.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use rolecall_conversation::{Conversation, Message};
    /// use rolecall_encode::{Encoder, Protection};
    /// use rolecall_render::{ChatTemplate, TemplateOptions, Writer};
    /// use rolecall_tokenizer::HuggingFace;
    ///
    /// let tokenizer = br#"{"added_tokens": [], "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "|": 2}, "merges": []}}"#;
    /// let template = ChatTemplate::compile("{% for m in messages %}{{ m.content }}|{% endfor %}", Vec::new())?;
    /// let protection = Protection::default().with_template("default", &template);
    /// let encoder = Encoder::new(&protection, Arc::new(HuggingFace::from_bytes(tokenizer, None)?))?;
    /// let conversation = Conversation::new(vec![Message::user("a"), Message::user("b")]);
    /// let prompt = Writer::template(template, TemplateOptions::default()).render(&conversation)?;
    /// assert_eq!(encoder.encode_part(&prompt, 2..4)?.ids(), [1, 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn encode_part(&self, prompt: &Prompt, range: Range<usize>) -> Result<Encoded, Error> {
        self.encode_part_at_most(prompt, range, usize::MAX)
    }

    /// Encodes a part of a prompt to at most so many tokens. The work on a longer one stops there,
    /// with [`Error::TooLong`].
    pub fn encode_part_at_most(&self, prompt: &Prompt, range: Range<usize>, most: usize) -> Result<Encoded, Error> {
        self.check(prompt)?;
        // Only a token before the range that takes white space after it matters.
        let from = if self.markers.any_strips() { 0 } else { range.start };
        let mut parts = self.pieces(prompt, from)?;
        let end_of = |part: &PromptPart| part.span().end;
        parts.truncate(parts.partition_point(|part| part.span().start < range.end));
        let first = parts.partition_point(|part| end_of(part) <= range.start);
        for part in &mut parts {
            if let PromptPart::Text(span) = part {
                span.end = span.end.min(range.end);
            }
        }
        if let Some(PromptPart::Text(span)) = parts.get_mut(first) {
            span.start = span.start.max(range.start);
        }
        let mut encoded = Encoded::default();
        encoded.tokens.reserve((range.len() / 3).min(most));
        let mut sink = TokenLimit { tokens: &mut encoded.tokens, most };
        self.encode_pieces(prompt.text(), &parts, first, TextPlace::Inside, &mut sink)?;
        Ok(encoded)
    }
}
