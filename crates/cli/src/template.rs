//! A model's own chat templates, where the command line or a request asks for one in place of a format.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::sync::{Arc, LazyLock, OnceLock, PoisonError, RwLock};

use rolecall::json::Object;
use rolecall::template::{ModelTemplates, NamedTemplate};
use rolecall::{
    CallForm, ChatTemplate, DateTime, Error, Json, Options, Prompt, Protection, RenderError, Request, TemplateOptions,
    json, render_template,
};

use crate::args::{Chat, OwnTemplate};
use crate::failure::Failure;
use crate::files;
use crate::job::wrong_type;
use crate::refusal::Refusal;
use crate::source::Source;

const TIME: &str = "a time like 2026-11-21 or 2026-11-21T12:34:56";

/// How many templates are kept compiled: requests that all carry another one do not fill the memory.
const KEPT: usize = 64;

/// The templates of a model, each compiled when it is first asked for.
#[derive(Debug)]
pub struct Templates {
    model: ModelTemplates,
    compiled: Compiled,
    /// The one that is to be taken for requests that name none.
    name: Option<String>,
    now: Option<DateTime>,
    number: OnceLock<u64>,
}

/// Compiled templates by their content, shared by threads and by all requests of a run.
#[derive(Clone, Debug, Default)]
pub struct Compiled(Arc<RwLock<HashMap<Content, Outcome>>>);

/// A template's text, and the special tokens that it may name.
type Content = (String, Vec<(String, String)>);
type Outcome = Result<Arc<ChatTemplate>, RenderError>;

impl Compiled {
    fn compile(&self, source: &str, tokens: &[(String, String)]) -> Outcome {
        let content = (source.to_owned(), tokens.to_owned());
        if let Some(known) = self.0.read().unwrap_or_else(PoisonError::into_inner).get(&content) {
            return known.clone();
        }
        let outcome = ChatTemplate::compile(source, tokens.to_owned()).map(Arc::new);
        let mut kept = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= KEPT {
            kept.clear();
        }
        kept.insert(content, outcome.clone());
        outcome
    }
}

impl Templates {
    /// The templates that the command line names. What is wrong with the one that all requests take is said at once.
    pub fn load(path: &Path, own: &OwnTemplate, chat: &Chat, tokenizer: Option<&Path>) -> Result<Templates, Failure> {
        let mut model = files::load_templates(path)?;
        // A bare template may name the tokens of the tokenizer that its prompts are for.
        if let Some((bos, eos)) = tokenizer.and_then(files::load_own_tokens) {
            for (name, token) in [("bos_token", bos.concat()), ("eos_token", eos)] {
                if model.token(name).is_none() && !token.is_empty() {
                    model.set_token(name, token);
                }
            }
        }
        if !chat.bos_tokens.is_empty() {
            model.set_token("bos_token", chat.bos_tokens.concat());
        }
        if let Some(token) = &chat.eos_token {
            model.set_token("eos_token", token.clone());
        }
        let templates = Templates {
            model,
            compiled: Compiled::default(),
            name: own.template_name.clone(),
            now: own.now,
            number: OnceLock::new(),
        };
        if templates.name.is_some() || templates.model.templates.len() == 1 {
            templates.choose(templates.name.as_deref(), false).map_err(|refusal| match refusal {
                Refusal::NoChoice(why) => Failure::NoTemplate { path: path.display().to_string(), why },
                // No request is at fault: there is none yet.
                refusal => Failure::Refused { refusal, source: Source { name: String::new(), text: String::new() } },
            })?;
        }
        Ok(templates)
    }

    /// The templates that a request carries as `chat_template`, with its `bos_token`, `eos_token` and `now`.
    pub fn of_request(request: &Request, compiled: &Compiled) -> Result<Option<Templates>, Refusal> {
        let Some(carried) = request.other.get("chat_template").filter(|carried| !carried.is_null()) else {
            return Ok(None);
        };
        let expected = "a text, a list of {\"name\", \"template\"}, or an object of texts by name";
        let wrong = |_| wrong_type("chat_template", expected, carried);
        let mut model = ModelTemplates::from_json(carried).map_err(wrong)?;
        for name in ["bos_token", "eos_token"] {
            if let Some(token) = text_of(request, name)? {
                model.set_token(name, token.to_owned());
            }
        }
        let now = match text_of(request, "now")? {
            Some(now) => Some(now.parse().map_err(|_| wrong_type("now", TIME, &now.into()))?),
            None => None,
        };
        Ok(Some(Templates { model, compiled: compiled.clone(), name: None, now, number: OnceLock::new() }))
    }

    /// Renders a request through the template that is meant for it; `clock` is the time where nothing else says one.
    pub fn render(
        &self,
        request: &Request,
        options: &Options,
        calls: CallForm,
        clock: Option<DateTime>,
    ) -> Result<Prompt, Refusal> {
        let (named, template) = self.chosen(request)?;
        // `enable_thinking=false` is a switch, `date=today` a text.
        let value = |text: &str| json::parse(text).unwrap_or_else(|_| Json::from(text));
        let kwargs: Object = options.choices.iter().map(|(name, text)| (name.clone(), value(text))).collect();
        let options =
            TemplateOptions { now: self.now.or(clock), kwargs, calls, bos: options.bos, ..TemplateOptions::default() };
        render_template(&request.conversation, &template, &options).map_err(|error| refused(named, error))
    }

    /// The template that is meant for a request; the one that its `chat_template_name` names wins.
    pub fn chosen(&self, request: &Request) -> Result<(&NamedTemplate, Arc<ChatTemplate>), Refusal> {
        let name = text_of(request, "chat_template_name")?.or(self.name.as_deref());
        self.choose(name, request.conversation.tools.is_some())
    }

    /// What its templates write, and those beside the tokenizer.
    pub fn protection(&self, beside: &ModelTemplates) -> Protection {
        self.model.clone().beside(beside).protection(None)
    }

    /// A number of their texts and tokens, the same wherever they are the same.
    pub fn number(&self) -> u64 {
        static STATE: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        *self.number.get_or_init(|| STATE.hash_one((self.made_of(), format!("{:?}", self.model))))
    }

    /// All that its prompts depend on, in one text.
    pub fn made_of(&self) -> String {
        format!("{:?}", (&self.model.templates, &self.model.tokens))
    }

    fn choose(&self, name: Option<&str>, has_tools: bool) -> Result<(&NamedTemplate, Arc<ChatTemplate>), Refusal> {
        let named = self.model.choose(name, has_tools).map_err(Refusal::NoChoice)?;
        let compiled = self.compiled.compile(&named.source, &self.model.tokens);
        compiled.map(|template| (named, template)).map_err(|error| refused(named, error))
    }
}

/// A key of the request that holds a text.
pub fn text_of<'a>(request: &'a Request, key: &str) -> Result<Option<&'a str>, Refusal> {
    match request.other.get(key) {
        None | Some(Json::Null) => Ok(None),
        Some(Json::String(text)) => Ok(Some(text)),
        Some(other) => Err(wrong_type(key, "a string", other)),
    }
}

/// A template's text to point into: the engine counts in lines that end with `\n`.
pub fn as_source(named: &NamedTemplate) -> Source {
    Source { name: named.place(), text: named.source.replace("\r\n", "\n").replace('\r', "\n") }
}

/// A refusal, which points into the template's text where the template is at fault.
pub fn refused(named: &NamedTemplate, error: RenderError) -> Refusal {
    match error {
        RenderError::Template { error, message } => Refusal::Template { source: as_source(named), error, message },
        error => Error::from(error).into(),
    }
}
