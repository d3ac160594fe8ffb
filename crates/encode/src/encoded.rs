use rolecall_render::{Prompt, Segment};

use crate::special::Note;

/// The token ids of a prompt, each with the bytes that it covers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Encoded {
    /// The tokens in order.
    pub tokens: Vec<EncodedToken>,
    /// Possible problems at the ends of the prompt.
    pub notes: Vec<Note>,
}

/// One token of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncodedToken {
    /// The token's id.
    pub id: u32,
    /// The first byte of the prompt that the token covers.
    pub start: usize,
    /// The byte after the last one.
    pub end: usize,
    /// Whether it is a control token, or another token that plain text must never encode to.
    pub control: bool,
}

impl EncodedToken {
    /// Returns the parts of the prompt that the token covers, each with its origin and bytes. A
    /// token that straddles a boundary between segments has several parts.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use rolecall_conversation::{Conversation, Message};
    /// use rolecall_encode::{Encoder, Protection};
    /// use rolecall_tokenizer::HuggingFace;
    /// use rolecall_render::{ChatTemplate, Origin, TemplateOptions, Writer};
    ///
    /// let tokenizer = br#"{"added_tokens": [],
    ///     "model": {"type": "BPE", "vocab": {"a": 0, "\n": 1, "\n\n": 2}, "merges": [["\n", "\n"]]}}"#;
    /// let template = ChatTemplate::compile("{{ '\\n' + messages[0].content }}", Vec::new())?;
    /// let protection = Protection::default().with_template("default", &template);
    /// let encoder = Encoder::new(&protection, Arc::new(HuggingFace::from_bytes(tokenizer, None)?))?;
    /// let conversation = Conversation::new(vec![Message::user("\na")]);
    /// let prompt = Writer::template(template, TemplateOptions::default()).render(&conversation)?;
    /// let encoded = encoder.encode(&prompt)?;
    /// assert_eq!(encoded.ids(), [2, 0]);
    /// // The template's line break and the message's are one token.
    /// let origins: Vec<Origin> = encoded.tokens[0].segments(&prompt).map(|segment| segment.origin).collect();
    /// assert_eq!(origins, [Origin::Format, Origin::Message { message: 0, field: "content".into() }]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn segments<'a>(&self, prompt: &'a Prompt) -> impl Iterator<Item = Segment<'a>> + use<'a> {
        prompt.segments_in(self.start..self.end)
    }
}

impl Encoded {
    /// Returns the ids.
    pub fn ids(&self) -> Vec<u32> {
        self.tokens.iter().map(|token| token.id).collect()
    }

    /// Returns where each token starts and ends in the prompt's text, in characters: two numbers per
    /// token. A token that covers a part of a character counts as covering the whole.
    ///
    /// ```
    /// use rolecall_encode::{Encoded, EncodedToken};
    /// let token = |start, end| EncodedToken { id: 0, start, end, control: false };
    /// let encoded = Encoded { tokens: vec![token(0, 2), token(2, 4), token(4, 5)], ..Encoded::default() };
    /// assert_eq!(encoded.spans_in_characters("é€"), [0, 1, 1, 2, 1, 2]);
    /// ```
    pub fn spans_in_characters(&self, text: &str) -> Vec<u64> {
        // How many characters start before each byte.
        let mut started = Vec::with_capacity(text.len() + 1);
        let mut count = 0;
        for at in 0..=text.len() {
            started.push(count);
            count += u64::from(at < text.len() && text.is_char_boundary(at));
        }
        let started_before = |at: usize| started.get(at).copied().unwrap_or(count);
        let bounds = |token: &EncodedToken| {
            let is_inside = !text.is_char_boundary(token.start);
            [started_before(token.start) - u64::from(is_inside && token.start < text.len()), started_before(token.end)]
        };
        self.tokens.iter().flat_map(bounds).collect()
    }

    /// Truncates to at most `length` tokens, as trainers do with examples that are too long.
    ///
    /// ```
    /// use rolecall_encode::{Encoded, EncodedToken};
    /// let token = |id| EncodedToken { id, start: 0, end: 1, control: false };
    /// let mut encoded = Encoded { tokens: vec![token(1), token(2)], ..Encoded::default() };
    /// encoded.cut(1);
    /// assert_eq!(encoded.ids(), [1]);
    /// ```
    pub fn cut(&mut self, length: usize) {
        self.tokens.truncate(length);
    }

    /// Returns the ids of the control tokens, in order.
    pub fn control_ids(&self) -> Vec<u32> {
        self.tokens.iter().filter(|token| token.control).map(|token| token.id).collect()
    }
}
