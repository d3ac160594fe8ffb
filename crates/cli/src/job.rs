//! The state that all conversations of a run share: the model and the command line's settings.

use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rolecall::dataset::{self, Sample};
use rolecall::encode::{Decoder, EncodedToken, Note, Protect};
use rolecall::format::Format;
use rolecall::loss::Loss;
use rolecall::model::{ModelPrompt, OpenError, Purpose, Settings};
use rolecall::template::DateTime;
use rolecall::tokenizer::AddedToken;
use rolecall::training::{RowEncoding, RowRecipe};
use rolecall::{Error, Model, Request};
use rolecall_conversation::Conversation;

use crate::args::{Chat, OwnTemplate};
use crate::failure::Failure;
use crate::files;
use crate::flags;
use crate::output::Output;
use crate::refusal::Refusal;
use crate::shapes::SeenShapes;
use crate::source::Source;

/// A model, and the settings that a run applies to each request.
pub struct Job {
    pub model: Model,
    /// How each request becomes a prompt or samples.
    pub rows: RowRecipe,
    /// The shapes that were read so far.
    seen: Arc<SeenShapes>,
    /// A placeholder format for chat templates; it only has the name that views show.
    nameless: Format,
    /// The default time for templates in Unix seconds, the same for the whole run.
    pub clock: i64,
    /// Whether the command line sets the time.
    is_timed: bool,
}

impl Job {
    /// Opens the model from the parts that the command line names.
    pub fn open(
        chat: &Chat,
        own: &OwnTemplate,
        tokenizer: Option<&Path>,
        protect: Protect,
        output: &Output,
    ) -> Result<Job, Failure> {
        let clock = clock();
        let mut formats = files::load_formats(&chat.named.more)?;
        let mut builder = Model::builder();
        if let Some(format) = &chat.named.format {
            builder = builder.format(formats.choose(format)?);
        }
        formats.warn(output);
        if let Some(model) = &chat.named.model {
            builder = builder.model(model);
        }
        if let Some(path) = &own.template {
            builder = builder.templates(files::load_templates(path)?);
        }
        if let Some(path) = tokenizer {
            builder = builder.tokenizer(path);
        }
        if !chat.bos_tokens.is_empty() {
            builder = builder.bos_tokens(chat.bos_tokens.iter().cloned());
        }
        if let Some(token) = &chat.eos_token {
            builder = builder.eos_token(token);
        }
        let builder = builder.registry(formats.registry).replacing(chat.named.more.replace).settings(Settings {
            bos: chat.bos.unwrap_or_default(),
            rules: chat.rules.unwrap_or_default(),
            options: chat.options.clone(),
            forms: own.forms.unwrap_or_default(),
            template_name: own.running.template_name.clone(),
            now: own.running.now.or_else(|| DateTime::from_unix(clock)),
            limits: flags::limits(&own.running.limits),
            protect,
            plain_markers: own.running.plain_markers(),
            ..Settings::default()
        });
        let named = own.template.as_deref().or(chat.named.model.as_deref());
        let model = builder.open().map_err(|error| unopened(error, named))?;
        let name = named.map_or("chat_template".into(), |path| path.display().to_string());
        let mut nameless = Format::new(name);
        nameless.title = "chat template".into();
        let training = &chat.training;
        let rows = RowRecipe {
            shape: chat.shape,
            generation: match (chat.generation_prompt, chat.no_generation_prompt) {
                (true, _) => Some(true),
                (_, true) => Some(false),
                // Training text is complete.
                _ => training.for_training.map(|_| false),
            },
            continue_final_message: chat.continue_final_message,
            purpose: match (chat.new_turn, training.for_training) {
                (true, _) => Purpose::NewTurn,
                (_, Some(_)) => Purpose::Training,
                _ => Purpose::Answer,
            },
            strict: chat.strict,
            policy: training.policy(),
            edges: training.edges(),
            append_final_stop: training.appends_stop(),
            ..RowRecipe::default()
        };
        Ok(Job { model, rows, seen: Arc::default(), nameless, clock, is_timed: own.running.now.is_some() })
    }

    /// Sets the time for templates, unless the command line sets it.
    pub fn set_clock(&mut self, clock: i64) {
        self.clock = clock;
        if !self.is_timed {
            let settings = Settings { now: DateTime::from_unix(clock), ..self.model.settings().clone() };
            self.model = self.model.with_settings(settings);
        }
    }

    /// Returns the shapes of the requests that were read so far.
    pub fn seen(&self) -> Arc<SeenShapes> {
        Arc::clone(&self.seen)
    }

    /// Reads and renders a request. Its own settings take precedence over the command line, except
    /// for how the prompt ends.
    pub fn prompt(&self, text: &str) -> Result<ModelPrompt, Refusal> {
        self.prompt_of(only_request(self.read(text)?)?)
    }

    /// Reads a text that may hold several conversations: the answers of a preference pair, or
    /// instances.
    pub fn read(&self, text: &str) -> Result<Vec<Sample>, Refusal> {
        let (shape, samples) = dataset::read(text, self.rows.shape)?;
        self.seen.add(shape);
        Ok(samples)
    }

    /// Renders a request that was already read, with a stop token if one is to be appended.
    pub fn prompt_of(&self, request: impl Into<Arc<Request>>) -> Result<ModelPrompt, Refusal> {
        Ok(self.rows.prompt(&self.model, request)?)
    }

