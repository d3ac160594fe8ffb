//! A model, opened once: its format or chat templates, tokenizer, stop tokens and sampling
//! defaults, and the operations that use them.
//!
//! [`Model::open`] turns a path or a name into a [`Model`]; [`Model::prompt`] turns a request into
//! a [`ModelPrompt`].
//!
//! The submodules: `account` renders a request with the account of it, `builder` finds the parts of a model,
//! `content` writes and reads everything that it was opened from, `saved_prompt` the same of a prompt, and `digest`
//! tells contents apart. `settings` merges the caller's settings with those of a request, `writer` determines what
//! writes a request's prompts, among the `templates` or the formats, `encoders` loads the tokenizer and binds it to
//! writers, and `clock` writes and reads the time that templates see. `replies` holds how replies are parsed,
//! `reply_context` what is known about one reply before it arrives, `ends` and `stops` where they end. `setup` is what
//! a session needs, `new_turn` cuts a prompt, `loss` and `explain` look at one, and `stability` compares those of a
//! growing conversation. Start reading at [`Model::open`].

mod account;
mod builder;
pub(crate) mod clock;
mod content;
pub(crate) mod digest;
mod encoders;
mod ends;
mod error;
pub(crate) mod explain;
mod fingerprint;
pub(crate) mod loss;
mod new_turn;
mod prompt;
mod replies;
mod reply_context;
mod saved_prompt;
mod settings;
pub(crate) mod setup;
mod setups;
mod stability;
mod stops;
mod templates;
mod unread;
mod writer;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use rolecall_conversation::Conversation;
use rolecall_conversation::json::Object;
use rolecall_encode::{Decoder, Encoded, ProtectedTokens};
use rolecall_format::{Format, FormatPart, Generation, Registry};
use rolecall_grammar::Token;
use rolecall_infer::LayoutWarning;
use rolecall_openai::Request;
use rolecall_parse::Reply;
use rolecall_render::growth::ReplyRule;
use rolecall_render::{Prompt, Writer};
use rolecall_tokenizer::Tokenizer;

pub use crate::files::Files;
pub(crate) use account::AccountTime;
pub use builder::ModelBuilder;
pub use ends::StopToken;
pub use error::OpenError;
pub use prompt::{ModelPrompt, offered_tools};
pub use reply_context::{ReplyContext, assumed_messages};
pub use settings::{BosBy, Settings};

use crate::Error;
use crate::identify::ModelWarning;
use crate::kept::SmallCache;
use crate::template::ModelTemplates;
use crate::tokenizer::{Audit, TokenizerFile};
use encoders::Encoders;
use ends::Ends;
use explain::Explanation;
use new_turn::new_turn;
use replies::Replies;
use setups::Setups;
use templates::{CompiledTemplates, Templates};
use writer::{ModelWriter, Resolved};

/// An opened model: its format or chat templates, its tokenizer, and everything else known about
/// it.
///
/// A model is cheap to clone. Clones share everything that was loaded, also across threads.
///
/// ```
/// use rolecall::{Model, Request};
/// let model = Model::open("internlm2")?;
/// let request = Request::from_text(r#"{"messages": [{"role": "user", "content": "Hello"}]}"#)?;
/// let prompt = model.prompt(request)?;
/// assert_eq!(prompt.text(), "<s><|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n");
/// let mut parser = prompt.reply()?.text_parser();
/// let mut reading = rolecall::Reading::default();
/// parser.push_text("Hi!<|im_end|>", &mut |event| reading.add(&event));
/// parser.finish(rolecall::Stop::End, &mut |event| reading.add(&event));
/// assert_eq!(reading.content, "Hi!");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Model {
    shared: Arc<ModelCore>,
    settings: Arc<Settings>,
    /// What sessions resolved with these settings.
    setups: Arc<Setups>,
}

struct ModelCore {
    name: String,
    /// What the model was opened with.
    made: ModelBuilder,
    registry: Registry,
    voice: Voice,
    compiled: CompiledTemplates,
    encoders: Encoders,
    replies: Replies,
    ends: Ends,
    /// Sampling defaults and stop tokens, by the name of the format; the empty name stands for the
    /// chat templates.
    generations: SmallCache<String, Arc<Generation>>,
    /// Digests of formats, by name.
    digests: SmallCache<String, String>,
    choices: Vec<Choice>,
    warnings: Vec<ModelWarning>,
}

/// What renders a request that names neither a format nor a template.
enum Voice {
    /// The format with this name.
    Format(String),
    Templates {
        templates: Arc<Templates>,
        /// The name of the format that the model was recognized as.
        recognised: Option<String>,
    },
    /// Nothing: each request must name a format or carry a template.
    Nothing,
}

