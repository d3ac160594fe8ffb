//! A model's chat templates, each compiled when it is first used.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, LazyLock, OnceLock};

use rolecall_conversation::Json;
use rolecall_conversation::json::{self, Object};
use rolecall_encode::{Protection, foreign_markers};
use rolecall_openai::Request;
use rolecall_render::{ChatTemplate, Limits, TemplateOptions, Writer};
use rolecall_tokenizer::Tokenizer;

use super::digest::digest;
use super::ends::Stops;
use super::settings::{Settings, text_of, wrong_type};
use crate::Error;
use crate::kept::SmallCache;
use crate::template::{ModelTemplates, NamedTemplate};

/// Compiled templates by their text, and their limits on its size and nesting. Shared by threads and by all requests of a model.
#[derive(Debug, Default)]
pub(super) struct CompiledTemplates(SmallCache<(TemplateText, [usize; 2]), CompileResult>);

/// A template's source, and the special tokens that it may name.
#[derive(Debug)]
pub(super) struct TemplateText {
    source: String,
    tokens: Vec<(String, String)>,
}

impl TemplateText {
    pub fn new(source: &str, tokens: &[(String, String)]) -> TemplateText {
        TemplateText { source: source.to_owned(), tokens: tokens.to_owned() }
    }

    pub fn of(template: &ChatTemplate) -> TemplateText {
        TemplateText::new(template.source(), template.tokens())
    }

    pub fn is(&self, source: &str, tokens: &[(String, String)]) -> bool {
        self.source == source && self.tokens == tokens
    }

    pub fn is_of(&self, template: &ChatTemplate) -> bool {
        self.is(template.source(), template.tokens())
    }
}

type CompileResult = Result<Arc<ChatTemplate>, rolecall_render::Error>;

impl CompiledTemplates {
    fn compile(&self, source: &str, tokens: &[(String, String)], limits: &Limits) -> CompileResult {
        let most = [limits.source_bytes, limits.nesting];
        let is_it = |(text, known): &(TemplateText, [usize; 2])| *known == most && text.is(source, tokens);
        // That a template does not compile is kept, too.
        self.0.get_or_make(is_it, || {
            let outcome = ChatTemplate::compile_within(source, tokens.to_owned(), limits).map(Arc::new);
            ((TemplateText::new(source, tokens), most), outcome)
        })
    }
}

/// The templates of a model, or those that a request carries.
#[derive(Debug)]
pub(super) struct Templates {
    pub model: ModelTemplates,
    /// Whether a request carries them. Such templates are not probed, because each request may
    /// carry others.
    pub is_carried: bool,
    number: OnceLock<u64>,
    /// The digest of each template, once determined.
    digests: Box<[OnceLock<String>]>,
    /// What stops replies, once determined.
    stops: SmallCache<StopsOf, Arc<Stops>>,
}

/// What the tokens that stop replies depend on: the template by its position, and the settings that
/// choose the model's default template.
type StopsOf = (usize, Option<String>, Limits);

/// One of the templates, compiled.
#[derive(Clone, Debug)]
pub(super) struct ChosenTemplate {
    pub templates: Arc<Templates>,
    pub named: usize,
    pub template: Arc<ChatTemplate>,
}

impl Templates {
    pub fn new(model: ModelTemplates) -> Templates {
        let digests = model.templates.iter().map(|_| OnceLock::new()).collect();
        Templates { model, is_carried: false, number: OnceLock::new(), digests, stops: SmallCache::default() }
    }

    /// Returns the templates that a request carries as `chat_template`, with its `bos_token` and
    /// `eos_token`.
    pub fn of_request(request: &Request) -> Result<Option<Templates>, Error> {
        let Some(carried) = request.other.get("chat_template").filter(|carried| !carried.is_null()) else {
            return Ok(None);
        };
        let expected = "a string, a list of {\"name\", \"template\"}, or an object of strings by name";
        let mut model =
            ModelTemplates::from_json(carried).map_err(|_| wrong_type("chat_template", expected, carried))?;
        for name in ["bos_token", "eos_token"] {
            if let Some(token) = text_of(request, name)? {
                model.set_token(name, token.to_owned());
            }
        }
        Ok(Some(Templates { is_carried: true, ..Templates::new(model) }))
    }