    /// Returns the format of a prompt, or a placeholder with the template's name.
    pub fn format_of<'a>(&'a self, prompt: &'a ModelPrompt) -> &'a Format {
        prompt.format().map_or(&self.nameless, |format| format)
    }

    /// Returns the text that carries loss, if that was requested.
    pub fn loss_of(&self, prompt: &ModelPrompt) -> Result<Option<Loss>, Refusal> {
        Ok(self.rows.policy.as_ref().map(|policy| prompt.loss(policy)).transpose()?)
    }

    /// Returns a text that identifies the model's chat templates and tokens, which the results
    /// depend on.
    pub fn made_of(&self) -> String {
        let templates = self.model.templates();
        templates.map_or(String::new(), |model| format!("{:?}", (&model.templates, &model.tokens)))
    }
}

/// Returns the request of a text that holds exactly one conversation.
pub fn only_request(mut samples: Vec<Sample>) -> Result<Request, Refusal> {
    match (samples.pop(), samples.len()) {
        (Some(only), 0) => Ok(only.request),
        (last, others) => Err(Refusal::SeveralConversations(others + usize::from(last.is_some()))),
    }
}

/// Passes the tokens of a prompt to `take` one by one, so that they are not all in memory, and returns
/// the notes. Nothing is truncated.
pub fn encode_each(
    encoding: RowEncoding,
    model: &Model,
    prompt: &ModelPrompt,
    take: &mut dyn FnMut(EncodedToken),
) -> Result<Vec<Note>, Failure> {
    if encoding.reference {
        let encoded = encoding.encode(prompt).map_err(|error| misfit(error, model))?;
        encoded.tokens.into_iter().for_each(take);
        return Ok(encoded.notes);
    }
    prompt.encode_each(take).map_err(|error| misfit(error, model))
}

/// Loads the model's tokenizer and returns its added tokens. Called before any input is read, so
/// that its errors come first.
pub fn load_tokenizer(model: &Model) -> Result<&[AddedToken], Failure> {
    let tokenizer = model.tokenizer().map_err(|error| misfit(error, model))?;
    Ok(tokenizer.added_tokens())
}

/// Loads the model's tokenizer and returns a decoder of its ids. Called before any input is read.
pub fn load_decoder(model: &Model) -> Result<Arc<Decoder>, Failure> {
    load_tokenizer(model)?;
    model.decoder().map_err(|error| misfit(error, model))
}

/// Returns the failure for a prompt that cannot be encoded.
pub fn misfit(error: Error, model: &Model) -> Failure {
    match error {
        Error::Tokenizer { path, error } => files::no_tokenizer(&path, error),
        Error::File(error) => files::in_template(error),
        error @ Error::NoTokenizer => {
            let help = "pass one with `--tokenizer FILE|DIR`".to_owned();
            Failure::Open(format!("{error}: `{}`", model.name()), error.code(), vec![help])
        }
        error => {
            let tokenizer = model.tokenizer_path().map_or_else(String::new, |path| path.display().to_string());
            Failure::Misfit { tokenizer, error }
        }
    }
}

/// Returns the failure for a model that cannot be opened; `named` is its path on the command line.
pub fn unopened(error: OpenError, named: Option<&Path>) -> Failure {
    match error {
        OpenError::File(error) => files::in_model(error),
        OpenError::Tokenizer { path, error } => files::no_tokenizer(&path, error),
        OpenError::Format { path, error } => match files::load_format(&path) {
            Err(failure) => failure,
            // The file was fixed in the meantime.
            Ok(_) => {
                Failure::FormatFile { source: Source { name: path.display().to_string(), text: String::new() }, error }
            }
        },
        OpenError::NameClash { path, clash } => {
            Failure::NameClash { path: path.display().to_string(), name: clash.name, other: clash.of, first: None }
        }
        OpenError::UnknownFormat { name, near } => Failure::UnknownFormat { name, near },
        OpenError::Unidentified(error) => Failure::NoFormatFor(error),
        OpenError::NoTemplate { path, why } => {
            Failure::NoTemplate { path: named.unwrap_or(&path).display().to_string(), why }
        }
        // There is no request yet that could be at fault.
        OpenError::Template(error) => Failure::Refused { refusal: (*error).into(), source: Source::default() },
        error => Failure::Open(error.to_string(), error.code(), error.help()),
    }
}

/// Reads and renders the one conversation of a run.
pub fn render_one(job: &Job, source: &Source) -> Result<ModelPrompt, Failure> {
    let rendered = job.prompt(&source.text).and_then(|prompt| {
        // Refuse a conversation without loss before anything is printed.
        job.loss_of(&prompt)?;
        Ok(prompt)
    });
    rendered.map_err(|refusal| refused(refusal, source))
}

/// The limit for the size of a request in bytes times the number of its messages. The renderings of
/// a growing conversation have half of this size, and half of them are rendered twice.
const MOST_COMPARED: usize = 1 << 29;

/// Refuses a conversation that is too large to be rendered once for each message; `bytes` is its
/// size.
pub fn check_messages(conversation: &Conversation, bytes: usize) -> Result<(), Refusal> {
    let messages = conversation.messages.len();
    match messages.saturating_mul(bytes) > MOST_COMPARED {
        true => Err(Refusal::TooManyMessages { messages }),
        false => Ok(()),
    }
}

/// Combines a refusal with the source that was refused.
pub fn refused(refusal: Refusal, source: &Source) -> Failure {
    Failure::Refused { refusal, source: source.clone() }
}

/// Returns the current Unix time in seconds.
fn clock() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or_default()
}