/// A part of a model, and why it was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The part: `format`, `chat template`, `recognised format` or `tokenizer`.
    pub part: &'static str,
    /// The reason for the choice.
    pub why: String,
}

impl Choice {
    fn new(part: &'static str, why: String) -> Choice {
        Choice { part, why }
    }

    fn asked(part: &'static str, asked: &str) -> Choice {
        Choice { part, why: format!("the caller requested {asked}") }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.part, self.why)
    }
}

/// The purpose of a prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Purpose {
    /// The model answers the prompt.
    #[default]
    Answer,
    /// The model answers the prompt, and the engine has cached everything before the new turn.
    NewTurn,
    /// The model is trained on the text. A format may have separate layouts for this.
    Training,
}

impl Model {
    /// Opens a model: a model's folder, a GGUF file, a chat template (`.jinja`,
    /// `tokenizer_config.json`), a format file, or the name of a format or model.
    ///
    /// A model with a chat template renders with it, as transformers does. A model without one
    /// renders with the format that its files or its name identify.
    pub fn open(path_or_name: impl AsRef<Path>) -> Result<Model, OpenError> {
        Model::builder().model(path_or_name).open()
    }

    /// Returns a builder that opens a model part by part.
    pub fn builder() -> ModelBuilder {
        ModelBuilder::default()
    }

    /// Returns the path or name that the model was opened with.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Returns the format that renders the model's prompts, or that its files were recognized as.
    pub fn format(&self) -> Option<&Arc<Format>> {
        let name = match &self.shared.voice {
            Voice::Format(name) => Some(name),
            Voice::Templates { recognised, .. } => recognised.as_ref(),
            Voice::Nothing => None,
        };
        self.shared.registry.find(name?)
    }

    /// Returns the chat templates that render the model's prompts.
    pub fn templates(&self) -> Option<&ModelTemplates> {
        match &self.shared.voice {
            Voice::Templates { templates, .. } => Some(&templates.model),
            Voice::Format(_) | Voice::Nothing => None,
        }
    }

    /// Returns the registry of formats that requests can name.
    pub fn registry(&self) -> &Registry {
        &self.shared.registry
    }

    /// Returns the settings for requests that do not set their own.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the same model with other settings. Everything that was loaded is shared.
    #[must_use]
    pub fn with_settings(&self, settings: Settings) -> Model {
        Model { shared: Arc::clone(&self.shared), settings: Arc::new(settings), setups: Arc::default() }
    }

    /// Reports whether the model has a tokenizer.
    pub fn has_tokenizer(&self) -> bool {
        self.shared.encoders.has_tokenizer()
    }

    /// Returns the path of the tokenizer, if the model has one.
    pub fn tokenizer_path(&self) -> Option<&Path> {
        self.shared.encoders.path()
    }

    /// Returns the file that the tokenizer was loaded from. Loads the tokenizer if needed.
    pub fn tokenizer_file(&self) -> Result<Option<&TokenizerFile>, Error> {
        Ok(self.shared.encoders.loaded()?.file.as_ref())
    }

    /// Returns the tokenizer. Loads it if needed.
    pub fn tokenizer(&self) -> Result<&Arc<dyn Tokenizer>, Error> {
        Ok(&self.shared.encoders.loaded()?.tokenizer)
    }

    /// Returns the token that opens a text, as the model's files or its format name it.
    pub fn bos(&self) -> Option<&str> {
        let of_format = || Some(self.format()?.controls.iter().find(|control| control.bos)?.text.as_str());
        self.templates().and_then(|templates| templates.token("bos_token")).or_else(of_format)
    }

    /// Returns the token that closes a text, as the model's files name it.
    pub fn eos(&self) -> Option<&str> {
        let of_files = || self.shared.ends.texts.first().map(|(text, _)| text.as_str());
        self.templates().and_then(|templates| templates.token("eos_token")).or_else(of_files)
    }

    /// Returns the reason for the choice of each part of the model.
    pub fn evidence(&self) -> &[Choice] {
        &self.shared.choices
    }

    /// Returns warnings about the model.
    pub fn warnings(&self) -> &[ModelWarning] {
        &self.shared.warnings
    }

    /// Returns the sampling defaults of the model's maker. Values that are unknown are missing.
    pub fn sampling(&self) -> Arc<Generation> {
        self.generation(self.format())
    }

    /// Returns the switches of requests that a level of reasoning means beside the given ones, or `None` if the model's
    /// format or default chat template does not know the level. The levels are those of
    /// [`EFFORTS`](crate::template::EFFORTS).
    pub fn effort_switches(&self, level: &str, given: &Object) -> Option<Object> {
        self.own_writer()?.writer.effort_switches(level, given)
    }

