use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

use clap::ValueEnum;
use rolecall::answer::{Answer, Streamed};
use rolecall::template::ModelTemplates;
use rolecall::tokenizer::AddedToken;
use rolecall::{
    AddSpecial, CallForm, ChatTemplate, DateTime, Encoded, EncodedToken, Encoder, Error, Format, Json, LossPolicy,
    Note, Options, Place, Prompt, Protect, Registry, Request, RuleMode, Tokenizer, answer, loss_spans, new_turn,
    render,
};
use rolecall_conversation::{Conversation, Problem, Role};

use crate::args::{BosArg, CallsArg, Chat, LossArg, OwnTemplate};
use crate::batch::{Row, Rows};
use crate::explain::Tokens;
use crate::failure::Failure;
use crate::files;
use crate::output::Output;
use crate::refusal::Refusal;
use crate::source::Source;
use crate::template::{Compiled, Templates};

/// What all conversations of a run share: the formats, and what the command line says.
pub struct Job {
    registry: Registry,
    format: Option<String>,
    templates: Option<Arc<Templates>>,
    /// How templates are given tool calls.
    tool_calls: CallForm,
    options: Options,
    /// Who writes the token that opens a prompt.
    bos: BosArg,
    generation: Option<bool>,
    continue_final_message: bool,
    new_turn: bool,
    /// A template is no format; this one only has the name that views show.
    nameless: Format,
    /// Whose text a training loss may touch, where that is asked for.
    pub loss: Option<LossPolicy>,
    /// The time that templates are told where nothing else is said, in seconds: one for the whole run.
    pub clock: i64,
    compiled: Compiled,
}

/// A conversation with all that is needed to render it.
pub struct Asked<'a> {
    pub request: Request,
    pub format: &'a Format,
    pub options: Options,
    bos: BosArg,
    templates: Option<(Arc<Templates>, CallForm)>,
    job: &'a Job,
    new_turn: bool,
}

impl Asked<'_> {
    /// The bytes that a training loss may touch.
    pub fn loss(&self, prompt: &Prompt, policy: LossPolicy) -> Result<Vec<Range<usize>>, Refusal> {
        let spans = loss_spans(prompt, &self.request.conversation, self.format, policy);
        spans.map_err(|error| Error::from(error).into())
    }

    /// Adds the answer to a batch, with the loss where it is asked for.
    pub fn add_to(
        &self,
        rows: &mut Rows,
        number: u64,
        prompt: &Prompt,
        encoded: Option<&Encoded>,
    ) -> Result<(), Refusal> {
        let loss = self.job.loss.map(|policy| self.loss(prompt, policy)).transpose()?;
        match (&mut *rows, encoded) {
            (Rows::Lines(text), _) => {
                answer::write(text, &Answer { id: self.request.id.as_ref(), prompt, encoded, loss: loss.as_deref() });
                Ok(())
            }
            (Rows::Columns { .. }, Some(encoded)) => {
                let mask = loss.map(|loss| answer::loss_mask(encoded, &loss).collect()).unwrap_or_default();
                rows.push(&Row { number, request: &self.request, prompt, encoded, mask })
            }
            // Only ids are written to columns.
            (Rows::Columns { .. }, None) => Ok(()),
        }
    }

    /// Writes the answer as a line of JSON, with the loss where it is asked for.
    pub fn stream(
        &self,
        prompt: &Prompt,
        encoded: Option<(&Tokens, &[Note])>,
        loss: Option<LossPolicy>,
        output: &Output,
    ) -> Result<Result<(), Failure>, Refusal> {
        let loss = loss.map(|policy| self.loss(prompt, policy)).transpose()?;
        let notes = encoded.map_or(&[][..], |(_, notes)| notes);
        let id = self.request.id.as_ref();
        let each;
        let mut streamed = Streamed { id, prompt, tokens: None, notes, loss: loss.as_deref() };
        if let Some((tokens, _)) = encoded {
            each = move || Box::new(tokens.iter()) as Box<dyn Iterator<Item = EncodedToken>>;
            streamed.tokens = Some(&each);
        }
        Ok(output.stream(|out| {
            answer::stream(out, &streamed, |_| Ok(()))?;
            out.write_all(b"\n")
        }))
    }
}