    /// Returns the template that the settings name, or the default one for a conversation with or
    /// without tools.
    pub fn choose(
        self: &Arc<Self>,
        settings: &Settings,
        has_tools: bool,
        compiled: &CompiledTemplates,
    ) -> Result<ChosenTemplate, Error> {
        let named = self.model.choose(settings.template_name.as_deref(), has_tools).map_err(Error::NoTemplate)?;
        let at = self.model.templates.iter().position(|template| std::ptr::eq(template, named)).unwrap_or_default();
        let template = compiled.compile(&named.source, &self.model.tokens, &settings.limits);
        let mut template = template.map_err(|error| refused(named, error))?;
        if named.code.is_some() {
            template = Arc::new(named.coded(ChatTemplate::clone(&template)));
        }
        Ok(ChosenTemplate { templates: Arc::clone(self), named: at, template })
    }

    /// Returns the protection for what these templates write, and those in the tokenizer's folder.
    pub fn protection(&self, beside: &ModelTemplates) -> Protection {
        self.model.clone().beside(beside).protection(None)
    }

    /// Refuses a template whose turns have markers that are not tokens of the tokenizer.
    pub fn check_markers(&self, tokenizer: &dyn Tokenizer) -> Result<(), Error> {
        for named in &self.model.templates {
            // The error of a template that does not compile is reported where it renders.
            let Ok(template) = named.compile(&self.model.tokens) else { continue };
            let markers = foreign_markers(&template, tokenizer);
            if !markers.is_empty() {
                let template = named.name.clone();
                return Err(rolecall_encode::Error::ForeignTemplate { template, markers }.into());
            }
        }
        Ok(())
    }

    /// Returns a hash of the texts and tokens. Equal templates have equal hashes within a process.
    pub fn number(&self) -> u64 {
        static STATE: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        *self.number.get_or_init(|| STATE.hash_one(format!("{:?}", self.model)))
    }

    /// Returns the tokens that stop the replies of a template. `find` determines them with the
    /// settings of the model.
    pub fn stops(
        &self,
        named: usize,
        settings: &Settings,
        find: impl FnOnce() -> Result<Stops, Error>,
    ) -> Result<Arc<Stops>, Error> {
        let is_it = |(at, name, limits): &StopsOf| {
            *at == named && *name == settings.template_name && *limits == settings.limits
        };
        self.stops.find_or_make(is_it, || {
            Ok(((named, settings.template_name.clone(), settings.limits.clone()), Arc::new(find()?)))
        })
    }
}

impl ChosenTemplate {
    /// Returns a digest of the text and of the tokens that it may name.
    pub fn digest(&self) -> &str {
        let found = || digest(&format!("{:?}{:?}", self.template.source(), self.template.tokens()));
        self.templates.digests[self.named].get_or_init(found)
    }

    pub fn named(&self) -> &NamedTemplate {
        &self.templates.model.templates[self.named]
    }

    /// Returns the writer of the template with these settings.
    pub fn writer(&self, settings: &Settings) -> Writer {
        // `enable_thinking=false` is a boolean, `date=today` a string.
        let value = |text: &str| json::parse(text).unwrap_or_else(|_| Json::from(text));
        let kwargs: Object = settings.options.iter().map(|(name, text)| (name.clone(), value(text))).collect();
        let options = TemplateOptions {
            now: settings.time(),
            limits: settings.limits.clone(),
            kwargs,
            forms: settings.forms,
            bos: settings.bos.bos(),
            ..TemplateOptions::default()
        };
        Writer::Template(Arc::clone(&self.template), options)
    }
}

/// Adds to an error the template that raised it.
pub(super) fn refused(named: &NamedTemplate, error: rolecall_render::Error) -> Error {
    match error {
        rolecall_render::Error::Template { error, message } => {
            Error::Template { template: Box::new(named.clone()), error, message, as_wanted: false }
        }
        error => error.into(),
    }
}
