//! One model, opened once: everything that is known about it, and everything that is done with it.
//!
//! In: a path or a name, and what the caller says otherwise. Out: a [`Model`]; of a request, its [`ModelPrompt`].
//! Between: `builder` finds the parts, `settings` joins what the caller and the request say, `templates` chooses and renders,
//! `encoders` binds the tokenizer, `replies` knows how replies are read, `ends` where they end.
//! Start reading at [`Model::open`].

mod builder;
mod encoders;
mod ends;
mod error;
mod prompt;
mod replies;
mod settings;
mod templates;
mod unread;

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use rolecall_encode::{Decoder, Encoded};
use rolecall_format::{Format, Generation, Op, Registry, Slot};
use rolecall_grammar::{self as grammar, Grammar};
use rolecall_openai::Request;
use rolecall_parse::Reply;
use rolecall_render::{Prompt, new_turn, render};
use rolecall_tokenizer::Tokenizer;

pub use builder::ModelBuilder;
pub use ends::StopToken;
pub use error::OpenError;
pub use prompt::{ModelPrompt, offered_tools};
pub use settings::{BosBy, Settings};

use crate::Error;
use crate::explain::Explanation;
use crate::identify::ModelWarning;
use crate::parse::IdParser;
use crate::template::ModelTemplates;
use crate::tokenizer::{AddedToken, Audit, TokenizerFile};
use encoders::Encoders;
use ends::Ends;
use prompt::Speaker;
use replies::Replies;
use templates::{Compiled, Templates};

/// Everything that is known about one model.
///
/// It is cheap to clone, and all clones and threads share what was loaded.
///
/// ```
/// use rolecall::{Model, Request};
/// let model = Model::open("internlm2")?;
/// let request = Request::from_text(r#"{"messages": [{"role": "user", "content": "Hello"}]}"#)?;
/// let prompt = model.prompt(request)?;
/// assert_eq!(prompt.text(), "<s><|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n");
/// let mut reader = prompt.reader()?;
/// let mut reading = rolecall::Reading::default();
/// reader.push_text("Hi!<|im_end|>", &mut |event| reading.add(&event));
/// reader.finish(rolecall::Stop::End, &mut |event| reading.add(&event));
/// assert_eq!(reading.content, "Hi!");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Model {
    shared: Arc<Shared>,
    settings: Arc<Settings>,
}

struct Shared {
    name: String,
    registry: Registry,
    voice: Voice,
    compiled: Compiled,
    encoders: Encoders,
    replies: Replies,
    ends: Ends,
    /// How replies are sampled and where they end, by format; the empty name is the chat templates'.
    generations: RwLock<HashMap<String, Arc<Generation>>>,
    choices: Vec<Choice>,
    warnings: Vec<ModelWarning>,
}

/// What writes prompts where a request does not say it.
enum Voice {
    /// The format of this name.
    Format(String),
    Templates {
        templates: Arc<Templates>,
        /// The format that the model was recognised as.
        recognised: Option<String>,
    },
    /// Each request says its own.
    Nothing,
}

/// A part of a model, and why it is this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// `format`, `chat template`, `recognised format` or `tokenizer`.
    pub part: &'static str,
    /// What speaks for it.
    pub why: String,
}

impl Choice {
    fn new(part: &'static str, why: String) -> Choice {
        Choice { part, why }
    }

    fn asked(part: &'static str, asked: &str) -> Choice {
        Choice { part, why: format!("the caller asked for {asked}") }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.part, self.why)
    }
}

/// What a prompt is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Purpose {
    /// The model answers it.
    #[default]
    Answer,
    /// The same, of which the engine has cached all but the new turn.
    NewTurn,
    /// It is learned from; a format may have layouts of its own for that.
    Training,
}