impl Job {
    /// A run that may take a template in place of a format.
    pub fn with_template(chat: &Chat, own: &OwnTemplate, tokenizer: Option<&Path>) -> Result<Job, Failure> {
        let path = own.template.as_deref();
        let templates = path.map(|path| Templates::load(path, own, chat, tokenizer).map(Arc::new)).transpose()?;
        let nameless = Format::new(path.map_or("chat_template".into(), |path| path.display().to_string()));
        let tool_calls = own.tool_calls.map_or(CallForm::default(), CallsArg::form);
        Ok(Job { templates, tool_calls, nameless, ..Job::from_args(chat, tokenizer)? })
    }

    pub fn from_args(chat: &Chat, tokenizer: Option<&Path>) -> Result<Job, Failure> {
        let mut formats = files::load_formats(&chat.more)?;
        let format = chat.format.as_deref().map(|asked| formats.choose(asked)).transpose()?;
        let mut registry = formats.registry;
        use_own_tokens(&mut registry, chat, tokenizer);
        let bos = chat.bos.unwrap_or(BosArg::Template);
        Ok(Job {
            registry,
            format,
            templates: None,
            tool_calls: CallForm::default(),
            bos,
            options: Options {
                bos: bos.bos(),
                rules: chat.rules.map_or(RuleMode::default(), |rules| rules.mode()),
                choices: chat.options.clone(),
            },
            generation: match (chat.generation_prompt, chat.no_generation_prompt) {
                (true, _) => Some(true),
                (_, true) => Some(false),
                // What is learned from is complete.
                _ => chat.for_training.map(|_| false),
            },
            loss: chat.for_training.map(LossArg::policy),
            continue_final_message: chat.continue_final_message,
            new_turn: chat.new_turn,
            nameless: Format::new("chat_template"),
            clock: clock(),
            compiled: Compiled::default(),
        })
    }

    /// Reads a request: what it says of itself wins over the command line, but for the switches of its end.
    pub fn read(&self, text: &str) -> Result<Asked<'_>, Refusal> {
        self.ask(Request::from_text(text)?)
    }

    /// The same for a request that is read.
    pub fn ask(&self, mut request: Request) -> Result<Asked<'_>, Refusal> {
        if let Some(generation) = self.generation {
            request.conversation.add_generation_prompt = Some(generation);
            request.conversation.continue_final_message = false;
        }
        request.conversation.continue_final_message |= self.continue_final_message;
        let (options, bos) = self.options_of(&request)?;
        let own = Templates::of_request(&request, &self.compiled)?;
        if own.is_some() && (self.loss.is_some() || self.new_turn) {
            return Err(Refusal::NoLossNoTurn);
        }
        let templates = match (own, &request.format) {
            (Some(own), _) => Some(Arc::new(own)),
            (None, None) => self.templates.clone(),
            (None, Some(_)) => None,
        };
        if let Some(templates) = templates {
            let templates = Some((templates, self.tool_calls));
            return Ok(Asked { request, format: &self.nameless, options, bos, templates, job: self, new_turn: false });
        }
        // A name only: an input must not choose files to be read.
        let name = request.format.as_deref().or(self.format.as_deref()).ok_or(Refusal::NoFormat)?;
        let format = self.registry.get(name).ok_or_else(|| Error::UnknownFormat {
            name: name.to_owned(),
            near: self.registry.suggest(name).map(str::to_owned),
        })?;
        let format = if self.loss.is_some() { format.for_training() } else { format };
        Ok(Asked { request, format, options, bos, templates: None, job: self, new_turn: self.new_turn })
    }

    /// What the answers depend on besides the arguments and the tokenizer, in one text.
    pub fn made_of(&self) -> String {
        self.templates.as_ref().map_or(String::new(), |templates| templates.made_of())
    }

    fn options_of(&self, request: &Request) -> Result<(Options, BosArg), Refusal> {
        let (mut options, mut bos) = (self.options.clone(), self.bos);
        const WHO: &str = "`auto`, `template`, `tokenizer`, `none`";
        if let Some(value) = named_value(request, "bos", WHO)? {
            bos = BosArg::from_str(value, false).map_err(|_| unknown_value("bos", WHO, value))?;
            options.bos = bos.bos();
        }
        if let Some(value) = named_value(request, "rules", "`enforce`, `reference`")? {
            options.rules = match value {
                "enforce" => RuleMode::Enforce,
                "reference" => RuleMode::Reference,
                other => return Err(unknown_value("rules", "`enforce`, `reference`", other)),
            };
        }
        match request.other.get("options") {
            None | Some(Json::Null) => {}
            Some(Json::Object(own)) => {
                for (name, value) in own.iter() {
                    let text = match value {
                        Json::String(text) => text.clone(),
                        Json::Number(number) => number.spelling().to_owned(),
                        Json::Bool(value) => value.to_string(),
                        other => return Err(wrong_type(&format!("options.{name}"), "a string", other)),
                    };
                    // The last one of a name counts.
                    options.choices.push((name.to_owned(), text));
                }
            }
            Some(other) => return Err(wrong_type("options", "an object of names and values", other)),
        }
        Ok((options, bos))
    }
}

