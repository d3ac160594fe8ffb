//! A model's chat templates, and the special tokens that they may name.
//!
//! [`template::load`](crate::template::load) reads them from the model's files, as transformers
//! does. It shares this code with `identify::read_folder`, so both interpret the files in the same
//! way.

mod choice;
mod code;
mod gguf;
mod tokens;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::PathBuf;
use std::sync::Arc;

use rolecall_conversation::Json;
use rolecall_conversation::json::Object;
use rolecall_encode::Protection;
use rolecall_format::Format;

pub use choice::NoChoice;
pub use code::SharedCode;
pub(crate) use code::WatchedCode;
pub use rolecall_render::jinja;
pub use rolecall_render::{
    ArgumentForm, BosUse, Capability, ChatTemplate, CodeError, CodeErrorKind, CodeMessage, CodePiece, ContentForm,
    DateTime, EFFORT_SWITCH, EFFORTS, Finding, FindingKind, Forms, IdForm, Limits, Nulls, ProbeBudget, RunRecord,
    Support, Switch, TemplateAnalysis, TemplateCode, TemplateError, TemplateOptions, WantedCalls, analyze_template,
    analyze_template_within, left_out,
};

use crate::damage::Damage;

pub(crate) use tokens::token_of;

/// The name of a template that has no name.
pub(crate) const DEFAULT: &str = "default";
/// The name of the template for conversations with tools.
const TOOL_USE: &str = "tool_use";
/// The key of the templates in JSON files.
const KEY: &str = "chat_template";

/// The chat templates of a model.
///
/// ```
/// use rolecall::template::ModelTemplates;
/// let named = r#"[{"name": "default", "template": "a"}, {"name": "tool_use", "template": "b"}]"#;
/// let templates = ModelTemplates::from_json(&rolecall::conversation::json::parse(named)?)?;
/// assert_eq!(templates.choose(None, false)?.source, "a");
/// assert_eq!(templates.choose(None, true)?.source, "b");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelTemplates {
    /// The templates, in the order of the files. Names are unique.
    pub templates: Vec<NamedTemplate>,
    /// The special tokens that the templates may name, by name (`bos_token`), as
    /// `ChatTemplate::compile` takes them. Names are unique.
    pub tokens: Vec<(String, String)>,
    /// Whether the tokenizer writes the token that opens a text, if the template's file specifies
    /// it.
    pub adds_bos: Option<bool>,
    config: tokens::TokensConfig,
    /// The model's other templates. They are never rendered, but what they write is protected too.
    others: Vec<NamedTemplate>,
}

/// A chat template of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedTemplate {
    /// The name; `default` if the template has no name.
    pub name: String,
    /// The source text, as the file has it.
    pub source: String,
    /// The file that holds it. Empty if it is not from a file.
    pub file: PathBuf,
    /// The key in that file, or `None` if the whole file is the template.
    pub key: Option<String>,
    /// What writes the prompts, if not the source, which then is a sketch of it.
    pub code: Option<SharedCode>,
}

impl NamedTemplate {
    /// Returns a template that is a whole file.
    pub fn of_file(name: &str, source: String, file: impl Into<PathBuf>) -> NamedTemplate {
        NamedTemplate { name: name.to_owned(), source, file: file.into(), key: None, code: None }
    }

    /// Compiles the template with these special tokens.
    pub fn compile(&self, tokens: &[(String, String)]) -> Result<ChatTemplate, rolecall_render::Error> {
        let template = ChatTemplate::compile(&self.source, tokens.to_owned())?;
        Ok(self.coded(template))
    }

    /// Returns the compiled template with the code, if it has any.
    pub(crate) fn coded(&self, template: ChatTemplate) -> ChatTemplate {
        match &self.code {
            Some(code) => template.with_code(Arc::clone(&code.0)),
            None => template,
        }
    }

    /// Returns what a model of this template alone is called: the file, or the name of the code.
    pub(crate) fn source_name(&self) -> PathBuf {
        match &self.code {
            Some(code) => PathBuf::from(code.0.name()),
            None => self.file.clone(),
        }
    }

    /// Returns where the template is, in words: the file, and the key in it.
    pub fn place(&self) -> String {
        match (self.file.as_os_str().is_empty(), &self.key) {
            (false, None) => self.file.display().to_string(),
            (false, Some(key)) => format!("{}, {key}", self.file.display()),
            (true, key) => key.clone().unwrap_or_else(|| self.name.clone()),
        }
    }
}

