use rolecall_conversation::Json;
use rolecall_conversation::json::{self, Object, Step, span};

use super::error::Damage;
use crate::template::{DEFAULT, ModelTemplates, NamedTemplate, token_of};

/// The folder of a model's folder that holds its named templates.
pub(crate) const NAMED_TEMPLATES: &str = "additional_chat_templates";

/// What the files of a model's folder say about the format it needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelFolder {
    /// Its chat templates, and the special tokens that they may name.
    pub templates: ModelTemplates,
    /// Tokens beside the learned vocabulary.
    pub tokens: Vec<String>,
    /// Whether these are all of them.
    pub has_all_tokens: bool,
    /// What its code is called.
    pub architectures: Vec<String>,
    /// The model that its config was made from.
    pub made_from: Option<String>,
    /// Names of the files that were read.
    pub files: Vec<&'static str>,
}

/// A file that tells a model, in the order in which they are read: what a later one says of chat templates counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelFile {
    /// `config.json`
    Config,
    /// `tokenizer_config.json`
    TokenizerConfig,
    /// `special_tokens_map.json`
    SpecialTokens,
    /// `added_tokens.json`
    AddedTokens,
    /// `tokenizer.json`, of which only the added tokens are looked at.
    Tokenizer,
    /// `chat_template.json`
    TemplateJson,
    /// `chat_template.jinja`
    Template,
}

impl ModelFile {
    /// Those that tell its chat templates and the tokens that these may name, in order.
    pub const OF_TEMPLATES: [ModelFile; 4] =
        [ModelFile::TokenizerConfig, ModelFile::SpecialTokens, ModelFile::TemplateJson, ModelFile::Template];

    /// All of them, in order.
    pub const ALL: [ModelFile; 7] = [
        ModelFile::Config,
        ModelFile::TokenizerConfig,
        ModelFile::SpecialTokens,
        ModelFile::AddedTokens,
        ModelFile::Tokenizer,
        ModelFile::TemplateJson,
        ModelFile::Template,
    ];

    /// What it is called in the folder.
    pub fn name(self) -> &'static str {
        match self {
            ModelFile::Config => "config.json",
            ModelFile::TokenizerConfig => "tokenizer_config.json",
            ModelFile::SpecialTokens => "special_tokens_map.json",
            ModelFile::AddedTokens => "added_tokens.json",
            ModelFile::Tokenizer => "tokenizer.json",
            ModelFile::TemplateJson => "chat_template.json",
            ModelFile::Template => "chat_template.jinja",
        }
    }
}

impl ModelFolder {
    /// Takes in what a file says.
    pub fn read(&mut self, file: ModelFile, text: &str) -> Result<(), Damage> {
        self.files.push(file.name());
        match file {
            ModelFile::Template => {
                self.templates.take_file(NamedTemplate::of_file(DEFAULT, text.to_owned(), file.name()));
            }
            ModelFile::TemplateJson => self.templates.take_templates(file.name(), &object_of(text)?)?,
            ModelFile::TokenizerConfig => self.read_tokenizer_config(&object_of(text)?)?,
            ModelFile::SpecialTokens => {
                let object = object_of(text)?;
                self.templates.take_map_tokens(&object)?;
                self.tokens.extend(object.iter().flat_map(|(_, value)| tokens_in(value)));
            }
            ModelFile::AddedTokens => {
                self.tokens.extend(object_of(text)?.iter().map(|(token, _)| token.to_owned()));
                self.has_all_tokens = true;
            }
            ModelFile::Tokenizer => self.read_added_tokens(text)?,
            ModelFile::Config => self.read_config(&object_of(text)?)?,
        }
        Ok(())
    }

    /// Takes in a template of the folder `additional_chat_templates`, by its name; these come behind all files.
    pub fn read_named_template(&mut self, name: &str, text: &str) {
        let file = format!("{NAMED_TEMPLATES}/{name}.jinja");
        self.templates.take_file(NamedTemplate::of_file(name, text.to_owned(), file));
    }

    /// The chat template that is recognised: of several the default one, else the first.
    pub fn template(&self) -> Option<&str> {
        let templates = &self.templates.templates;
        let chosen = templates.iter().find(|template| template.name == DEFAULT).or(templates.first());
        chosen.map(|template| template.source.as_str())
    }

    fn read_tokenizer_config(&mut self, object: &Object) -> Result<(), Damage> {
        self.templates.take_templates(ModelFile::TokenizerConfig.name(), object)?;
        self.templates.take_config_tokens(object)?;
        let named = ["bos_token", "eos_token", "pad_token", "unk_token", "additional_special_tokens"];
        self.tokens.extend(named.iter().filter_map(|key| object.get(key)).flat_map(tokens_in));
        if let Some(added) =
            object.get("added_tokens_decoder").and_then(Json::as_object).filter(|added| !added.is_empty())
        {
            self.tokens.extend(added.iter().flat_map(|(_, value)| tokens_in(value)));
            self.has_all_tokens = true;
        }
        Ok(())
    }

    /// The list of added tokens alone: the vocabulary behind it may be large.
    fn read_added_tokens(&mut self, text: &str) -> Result<(), Damage> {
        if !text.trim_start().starts_with('{') {
            object_of(text)?;
        }
        if let Some(place) = span(text, &[Step::Key("added_tokens")]) {
            let added =
                json::parse(&text[place.clone()]).map_err(|error| Damage::NotJson(moved(error, text, place.start)))?;
            self.tokens.extend(tokens_in(&added));
            self.has_all_tokens = true;
        }
        Ok(())
    }

    fn read_config(&mut self, object: &Object) -> Result<(), Damage> {
        match object.get("architectures") {
            None | Some(Json::Null) => {}
            Some(Json::Array(names)) => {
                self.architectures = names.iter().filter_map(Json::as_str).map(str::to_owned).collect()
            }
            Some(other) => {
                return Err(Damage::WrongType {
                    field: "architectures",
                    expected: "a list of names",
                    found: other.kind(),
                });
            }
        }
        let origin = object.get("_name_or_path").and_then(Json::as_str);
        self.made_from = origin.filter(|origin| !origin.is_empty()).map(str::to_owned);
        Ok(())
    }
}

fn object_of(text: &str) -> Result<Object, Damage> {
    match json::parse(text).map_err(Damage::NotJson)? {
        Json::Object(object) => Ok(object),
        other => Err(Damage::WrongType { field: "", expected: "an object", found: other.kind() }),
    }
}

/// Tokens as tokenizer files write them: a text, an object with its `content`, or a list of these.
fn tokens_in(value: &Json) -> Vec<String> {
    match value {
        Json::Array(items) => items.iter().flat_map(tokens_in).collect(),
        one => token_of(one).map(str::to_owned).into_iter().collect(),
    }
}

/// The error of a part, with its place in the whole text.
fn moved(error: json::ParseError, text: &str, by: usize) -> json::ParseError {
    let offset = (by + error.offset).min(text.len());
    let before = &text[..offset];
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    json::ParseError {
        offset,
        line: before.matches('\n').count() + 1,
        column: before[line_start..].chars().count() + 1,
        message: error.message,
        is_key_twice: error.is_key_twice,
    }
}
