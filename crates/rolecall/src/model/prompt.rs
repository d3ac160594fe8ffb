use std::ops::{Deref, Range};
use std::sync::Arc;

use rolecall_conversation::{Message, Tool};
use rolecall_encode::{Decoder, Encoded, EncodedToken, Encoder, Note};
use rolecall_format::Format;
use rolecall_grammar::{self as grammar, Grammar, Token};
use rolecall_openai::Request;
use rolecall_parse::{OutputParser, ParseOptions, Reply};
use rolecall_render::{ChatTemplate, LossPolicy, Prompt, loss_spans};

use super::encoders::Writer;
use super::templates::Chosen;
use super::{BosBy, Model};
use crate::Error;
use crate::parse::IdParser;

/// The prompt of a request, which knows the model that it is for.
///
/// It is a [`Prompt`] with what follows from it: its ids, and the reader of the reply to it. These come from the prompt itself,
/// so that the tokenizer or the layouts of another model are never mixed in.
#[derive(Clone, Debug)]
pub struct ModelPrompt {
    pub(super) model: Model,
    pub(super) request: Arc<Request>,
    pub(super) prompt: Prompt,
    pub(super) speaker: Speaker,
    pub(super) bos: BosBy,
    /// How a format spells its control tokens, where that was chosen.
    pub(super) spelling: Option<String>,
}

/// What wrote a prompt.
#[derive(Clone, Debug)]
pub(super) enum Speaker {
    /// A format of the model's registry.
    Format {
        name: String,
        is_training: bool,
    },
    Template(Chosen),
}

impl Deref for ModelPrompt {
    type Target = Prompt;

    fn deref(&self) -> &Prompt {
        &self.prompt
    }
}

impl ModelPrompt {
    /// The request that it was made of.
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// The prompt without its model.
    pub fn into_prompt(self) -> Prompt {
        self.prompt
    }

    /// The format that wrote it; none where a chat template did.
    pub fn format(&self) -> Option<&Format> {
        self.model.format_of(&self.speaker)
    }

    /// The chat template that wrote it; none where a format did.
    pub fn template(&self) -> Option<&Arc<ChatTemplate>> {
        match &self.speaker {
            Speaker::Format { .. } => None,
            Speaker::Template(chosen) => Some(&chosen.template),
        }
    }

    /// Its token ids, each with the bytes that it stands for.
    pub fn encode(&self) -> Result<Encoded, Error> {
        let mut encoded = self.encoder()?.encode(&self.prompt)?;
        self.drop_notes(&mut encoded.notes);
        Ok(encoded)
    }

    /// The same token by token, so that they are not all in memory.
    pub fn encode_each(&self, take: &mut dyn FnMut(EncodedToken)) -> Result<Vec<Note>, Error> {
        let mut notes = self.encoder()?.encode_each(&self.prompt, take)?;
        self.drop_notes(&mut notes);
        Ok(notes)
    }

    /// Its ids as the reference gives them: text that spells a control token becomes it, in messages too. Unsafe wherever messages
    /// come from users.
    pub fn encode_reference(&self) -> Result<Encoded, Error> {
        let mut encoded = self.encoder()?.encode_reference(&self.prompt)?;
        self.drop_notes(&mut encoded.notes);
        Ok(encoded)
    }

    fn encoder(&self) -> Result<Arc<Encoder>, Error> {
        let writer = match &self.speaker {
            Speaker::Format { .. } => Writer::Format(self.format().ok_or(Error::NoFormat)?),
            Speaker::Template(chosen) => Writer::Templates(&chosen.templates),
        };
        self.model.shared.encoders.encoder(&writer, self.bos.add(), self.model.settings.protect)
    }

    /// That nobody writes the first token is what was asked for.
    fn drop_notes(&self, notes: &mut Vec<Note>) {
        if self.bos == BosBy::Nobody {
            notes.clear();
        }
    }

    /// The bytes that a training loss may touch; of a chat template nothing is known yet.
    pub fn loss(&self, policy: LossPolicy) -> Result<Vec<Range<usize>>, Error> {
        let format = self.format().ok_or(Error::NoLoss)?;
        Ok(loss_spans(&self.prompt, &self.request.conversation, format, policy)?)
    }

    /// A reader of the reply's text. It knows how the prompt ended and which tools were offered.
    pub fn reader(&self) -> Result<OutputParser, Error> {
        self.reader_with(ParseOptions::default())
    }

    /// The same with other policies. The prompt's end and the tools are the prompt's own, whatever the options have there.
    pub fn reader_with(&self, options: ParseOptions) -> Result<OutputParser, Error> {
        Ok(OutputParser::new(&self.reply()?, self.of(options)))
    }

    /// A reader of the reply's ids.
    pub fn id_reader(&self) -> Result<IdParser, Error> {
        self.id_reader_with(ParseOptions::default())
    }

    /// The same with other policies.
    pub fn id_reader_with(&self, options: ParseOptions) -> Result<IdParser, Error> {
        let decoder = self.model.decoder()?;
        let reply = self.reply_of(Some(&decoder))?;
        Ok(IdParser::new(OutputParser::new(&reply, self.of(options)), decoder))
    }

    /// How the reply's text is read, without an output.
    pub fn reply(&self) -> Result<Arc<Reply>, Error> {
        self.reply_of(None)
    }

    fn reply_of(&self, ids: Option<&Decoder>) -> Result<Arc<Reply>, Error> {
        self.model.reply_by(&self.speaker, self.spelling.as_deref(), ids)
    }

    fn of(&self, options: ParseOptions) -> ParseOptions {
        ParseOptions { tools: self.tools(), prompt_tail: self.prompt.text().to_owned(), ..options }
    }

    /// The tools that were offered, those of messages too.
    pub fn tools(&self) -> Vec<Tool> {
        offered_tools(&self.request)
    }

    /// The layouts that the reply is written by: the format's, or those inferred from the chat template.
    pub fn layouts(&self) -> Result<Arc<Format>, Error> {
        self.model.layouts_by(&self.speaker)
    }

    /// What an engine may sample for the reply.
    ///
    /// The tools and the prompt's end are the prompt's own, and so are the tokens where the model has a tokenizer.
    pub fn grammar(&self, options: grammar::Options) -> Result<Grammar, Error> {
        let tokens = match self.model.tokenizer_path() {
            Some(_) => {
                let loaded = self.model.shared.encoders.loaded()?;
                let each = loaded.tokenizer.added_tokens().iter();
                each.map(|token| Token { text: token.text.clone(), id: Some(token.id) }).collect()
            }
            None => options.tokens,
        };
        let prompt_tail = Some(self.prompt.text().to_owned());
        let options = grammar::Options { tools: self.tools(), prompt_tail, tokens, ..options };
        grammar::grammar(&*self.layouts()?, &options).map_err(Error::Grammar)
    }
}

/// The tools that a request offers, those of messages too.
pub fn offered_tools(request: &Request) -> Vec<Tool> {
    let conversation = &request.conversation;
    let own = conversation.messages.iter().filter_map(Message::tools).flatten();
    conversation.tools.iter().flatten().chain(own).cloned().collect()
}
