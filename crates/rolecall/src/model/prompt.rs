use std::sync::Arc;

use rolecall_conversation::{Message, Tool};
use rolecall_encode::{Encoded, EncodedToken, Encoder, Note};
use rolecall_format::Format;
use rolecall_openai::Request;
use rolecall_render::{Account, ChatTemplate, DateTime, Prompt, Segment};

use super::settings::EncoderOptions;
use super::writer::ModelWriter;
use super::{BosBy, Model, Purpose};
use crate::Error;

/// The prompt of a request, bound to its model.
///
/// It adds the token ids and the parser of the reply to a [`Prompt`]. Both use the prompt's own model, so they
/// never mix in the tokenizer or the layouts of another one.
#[derive(Clone, Debug)]
pub struct ModelPrompt {
    pub(super) model: Model,
    pub(super) request: Arc<Request>,
    pub(super) purpose: Purpose,
    pub(super) prompt: Prompt,
    /// The stop token that was appended to the rendered text.
    pub(super) appended: Option<String>,
    pub(super) writer: Arc<ModelWriter>,
    pub(super) bos: BosBy,
    /// How the format spells its control tokens, if that was chosen.
    pub(super) spelling: Option<String>,
}

/// The account of a request without leaves.
static NO_ACCOUNT: Account = Account::EMPTY;

impl ModelPrompt {
    /// Returns the request that the prompt was rendered from.
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// Returns the time that the chat template saw, or `None` if a format wrote the prompt.
    ///
    /// A model with this time in its [`Settings`](super::Settings) renders the request to the same text again.
    pub fn now(&self) -> Option<DateTime> {
        self.writer.clock()
    }

    /// Returns what became of each leaf of the request.
    ///
    /// ```
    /// use rolecall::account::LeafKind;
    /// use rolecall::{Model, Request};
    /// let text = r#"{"messages": [{"role": "user", "content": "Hello", "metadata": {"source": "web"}}]}"#;
    /// let prompt = Model::open("qwen2.5")?.prompt(Request::from_text(text)?)?;
    /// let account = prompt.account();
    /// assert_eq!(account.count(LeafKind::Written), 1);
    /// let group = account.groups()[0];
    /// assert_eq!(group.to_string(), "message 0, metadata is not in the prompt: nothing reads this key of a message");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn account(&self) -> &Account {
        self.prompt.account().unwrap_or(&NO_ACCOUNT)
    }

    /// Returns the rendered text with its origins.
    pub fn prompt(&self) -> &Prompt {
        &self.prompt
    }

    /// Returns the text of the prompt.
    pub fn text(&self) -> &str {
        self.prompt.text()
    }

    /// Returns the pieces of the text, each with its origin.
    pub fn segments(&self) -> impl Iterator<Item = Segment<'_>> {
        self.prompt.segments()
    }

    /// Returns the prompt without its model.
    pub fn into_prompt(self) -> Prompt {
        self.prompt
    }

    /// Returns the format that wrote the prompt, or `None` if a chat template did.
    pub fn format(&self) -> Option<&Arc<Format>> {
        self.writer.format()
    }

    /// Returns the chat template that wrote the prompt, or `None` if a format did.
    pub fn template(&self) -> Option<&Arc<ChatTemplate>> {
        self.writer.template()
    }

    /// Adds the tokens that end the model's replies to [`Prompt::stops`] and [`Prompt::stop_ids`].
    ///
    /// By itself, a prompt has only those that the format or the model's files name. This infers the
    /// layouts of a chat template, and loads the tokenizer if the model has one.
    pub fn find_stops(&mut self) -> Result<(), Error> {
        let stops = self.model.stops_of(&self.writer)?;
        let (texts, ids) = (self.prompt.stops(), self.prompt.stop_ids());
        let is_new = |text: &&str| !text.is_empty() && !texts.contains(text);
        let more: Vec<String> =
            stops.tokens.iter().map(|stop| stop.text.as_str()).filter(is_new).map(str::to_owned).collect();
        let more_ids: Vec<u32> = stops.ids().filter(|id| !ids.contains(id)).collect();
        if !more.is_empty() || !more_ids.is_empty() {
            let generation = Arc::make_mut(&mut self.prompt.generation);
            generation.stop.extend(more);
            generation.stop_ids.extend(more_ids);
        }
        Ok(())
    }

    /// Returns the token ids, each with the bytes that it covers.
    pub fn encode(&self) -> Result<Encoded, Error> {
        self.encode_at_most(usize::MAX)
    }

    /// Encodes the prompt to at most so many tokens. The work on a longer one stops there, with the
    /// code `too_many_tokens`.
    pub fn encode_at_most(&self, most: usize) -> Result<Encoded, Error> {
        let mut encoded = self.encoder()?.encode_at_most(&self.prompt, most)?;
        self.drop_notes(&mut encoded.notes);
        Ok(encoded)
    }

    /// Passes the tokens to `take` one by one, so that they are never all in memory.
    pub fn encode_each(&self, take: &mut dyn FnMut(EncodedToken)) -> Result<Vec<Note>, Error> {
        let mut notes = self.encoder()?.encode_each(&self.prompt, take)?;
        self.drop_notes(&mut notes);
        Ok(notes)
    }

    /// Encodes the prompt as the reference does: text that spells a control token becomes that
    /// token, in messages too.
    ///
    /// This is unsafe if messages come from users.
    pub fn encode_reference(&self) -> Result<Encoded, Error> {
        let mut encoded = self.encoder()?.encode_reference(&self.prompt)?;
        self.drop_notes(&mut encoded.notes);
        Ok(encoded)
    }

    fn encoder(&self) -> Result<Arc<Encoder>, Error> {
        let options = EncoderOptions { add: self.bos.add(), ..self.model.settings.of_encoder() };
        self.model.shared.encoders.encoder(&self.writer, options)
    }

    /// Drops the notes about the opening token if the engine adds it, because its absence is then
    /// intended.
    fn drop_notes(&self, notes: &mut Vec<Note>) {
        if self.bos == BosBy::Nobody {
            notes.retain(|note| matches!(note, Note::WrongType { .. }));
        }
    }

    /// Returns the offered tools, including those of messages.
    pub fn tools(&self) -> Vec<Tool> {
        offered_tools(&self.request)
    }
}

/// Returns the tools that a request offers, including those of messages.
pub fn offered_tools(request: &Request) -> Vec<Tool> {
    let conversation = &request.conversation;
    let own = conversation.messages.iter().filter_map(Message::tools).flatten();
    conversation.tools.iter().flatten().chain(own).cloned().collect()
}