impl Asked<'_> {
    pub fn render(&self) -> Result<Prompt, Refusal> {
        if let Some((templates, calls)) = &self.templates {
            let clock = DateTime::from_unix(self.job.clock);
            return templates.render(&self.request, &self.options, *calls, clock);
        }
        let prompt = render(&self.request.conversation, self.format, &self.options)?;
        Ok(if self.new_turn { new_turn(&prompt, self.format) } else { prompt })
    }
}

impl Asked<'_> {
    /// The chat template that it is rendered through, if it is one.
    pub fn template(&self) -> Result<Option<Arc<ChatTemplate>>, Refusal> {
        let chosen = self.templates.as_ref().map(|(templates, _)| templates.chosen(&self.request));
        Ok(chosen.transpose()?.map(|(_, template)| template))
    }
}

/// Reads and renders the one conversation of a run.
pub fn render_one<'a>(job: &'a Job, source: &Source) -> Result<(Asked<'a>, Prompt), Failure> {
    let rendered = job.read(&source.text).and_then(|asked| {
        let prompt = asked.render()?;
        // Nothing to learn from is refused before anything is shown.
        job.loss.map(|policy| asked.loss(&prompt, policy)).transpose()?;
        Ok((asked, prompt))
    });
    rendered.map_err(|refusal| refused(refusal, source))
}

/// How many bytes a request may come to that is rendered anew for each of its replies.
const MOST_RENDERED: usize = 1 << 27;

/// Refuses a conversation of so many bytes that is too much to be rendered once for each reply.
pub fn check_replies(conversation: &Conversation, bytes: usize) -> Result<(), Refusal> {
    let replies = conversation.messages.iter().filter(|message| *message.role() == Role::Assistant).count();
    match replies.saturating_mul(bytes) > MOST_RENDERED {
        true => Err(Refusal::TooManyReplies { replies }),
        false => Ok(()),
    }
}

/// A refusal with what was refused.
pub fn refused(refusal: Refusal, source: &Source) -> Failure {
    Failure::Refused { refusal, source: source.clone() }
}

/// Formats that take the tokenizer's own tokens take those that the command line names, or those that the tokenizer's
/// files do.
fn use_own_tokens(registry: &mut Registry, chat: &Chat, tokenizer: Option<&Path>) {
    let (bos, eos) = tokenizer.and_then(files::load_own_tokens).unzip();
    let named = |token: &String| !token.is_empty();
    let bos = match chat.bos_tokens.is_empty() {
        true => bos,
        false => Some(chat.bos_tokens.iter().filter(|token| named(token)).cloned().collect()),
    };
    let eos = chat.eos_token.clone().or(eos);
    if bos.is_none() && eos.is_none() {
        return;
    }
    let formats: Vec<Format> = registry.iter().filter(|format| format.has_own_tokens()).cloned().collect();
    for format in formats {
        registry.replace(format.with_tokens_of(bos.as_deref(), eos.as_deref()));
    }
}

/// A tokenizer, bound to each format that comes up; shared by threads.
pub struct Encoders {
    path: String,
    tokenizer: Arc<dyn Tokenizer>,
    reference: bool,
    protect: Protect,
    /// The templates beside the tokenizer, which formats know nothing of.
    beside: ModelTemplates,
    max_length: Option<usize>,
    encoders: RwLock<HashMap<(Bound, AddSpecial), Arc<Encoder>>>,
}

/// What an encoder is for.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Bound {
    Format(String),
    /// By the number of what they are made of.
    Templates(u64),
}

/// Encoders that are kept: requests that all carry another template do not fill the memory.
const KEPT: usize = 64;

impl Encoders {
    pub fn load(
        path: &Path,
        reference: bool,
        protect: Protect,
        max_length: Option<usize>,
    ) -> Result<Encoders, Failure> {
        let (file, tokenizer) = files::load_tokenizer_file(path)?;
        let beside = files::templates_beside(&file)?;
        let path = path.display().to_string();
        let tokenizer = Arc::from(tokenizer);
        Ok(Encoders { path, tokenizer, reference, protect, beside, max_length, encoders: RwLock::default() })
    }

