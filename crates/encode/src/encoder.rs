use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use rolecall_format::{Control, ControlId, InText};
use rolecall_render::{Prompt, Run};

use crate::binding::{bind, extended, find, is_text};
use crate::each::TokenLimit;
use crate::markers::Markers;
use crate::pieces::PromptPart;
use crate::reference::{Split, SplitRun, split_text};
use crate::special::{AddSpecial, surround};
use crate::{Encoded, EncodedToken, Error, Protect, ProtectedTokens, Protection};
use rolecall_tokenizer::{TextPlace, Token, Tokenizer};

/// Encodes prompts of one format, or of one set of chat templates, with one tokenizer. Create it
/// once and share it between threads.
///
/// ```
/// use std::sync::Arc;
///
/// use rolecall_conversation::{Conversation, Message};
/// use rolecall_encode::{Encoder, Protection};
/// use rolecall_tokenizer::HuggingFace;
/// use rolecall_format::load;
/// use rolecall_render::{Options, Writer};
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
/// let encoder = Encoder::new(&Protection::default().with_format(&format), Arc::new(HuggingFace::from_bytes(tokenizer, None)?))?;
/// let writer = Writer::format(format, Options::default());
/// let prompt = writer.render(&Conversation::new(vec![Message::user("<|end|>")]))?;
/// // The `<|end|>` in the message does not encode to token 5; the format's does.
/// assert_eq!(encoder.encode(&prompt)?.control_ids(), [4, 5, 4]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Encoder {
    /// Keeps the protected tokens out of text.
    tokenizer: Arc<dyn Tokenizer>,
    controls: Arc<[Control]>,
    /// The texts of the templates whose prompts this encoder accepts.
    templates: Vec<Arc<str>>,
    takes_all_templates: bool,
    protected: ProtectedTokens,
    /// The id of each control token, if the tokenizer has the token.
    ids: Vec<Option<u32>>,
    pub(crate) markers: Markers,
    pub(crate) add: AddSpecial,
}

impl Encoder {
    /// Creates an encoder for the format or templates in `protection`. Fails if they do not fit the
    /// tokenizer.
    pub fn new(protection: &Protection, tokenizer: Arc<dyn Tokenizer>) -> Result<Encoder, Error> {
        let controls = Arc::clone(&protection.controls);
        let tokenizer = extended(tokenizer, &controls);
        let ids = bind(&controls, tokenizer.as_ref())?;
        let protected = ProtectedTokens::new(protection, tokenizer.as_ref())?;
        let tokenizer = tokenizer.keeping_out(&protected.ids())?;
        // Tokenizers cut added tokens out of text before they consult the vocabulary. Only the
        // tokenizer itself can keep a word of its vocabulary out of text, so check that it does.
        let added: HashSet<u32> = tokenizer.added_tokens().iter().map(|token| token.id).collect();
        let words = || protected.tokens().filter(|token| !added.contains(&token.id));
        if let Some(token) = words().find(|token| is_text(token.id, tokenizer.as_ref())) {
            return Err(Error::ForgeableControl { token: token.text.clone(), id: token.id });
        }
        Ok(Encoder {
            markers: Markers::new(tokenizer.as_ref(), &protected, protection.mode),
            add: AddSpecial::default(),
            templates: protection.templates.clone(),
            takes_all_templates: protection.mode == Protect::AllAdded,
            controls,
            ids,
            protected,
            tokenizer,
        })
    }

    /// Returns the tokens that text must never encode to, with the reasons.
    pub fn protected(&self) -> &ProtectedTokens {
        &self.protected
    }

    /// Rejects a prompt from another format or template, whose control tokens have other numbers or
    /// are not protected.
    pub(crate) fn check(&self, prompt: &Prompt) -> Result<(), Error> {
        if !prompt.is_of(&self.controls) {
            let first = |controls: &[Control]| controls.iter().take(4).map(|control| control.text.clone()).collect();
            return Err(Error::OtherFormat { expected: first(&self.controls), found: first(prompt.controls()) });
        }
        match prompt.template() {
            Some(text) if !self.takes_all_templates => {
                let is_known = |known: &Arc<str>| Arc::ptr_eq(known, text) || known == text;
                self.templates.iter().any(is_known).then_some(()).ok_or(Error::OtherTemplate)
            }
            _ => Ok(()),
        }
    }

    /// Returns the same encoder with this setting for adding the tokenizer's own BOS and EOS to
    /// prompts.
    #[must_use]
    pub fn adding(mut self, add: AddSpecial) -> Encoder {
        self.add = add;
        self
    }

    /// Returns the tokenizer.
    pub fn tokenizer(&self) -> &dyn Tokenizer {
        self.tokenizer.as_ref()
    }

    /// Encodes a prompt. Control tokens appear only where the format wrote them, and the text
    /// between two control tokens is encoded in one run.
    pub fn encode(&self, prompt: &Prompt) -> Result<Encoded, Error> {
        self.encode_at_most(prompt, usize::MAX)
    }