impl ModelTemplates {
    /// Reads a `chat_template` value in JSON: a string, a list of `{"name", "template"}`, or an
    /// object of templates by name.
    pub fn from_json(value: &Json) -> Result<ModelTemplates, Damage> {
        let mut templates = ModelTemplates::default();
        templates.take_json("", value)?;
        Ok(templates)
    }

    /// Returns the protection for what all templates of the model write, for an
    /// [`Encoder`](crate::encode::Encoder). If a format is given, includes what it writes.
    ///
    /// This covers more than `templates` if those were loaded from one file of several.
    pub fn protection(&self, format: Option<&Arc<Format>>) -> Protection {
        let protection = format.map_or_else(Protection::default, |format| Protection::default().with_format(format));
        self.templates.iter().chain(&self.others).fold(protection, |protection, named| {
            match named.compile(&self.tokens) {
                Ok(template) => protection.with_template(&named.name, &template),
                Err(_) => protection.with_source(&named.name, &named.source),
            }
        })
    }

    /// Adds the templates of another place, such as the tokenizer's folder. They are protected but
    /// not rendered.
    #[must_use]
    pub fn beside(mut self, place: &ModelTemplates) -> ModelTemplates {
        for other in place.templates.iter().chain(&place.others) {
            if !self.templates.iter().chain(&self.others).any(|known| known.source == other.source) {
                self.others.push(other.clone());
            }
        }
        self
    }

    /// Returns the text of a special token.
    pub fn token(&self, name: &str) -> Option<&str> {
        self.tokens.iter().find(|(known, _)| known == name).map(|(_, text)| text.as_str())
    }

    /// Sets the text of a special token.
    pub fn set_token(&mut self, name: &str, text: String) {
        match self.tokens.iter_mut().find(|(known, _)| known == name) {
            Some(token) => token.1 = text,
            None => self.tokens.push((name.to_owned(), text)),
        }
    }

    /// Adds a template file of a folder. transformers: if there are any, the templates of JSON
    /// files do not count.
    pub(crate) fn take_file(&mut self, template: NamedTemplate) {
        self.templates.retain(|known| known.key.is_none());
        self.put(template);
    }

    /// Replaces the templates of earlier files with a file's `chat_template`, if it has one.
    pub(crate) fn take_templates(&mut self, file: &str, object: &Object) -> Result<(), Damage> {
        object.get(KEY).map_or(Ok(()), |value| self.take_json(file, value))
    }

    fn take_json(&mut self, file: &str, value: &Json) -> Result<(), Damage> {
        let wrong = |expected, found: &Json| Damage::WrongType { field: KEY, expected, found: found.kind() };
        let mut found: Vec<(Option<&str>, &str)> = Vec::new();
        match value {
            Json::Null => return Ok(()),
            Json::String(text) => found.push((None, text)),
            Json::Array(items) => {
                for item in items {
                    let field = |key| item.as_object()?.get(key)?.as_str();
                    let named = field("name").zip(field("template"));
                    let (name, text) =
                        named.ok_or_else(|| wrong("a list of templates with a `name` and a `template`", item))?;
                    found.push((Some(name), text));
                }
            }
            Json::Object(object) => {
                for (name, item) in object.iter() {
                    let text = item.as_str().ok_or_else(|| wrong("an object of templates by name", item))?;
                    found.push((Some(name), text));
                }
            }
            other => return Err(wrong("a string or a list of named templates", other)),
        }
        // If a name occurs twice, the later template replaces the first one in its place.
        let mut places: HashMap<&str, usize> = HashMap::new();
        self.templates.clear();
        for (name, source) in found {
            let key = Some(name.map_or(KEY.to_owned(), |name| format!("{KEY}.{name}")));
            let name = name.unwrap_or(DEFAULT);
            let template = NamedTemplate {
                name: name.to_owned(),
                source: source.to_owned(),
                key,
                ..NamedTemplate::of_file(name, String::new(), file)
            };
            match places.entry(name) {
                Entry::Occupied(place) => self.templates[*place.get()] = template,
                Entry::Vacant(place) => {
                    place.insert(self.templates.len());
                    self.templates.push(template);
                }
            }
        }
        Ok(())
    }

    /// If a name occurs twice, the later template replaces the first one in its place.
    fn put(&mut self, template: NamedTemplate) {
        match self.templates.iter_mut().find(|known| known.name == template.name) {
            Some(known) => *known = template,
            None => self.templates.push(template),
        }
    }
}