impl Model {
    /// Opens a model's folder, a GGUF file, a chat template (`.jinja`, `tokenizer_config.json`), a format file, or a format or model
    /// by its name.
    ///
    /// A model with a chat template renders through it, as transformers does; one without renders through the format that its
    /// files or its name tell.
    pub fn open(path_or_name: impl AsRef<Path>) -> Result<Model, OpenError> {
        Model::builder().model(path_or_name).open()
    }

    /// Opens a model part by part.
    pub fn builder() -> ModelBuilder {
        ModelBuilder::default()
    }

    /// The path or name that it was opened by.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// The format that its prompts are written by, or that its files were recognised as.
    pub fn format(&self) -> Option<&Format> {
        let name = match &self.shared.voice {
            Voice::Format(name) => Some(name),
            Voice::Templates { recognised, .. } => recognised.as_ref(),
            Voice::Nothing => None,
        };
        self.shared.registry.get(name?)
    }

    /// The chat templates that its prompts are written by.
    pub fn templates(&self) -> Option<&ModelTemplates> {
        match &self.shared.voice {
            Voice::Templates { templates, .. } => Some(&templates.model),
            Voice::Format(_) | Voice::Nothing => None,
        }
    }

    /// The formats that requests may name.
    pub fn registry(&self) -> &Registry {
        &self.shared.registry
    }

    /// How requests are answered where they do not say it.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The same model with other settings. What was loaded is shared.
    #[must_use]
    pub fn with_settings(&self, settings: Settings) -> Model {
        Model { shared: Arc::clone(&self.shared), settings: Arc::new(settings) }
    }

    /// Where its tokenizer is; none if it has none.
    pub fn tokenizer_path(&self) -> Option<&Path> {
        self.shared.encoders.path()
    }

    /// The file that its tokenizer is from, which is loaded now if it was not.
    pub fn tokenizer_file(&self) -> Result<&TokenizerFile, Error> {
        Ok(&self.shared.encoders.loaded()?.file)
    }

    /// Its tokenizer, which is loaded now if it was not.
    pub fn tokenizer(&self) -> Result<&Arc<dyn Tokenizer>, Error> {
        Ok(&self.shared.encoders.loaded()?.tokenizer)
    }

    /// The token that opens a text, as its files or its format name it.
    pub fn bos(&self) -> Option<&str> {
        let of_format = || Some(self.format()?.controls.iter().find(|control| control.bos)?.text.as_str());
        self.templates().and_then(|templates| templates.token("bos_token")).or_else(of_format)
    }

    /// The token that closes a text, as its files name it.
    pub fn eos(&self) -> Option<&str> {
        let of_files = || self.shared.ends.texts.first().map(|(text, _)| text.as_str());
        self.templates().and_then(|templates| templates.token("eos_token")).or_else(of_files)
    }

    /// Why each of its parts is what it is.
    pub fn evidence(&self) -> &[Choice] {
        &self.shared.choices
    }

    /// What to know before it is used.
    pub fn warnings(&self) -> &[ModelWarning] {
        &self.shared.warnings
    }

    /// How its maker samples it: each value only where it is known.
    pub fn sampling(&self) -> Arc<Generation> {
        self.generation(self.format())
    }