    /// Encodes a prompt of at most so many tokens. The work on a longer one stops there, with
    /// [`Error::TooLong`].
    pub fn encode_at_most(&self, prompt: &Prompt, most: usize) -> Result<Encoded, Error> {
        let mut encoded = Encoded::default();
        encoded.tokens.reserve((prompt.text().len() / 3).min(most));
        self.encode_into(prompt, &mut TokenLimit { tokens: &mut encoded.tokens, most })?;
        surround(&mut encoded, prompt, self.tokenizer(), self.add);
        Ok(encoded)
    }

    /// Encodes control tokens and texts that the caller has assembled. Each text is one run, and
    /// nothing in a text is treated as a control token. Spans count from the start of the first
    /// run.
    pub fn encode_runs<'a>(&self, runs: impl IntoIterator<Item = Run<'a>>) -> Result<Encoded, Error> {
        self.encode_runs_at_most(runs, usize::MAX)
    }

    /// Encodes control tokens and texts to at most so many tokens. The work on longer ones stops
    /// there, with [`Error::TooLong`].
    pub fn encode_runs_at_most<'a>(
        &self,
        runs: impl IntoIterator<Item = Run<'a>>,
        most: usize,
    ) -> Result<Encoded, Error> {
        let mut joined = String::new();
        let mut pieces = Vec::new();
        for run in runs {
            let start = joined.len();
            match run {
                Run::Control { text, id, .. } => {
                    let is_its = |control: &Control| control.texts().any(|known| known == text);
                    if !self.controls.get(id.0).is_some_and(is_its) {
                        return Err(Error::UnknownControl { token: text.to_owned() });
                    }
                    joined.push_str(text);
                    pieces.push(PromptPart::Control(self.control_id(id)?, start..joined.len()));
                }
                Run::Text { text, .. } => {
                    joined.push_str(text);
                    pieces.push(PromptPart::Text(start..joined.len()));
                }
            }
        }
        let mut encoded = Encoded::default();
        encoded.tokens.reserve((joined.len() / 3).min(most));
        let mut sink = TokenLimit { tokens: &mut encoded.tokens, most };
        self.encode_pieces(&joined, &pieces, 0, TextPlace::Start, &mut sink)?;
        Ok(encoded)
    }

    /// Encodes a prompt as the reference does: text that spells a control token encodes to that
    /// token, even if it is forged.
    pub fn encode_reference(&self, prompt: &Prompt) -> Result<Encoded, Error> {
        self.check(prompt)?;
        let text = prompt.text();
        // Some model makers assemble prompts from pieces in their own code, which decides which
        // text becomes a token.
        let pieced = self.controls.iter().any(|control| control.appended || control.in_text != InText::Always);
        if !pieced {
            let mut tokens = Vec::new();
            self.tokenizer.encode_reference(text, TextPlace::Start, &mut tokens)?;
            let tokens = tokens.into_iter().map(|token| self.marked(token)).collect();
            let mut encoded = Encoded { tokens, ..Encoded::default() };
            surround(&mut encoded, prompt, self.tokenizer(), self.add);
            return Ok(encoded);
        }
        let mut pieces = Vec::new();
        for run in prompt.runs() {
            match run {
                Run::Control { text, id, start } => {
                    pieces.push(PromptPart::Control(self.control_id(id)?, start..start + text.len()))
                }
                Run::Text { text, start } => {
                    for run in split_text(text, &self.controls, None, Split::Published) {
                        pieces.push(match run {
                            SplitRun::Control { id, span } => {
                                PromptPart::Control(self.control_id(id)?, span.start + start..span.end + start)
                            }
                            SplitRun::Text { span } => PromptPart::Text(span.start + start..span.end + start),
                        });
                    }
                }
            }
        }
        let mut encoded = Encoded::default();
        encoded.tokens.reserve(text.len() / 3);
        let mut sink = TokenLimit { tokens: &mut encoded.tokens, most: usize::MAX };
        self.encode_pieces(text, &pieces, 0, TextPlace::Start, &mut sink)?;
        surround(&mut encoded, prompt, self.tokenizer(), self.add);
        Ok(encoded)
    }

    pub(crate) fn controls(&self) -> &[Control] {
        &self.controls
    }

    pub(crate) fn control_id(&self, control: ControlId) -> Result<u32, Error> {
        match self.ids.get(control.0) {
            Some(Some(id)) => Ok(*id),
            _ => match self.controls.get(control.0) {
                Some(control) => find(control, self.tokenizer.as_ref()),
                None => Err(Error::UnknownControl { token: format!("number {}", control.0) }),
            },
        }
    }

    fn marked(&self, token: Token) -> EncodedToken {
        // Ordinary text with characters that the vocabulary lacks also encodes to the unknown
        // token.
        let control = self.ids.contains(&Some(token.id))
            || (self.protected.contains(token.id) && self.tokenizer.unknown() != Some(token.id));
        let Range { start, end } = token.range();
        EncodedToken { id: token.id, start, end, control }
    }
}