    /// Renders a request to a prompt that the model answers.
    pub fn prompt(&self, request: impl Into<Arc<Request>>) -> Result<ModelPrompt, Error> {
        self.prompt_for(request, Purpose::Answer)
    }

    /// Renders a request to a prompt for the given purpose.
    pub fn prompt_for(&self, request: impl Into<Arc<Request>>, purpose: Purpose) -> Result<ModelPrompt, Error> {
        // A loss mask looks at the account.
        let time = if purpose == Purpose::Training { AccountTime::AtOnce } else { AccountTime::OnceAsked };
        self.accounted_prompt(request.into(), purpose, time)
    }

    /// Renders a request to a prompt, whose account is determined at the given time.
    pub(crate) fn accounted_prompt(
        &self,
        request: Arc<Request>,
        purpose: Purpose,
        time: AccountTime,
    ) -> Result<ModelPrompt, Error> {
        let Resolved { settings, writer } = self.resolve(&request, purpose)?;
        if purpose == Purpose::Answer {
            writer.check_end(&request.conversation)?;
        }
        let mut prompt = self.accounted(&request, &settings, &writer, purpose, time)?;
        if purpose == Purpose::NewTurn {
            let rule =
                ReplyRule { format: writer.format().map(|format| &**format), stops: &self.stops_of(&writer)?.texts };
            prompt = new_turn(prompt, &request.conversation.messages, rule)?;
        }
        // A template that the request carries belongs to another model.
        if !writer.is_carried() {
            prompt.generation = self.generation_of(&writer, &prompt);
        }
        let spelling = settings.spelling(&request.conversation).map(str::to_owned);
        // A new turn continues an existing text, so no opening token is missing before it.
        let bos = if purpose == Purpose::NewTurn { BosBy::Nobody } else { settings.bos };
        Ok(ModelPrompt {
            model: self.clone(),
            request,
            purpose,
            prompt,
            appended: None,
            writer: writer.into(),
            bos,
            spelling,
        })
    }

    /// Returns the text before the reply to a request, which is needed to parse that reply.
    ///
    /// This text is the prompt. A format that describes only replies renders no prompt, so the text
    /// is what its layout `generate` writes.
    fn prompt_tail(&self, request: impl Into<Arc<Request>>) -> Result<String, Error> {
        let request = request.into();
        let Resolved { writer, .. } = self.resolve(&request, Purpose::Answer)?;
        match writer.format().filter(|format| format.part == FormatPart::Reply) {
            Some(_) => {
                let mut alone = Conversation::new(Vec::new());
                alone.add_generation_prompt = Some(true);
                Ok(writer.writer.render(&alone)?.text().to_owned())
            }
            None => Ok(self.prompt(request)?.text().to_owned()),
        }
    }

    fn reply_by(
        &self,
        writer: &ModelWriter,
        spelling: Option<&str>,
        ids: Option<&Decoder>,
    ) -> Result<Arc<Reply>, Error> {
        let replies = &self.shared.replies;
        match &writer.writer {
            Writer::Template(template, _) => {
                replies.of_template(template, &self.stops_of(writer)?.texts, &self.shared.encoders, ids)
            }
            Writer::Format(format, _) => replies.of_format(format, spelling, ids),
        }
    }

    fn layout_warnings_by(&self, writer: &ModelWriter) -> Result<Arc<[LayoutWarning]>, Error> {
        match &writer.writer {
            Writer::Template(template, _) => self.shared.replies.warnings(template, &self.shared.encoders),
            Writer::Format(..) => Ok(Vec::new().into()),
        }
    }

    fn layouts_by(&self, writer: &ModelWriter) -> Result<Arc<Format>, Error> {
        match &writer.writer {
            Writer::Template(template, _) => self.shared.replies.layouts(template, &self.shared.encoders),
            Writer::Format(format, _) => Ok(Arc::clone(format)),
        }
    }

    /// Returns the decoder, which turns ids into text and tells control tokens from ordinary tokens
    /// with the same characters.
    pub fn decoder(&self) -> Result<Arc<Decoder>, Error> {
        Ok(Arc::clone(&self.shared.encoders.loaded()?.decoder))
    }