    /// Where its replies end: what closes a turn of its format, and what its files name as the end.
    ///
    /// The ids are those of the tokenizer, if it has one.
    pub fn stops(&self) -> Result<Vec<StopToken>, Error> {
        let mut stops: Vec<StopToken> = Vec::new();
        let tokenizer = self.tokenizer_path().map(|_| self.tokenizer()).transpose()?;
        let mut add = |text: &str, id: Option<u32>, source: &str| {
            let known = stops.iter_mut().find(|stop| match (stop.id, id) {
                (Some(known), Some(id)) => known == id,
                _ => stop.text == text,
            });
            match known {
                Some(stop) if stop.sources.iter().any(|known| known == source) => {}
                Some(stop) => stop.sources.push(source.to_owned()),
                None => stops.push(StopToken { text: text.to_owned(), id, sources: vec![source.to_owned()] }),
            }
        };
        let id_of = |text: &str| tokenizer.and_then(|tokenizer| tokenizer.token_id(text));
        if let Some(format) = self.format() {
            let source = format!("the format `{}`", format.name);
            for control in format.controls.iter().filter(|control| control.ends_turn) {
                add(&control.text, id_of(&control.text).or(control.id), &source);
            }
            for text in &format.generation.stop {
                add(text, id_of(text), &source);
            }
        }
        if let Some(token) = self.closer()? {
            add(&token.text, Some(token.id), "the end of a reply in its chat template");
        }
        for (text, file) in &self.shared.ends.texts {
            add(text, id_of(text), file);
        }
        for (id, file) in &self.shared.ends.ids {
            let text = tokenizer.and_then(|tokenizer| tokenizer.token_text(*id)).unwrap_or_default();
            add(&text, Some(*id), file);
        }
        Ok(stops)
    }

    /// The token of its tokenizer with which its chat template ends a reply.
    fn closer(&self) -> Result<Option<AddedToken>, Error> {
        let (Voice::Templates { templates, .. }, Some(_)) = (&self.shared.voice, self.tokenizer_path()) else {
            return Ok(None);
        };
        // Where no template is the usual one, or its layouts cannot be inferred, the files say what there is.
        let Ok(chosen) = templates.choose(&self.settings, false, &self.shared.compiled) else { return Ok(None) };
        let Ok(layouts) = self.shared.replies.layouts(&chosen.template) else { return Ok(None) };
        let last = layouts.layout(Slot::Assistant).and_then(|layout| layout.ops().last());
        let Some(Op::Literal(end)) = last else { return Ok(None) };
        let added = self.tokenizer()?.added_tokens().iter();
        let closes = added.filter(|token| !token.text.trim().is_empty() && end.trim_start().starts_with(&token.text));
        Ok(closes.max_by_key(|token| token.text.len()).cloned())
    }

    /// The ids that end a reply.
    pub fn stop_ids(&self) -> Result<Vec<u32>, Error> {
        Ok(self.stops()?.into_iter().filter_map(|stop| stop.id).collect())
    }

    /// The prompt of a request.
    pub fn prompt(&self, request: impl Into<Arc<Request>>) -> Result<ModelPrompt, Error> {
        self.prompt_for(request, Purpose::Answer)
    }

    /// The prompt of a request for a purpose.
    pub fn prompt_for(&self, request: impl Into<Arc<Request>>, purpose: Purpose) -> Result<ModelPrompt, Error> {
        let request = request.into();
        let settings = self.settings.of(&request)?;
        let carried = Templates::of_request(&request)?.map(Arc::new);
        let is_own = carried.is_none();
        let (speaker, mut prompt) = match self.speaker(&request, carried, &settings, purpose)? {
            Speaker::Template(chosen) => {
                let prompt = chosen.render(&request.conversation, &settings)?;
                (Speaker::Template(chosen), prompt)
            }
            speaker @ Speaker::Format { .. } => {
                let format = self.format_of(&speaker).ok_or(Error::NoFormat)?;
                let prompt = render(&request.conversation, format, &settings.of_format())?;
                let prompt = if purpose == Purpose::NewTurn { new_turn(&prompt, format) } else { prompt };
                (speaker, prompt)
            }
        };
        prompt.dropped.extend(self.unread(&request, &settings, &speaker)?);
        // A template that the request carries is another model's.
        if is_own {
            prompt.generation = self.generation_of(&speaker, &prompt);
        }
        let spelling = settings.spelling().map(str::to_owned);
        // A new turn goes on behind what is there: nothing is missing before it.
        let bos = if purpose == Purpose::NewTurn { BosBy::Nobody } else { settings.bos };
        Ok(ModelPrompt { model: self.clone(), request, prompt, speaker, bos, spelling })
    }

    /// How the text of the replies to a request is read, where the prompt is at hand already.
    pub fn reply(&self, request: &Request) -> Result<Arc<Reply>, Error> {
        self.reply_of(request, None)
    }