    pub fn encode(&self, asked: &Asked<'_>, prompt: &Prompt) -> Result<Encoded, rolecall_encode::Error> {
        let encoder = self.encoder(asked, asked.bos.add())?;
        let mut encoded = if self.reference { encoder.encode_reference(prompt) } else { encoder.encode(prompt) }?;
        if let Some(length) = self.max_length {
            encoded.cut(length);
        }
        if asked.bos == BosArg::None {
            // That there is none is what was asked for.
            encoded.notes.clear();
        }
        Ok(encoded)
    }

    /// The same token by token, so that they are not all in memory: those that are kept, and the notes.
    pub fn encode_each(
        &self,
        asked: &Asked<'_>,
        prompt: &Prompt,
        take: &mut dyn FnMut(EncodedToken),
    ) -> Result<Vec<Note>, Failure> {
        if self.reference {
            let encoded = self.encode_one(asked, prompt)?;
            encoded.tokens.into_iter().for_each(take);
            return Ok(encoded.notes);
        }
        let mut left = self.max_length.unwrap_or(usize::MAX);
        let mut kept = |token| {
            if left > 0 {
                left -= 1;
                take(token);
            }
        };
        let encoder = self.encoder(asked, asked.bos.add());
        let notes = encoder.and_then(|encoder| encoder.encode_each(prompt, &mut kept));
        let notes = notes.map_err(|error| Failure::Misfit { tokenizer: self.path.clone(), error: error.into() })?;
        // That there is none is what was asked for.
        Ok(if asked.bos == BosArg::None { Vec::new() } else { notes })
    }

    fn encoder(&self, asked: &Asked<'_>, add: AddSpecial) -> Result<Arc<Encoder>, rolecall_encode::Error> {
        let bound = match &asked.templates {
            Some((templates, _)) => Bound::Templates(templates.number()),
            None => Bound::Format(asked.format.name.clone()),
        };
        let key = (bound, add);
        let known = self.encoders.read().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        if let Some(encoder) = known {
            return Ok(encoder);
        }
        let protection = match &asked.templates {
            Some((templates, _)) => templates.protection(&self.beside),
            None => self.beside.protection(Some(asked.format)),
        };
        let protection = protection.protecting(self.protect);
        let encoder = Arc::new(Encoder::new(&protection, Arc::clone(&self.tokenizer))?.adding(add));
        let mut encoders = self.encoders.write().unwrap_or_else(PoisonError::into_inner);
        if encoders.len() >= KEPT {
            encoders.clear();
        }
        encoders.insert(key, Arc::clone(&encoder));
        Ok(encoder)
    }

    /// The tokens that plain text must never become.
    pub fn added_tokens(&self) -> &[AddedToken] {
        self.tokenizer.added_tokens()
    }

    /// The same, with the tokenizer's path in the failure.
    pub fn encode_one(&self, asked: &Asked<'_>, prompt: &Prompt) -> Result<Encoded, Failure> {
        let encoded = self.encode(asked, prompt);
        encoded.map_err(|error| Failure::Misfit { tokenizer: self.path.clone(), error: error.into() })
    }
}

/// A key of the request that holds one of a few words.
fn named_value<'a>(request: &'a Request, key: &str, known: &'static str) -> Result<Option<&'a str>, Refusal> {
    match request.other.get(key) {
        None | Some(Json::Null) => Ok(None),
        Some(Json::String(text)) => Ok(Some(text)),
        Some(other) => {
            let problem =
                Problem::UnknownType { known, found: rolecall::json::write(other, &rolecall::json::Layout::default()) };
            Err(rolecall_conversation::Error { place: Place::field(key), problem }.into())
        }
    }
}

fn unknown_value(key: &str, known: &'static str, found: &str) -> Refusal {
    let problem = Problem::UnknownType { known, found: found.to_owned() };
    rolecall_conversation::Error { place: Place::field(key), problem }.into()
}

pub fn wrong_type(field: &str, expected: &'static str, found: &Json) -> Refusal {
    let problem = Problem::WrongType { expected, found: found.kind() };
    rolecall_conversation::Error { place: Place::field(field), problem }.into()
}

/// The machine's time, which is UTC: the standard library knows no zones.
fn clock() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or_default()
}