    fn generation_of(&self, writer: &ModelWriter, prompt: &Prompt) -> Arc<Generation> {
        let Some(format) = writer.format() else { return self.generation(self.format()) };
        match &self.shared.voice {
            Voice::Format(own) if *own == format.name => {
                // If a gap is filled, the prompt has other stop tokens than the format's
                // replies.
                let own = self.format().filter(|own| prompt.generation == own.generation);
                own.map_or_else(
                    || Arc::new(self.shared.ends.over(&prompt.generation)),
                    |own| self.generation(Some(own)),
                )
            }
            // The request asked for another format than the model's own.
            _ => Arc::clone(&prompt.generation),
        }
    }

    /// Returns the format's sampling defaults, overridden by the model's files. Each result is
    /// computed once.
    fn generation(&self, format: Option<&Arc<Format>>) -> Arc<Generation> {
        let name = format.map_or("", |format| format.name.as_str());
        self.shared.generations.get_or_make(
            |known| known == name,
            || {
                let mut own = format.map(|format| Generation::clone(&format.generation)).unwrap_or_default();
                if let (Voice::Templates { .. }, Some(format)) = (&self.shared.voice, format) {
                    // A prompt from a template has no control tokens of its own, so the format's are
                    // added here.
                    for control in format.controls.iter().filter(|control| control.ends_turn) {
                        if !own.stop.contains(&control.text) {
                            own.stop.push(control.text.clone());
                        }
                    }
                }
                (name.to_owned(), Arc::new(self.shared.ends.over(&own)))
            },
        )
    }

    /// Returns the token ids of a request's prompt, each with the bytes that it covers.
    pub fn encode(&self, request: impl Into<Arc<Request>>) -> Result<Encoded, Error> {
        self.prompt(request)?.encode()
    }

    /// Returns the tokens that a grammar names: those of the tokenizer, or the given ones if the model
    /// has none.
    pub(crate) fn tokens_or(&self, given: Vec<Token>) -> Result<Vec<Token>, Error> {
        if !self.has_tokenizer() {
            return Ok(given);
        }
        let each = self.tokenizer()?.added_tokens().iter();
        Ok(each.map(|token| Token { text: token.text.clone(), id: Some(token.id) }).collect())
    }

    /// Renders a request and explains the prompt.
    ///
    /// The result has the origin of every byte, the token ids if the model has a tokenizer, and the
    /// places where the conversation spells control tokens.
    ///
    /// ```
    /// use rolecall::{Model, Request};
    /// let model = Model::open("internlm2")?;
    /// let request = Request::from_text(r#"{"messages": [{"role": "user", "content": "Bye<|im_end|>"}]}"#)?;
    /// let explanation = model.explain(request)?;
    /// assert_eq!(explanation.spelled[0].token, "<|im_end|>");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn explain(&self, request: impl Into<Arc<Request>>) -> Result<Explanation, Error> {
        self.prompt(request)?.explain(None)
    }

    /// Returns the known corrections that fit a template of this model: formats of models whose
    /// replies differ from what their chat template writes.
    pub fn corrections(&self) -> impl Iterator<Item = &'static Format> {
        let templates = self.templates().map_or(&[][..], |model| &model.templates);
        let fits =
            |correction: &&Format| templates.iter().any(|named| correction.identity.fits_template(&named.source));
        rolecall_format::corrections().iter().filter(fits)
    }

    /// Returns the chat templates that render the model's prompts, or those in the tokenizer's folder.
    /// Loads the tokenizer if needed.
    pub fn all_templates(&self) -> Result<Option<&ModelTemplates>, Error> {
        match self.templates() {
            Some(templates) => Ok(Some(templates)),
            None if self.has_tokenizer() => Ok(Some(&self.shared.encoders.loaded()?.beside)),
            None => Ok(None),
        }
    }

    /// Audits the tokenizer: reports its dangers, and how it treats the control tokens of the
    /// format.
    pub fn audit(&self) -> Result<Audit, Error> {
        let loaded = self.shared.encoders.loaded()?;
        let controls = self.format().map_or(&[][..], |format| &format.controls);
        Ok(crate::tokenizer::audit_with(&*loaded.own, controls, self.templates().unwrap_or(&loaded.beside)))
    }

    /// Returns the tokens that text in the model's prompts is never encoded to, each with the reasons.
    pub fn protected(&self) -> Result<ProtectedTokens, Error> {
        let loaded = self.shared.encoders.loaded()?;
        let templates = match &self.shared.voice {
            Voice::Templates { templates, .. } => Some(&**templates),
            Voice::Format(_) | Voice::Nothing => None,
        };
        let protection = loaded.protection(templates, self.format()).protecting(self.settings.protect);
        Ok(ProtectedTokens::new(&protection, &*loaded.tokenizer)?)
    }
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Model").field("name", &self.shared.name).finish_non_exhaustive()
    }
}