    /// The same for replies that are ids of the model's tokenizer.
    pub fn id_reply(&self, request: &Request) -> Result<Arc<Reply>, Error> {
        self.reply_of(request, Some(&*self.decoder()?))
    }

    fn reply_of(&self, request: &Request, ids: Option<&Decoder>) -> Result<Arc<Reply>, Error> {
        let settings = self.settings.of(request)?;
        let carried = Templates::of_request(request)?.map(Arc::new);
        self.reply_by(&self.speaker(request, carried, &settings, Purpose::Answer)?, settings.spelling(), ids)
    }

    fn reply_by(&self, speaker: &Speaker, spelling: Option<&str>, ids: Option<&Decoder>) -> Result<Arc<Reply>, Error> {
        match speaker {
            Speaker::Template(chosen) => self.shared.replies.of_template(&chosen.template, ids),
            Speaker::Format { .. } => {
                self.shared.replies.of_format(self.format_of(speaker).ok_or(Error::NoFormat)?, spelling, ids)
            }
        }
    }

    /// The layouts of the replies to a request: the format's, or those inferred from the chat template.
    pub fn layouts(&self, request: &Request) -> Result<Arc<Format>, Error> {
        let settings = self.settings.of(request)?;
        let carried = Templates::of_request(request)?.map(Arc::new);
        self.layouts_by(&self.speaker(request, carried, &settings, Purpose::Answer)?)
    }

    fn layouts_by(&self, speaker: &Speaker) -> Result<Arc<Format>, Error> {
        match speaker {
            Speaker::Template(chosen) => self.shared.replies.layouts(&chosen.template),
            Speaker::Format { .. } => Ok(Arc::new(self.format_of(speaker).ok_or(Error::NoFormat)?.clone())),
        }
    }

    /// The format of a prompt; none where a chat template wrote it.
    fn format_of(&self, speaker: &Speaker) -> Option<&Format> {
        let Speaker::Format { name, is_training } = speaker else { return None };
        let format = self.shared.registry.get(name)?;
        Some(if *is_training { format.for_training() } else { format })
    }

    /// What turns its ids into text, and tells its control tokens from the same characters in text.
    pub fn decoder(&self) -> Result<Arc<Decoder>, Error> {
        Ok(Arc::clone(&self.shared.encoders.loaded()?.decoder))
    }

    /// What writes the prompt of a request: what the request says itself, else what the model has.
    fn speaker(
        &self,
        request: &Request,
        carried: Option<Arc<Templates>>,
        settings: &Settings,
        purpose: Purpose,
    ) -> Result<Speaker, Error> {
        let shared = &*self.shared;
        let templates = match (carried, &request.format, &shared.voice) {
            (Some(carried), ..) => Some(carried),
            (None, None, Voice::Templates { templates, .. }) => Some(Arc::clone(templates)),
            _ => None,
        };
        if let Some(templates) = templates {
            if purpose != Purpose::Answer {
                return Err(Error::NoLoss);
            }
            let has_tools = request.conversation.tools.is_some();
            let chosen = templates.choose(settings, has_tools, &shared.compiled)?;
            return Ok(Speaker::Template(chosen));
        }
        // A name only: a request must not choose files to be read.
        let name = match (&request.format, &shared.voice) {
            (Some(name), _) | (None, Voice::Format(name)) => name,
            (None, Voice::Templates { .. } | Voice::Nothing) => return Err(Error::NoFormat),
        };
        let format = shared.registry.get(name).ok_or_else(|| Error::UnknownFormat {
            name: name.clone(),
            near: shared.registry.suggest(name).map(str::to_owned),
        })?;
        Ok(Speaker::Format { name: format.name.clone(), is_training: purpose == Purpose::Training })
    }

    fn generation_of(&self, speaker: &Speaker, prompt: &Prompt) -> Arc<Generation> {
        match speaker {
            Speaker::Template(_) => self.generation(self.format()),
            Speaker::Format { name, .. } => match (&self.shared.voice, self.shared.registry.get(name)) {
                (Voice::Format(own), Some(format)) if own == name => {
                    // Where a gap is filled, the prompt ends otherwise than the format's replies.
                    match prompt.generation == format.generation {
                        true => self.generation(Some(format)),
                        false => Arc::new(self.shared.ends.over(&prompt.generation)),
                    }
                }
                // Another format than the model's own, which the request asked for.
                _ => Arc::clone(&prompt.generation),
            },
        }
    }

    /// What the files say over what the format says, made once.
    fn generation(&self, format: Option<&Format>) -> Arc<Generation> {
        let generations = &self.shared.generations;
        let name = format.map_or("", |format| format.name.as_str());
        if let Some(known) = generations.read().unwrap_or_else(PoisonError::into_inner).get(name) {
            return Arc::clone(known);
        }
        let mut own = format.map(|format| Generation::clone(&format.generation)).unwrap_or_default();
        if let (Voice::Templates { .. }, Some(format)) = (&self.shared.voice, format) {
            // A template's prompt has no control tokens of its own that would say so.
            for control in format.controls.iter().filter(|control| control.ends_turn) {
                if !own.stop.contains(&control.text) {
                    own.stop.push(control.text.clone());
                }
            }
        }
        let made = Arc::new(self.shared.ends.over(&own));
        let mut generations = generations.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(generations.entry(name.to_owned()).or_insert(made))
    }

    /// The ids of a request's prompt, each with the bytes that it stands for.
    pub fn encode(&self, request: impl Into<Arc<Request>>) -> Result<Encoded, Error> {
        self.prompt(request)?.encode()
    }

    /// A reader of the ids of the reply to a request. For text, ask the prompt for its reader.
    pub fn reader(&self, request: impl Into<Arc<Request>>) -> Result<IdParser, Error> {
        self.prompt(request)?.id_reader()
    }

    /// What an engine may sample for the reply to a request.
    pub fn grammar(&self, request: impl Into<Arc<Request>>, options: grammar::Options) -> Result<Grammar, Error> {
        self.prompt(request)?.grammar(options)
    }

    /// The prompt of a request with where each byte comes from, its ids where the model has a tokenizer, and where the conversation
    /// spells control tokens.
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
        let prompt = self.prompt(request)?;
        let has_tokenizer = self.tokenizer_path().is_some();
        let encoded = has_tokenizer.then(|| prompt.encode()).transpose()?;
        let added = if has_tokenizer { self.tokenizer()?.added_tokens() } else { &[] };
        Ok(Explanation::new(prompt, encoded, added))
    }

    /// What is known of models whose replies are not what their chat template writes, as far as it fits a template of this one.
    pub fn corrections(&self) -> impl Iterator<Item = &'static Format> {
        let templates = self.templates().map_or(&[][..], |model| &model.templates);
        let fits =
            |correction: &&Format| templates.iter().any(|named| correction.identity.fits_template(&named.source));
        rolecall_format::corrections().iter().filter(fits)
    }

    /// What is dangerous in its tokenizer, and how that treats the control tokens of its format.
    pub fn audit(&self) -> Result<Audit, Error> {
        let loaded = self.shared.encoders.loaded()?;
        let sources = |templates: &ModelTemplates| -> Vec<String> {
            templates.templates.iter().map(|named| named.source.clone()).collect()
        };
        let own = self.templates().map_or_else(|| sources(&loaded.beside), sources).join("\n");
        let controls = self.format().map_or(&[][..], |format| &format.controls);
        let templates = Some(own.as_str()).filter(|own| !own.is_empty());
        Ok(crate::tokenizer::audit(&*loaded.tokenizer, controls, templates))
    }
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Model").field("name", &self.shared.name).finish_non_exhaustive()
    }
}
