use rolecall_conversation::Json;
use rolecall_conversation::json::{self, Object, Step, span};

use crate::damage::Damage;
use crate::template::{DEFAULT, ModelTemplates, NamedTemplate, token_of};

/// The subfolder of a model's folder that holds its named templates.
pub(crate) const NAMED_TEMPLATES: &str = "additional_chat_templates";

/// What the files of a model's folder reveal about the format that the model needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelFolder {
    /// The chat templates, and the special tokens that they may name.
    pub templates: ModelTemplates,
    /// The added tokens of the tokenizer.
    pub tokens: Vec<String>,
    /// Whether `tokens` is known to be complete.
    pub has_all_tokens: bool,
    /// The architectures that the config names.
    pub architectures: Vec<String>,
    /// The model that the config was made from.
    pub made_from: Option<String>,
    /// The names of the files that were read.
    pub files: Vec<&'static str>,
}

/// A file that helps to identify a model. Files are read in the order of the variants; a later
/// file's chat templates override those of earlier files.
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
    /// `tokenizer.json`, of which only the added tokens are read.
    Tokenizer,
    /// `chat_template.json`
    TemplateJson,
    /// `chat_template.jinja`
    Template,
}

impl ModelFile {
    /// The files that hold chat templates and the tokens that they may name, in order.
    pub const OF_TEMPLATES: [ModelFile; 4] =
        [ModelFile::TokenizerConfig, ModelFile::SpecialTokens, ModelFile::TemplateJson, ModelFile::Template];

    /// All files, in order.
    pub const ALL: [ModelFile; 7] = [
        ModelFile::Config,
        ModelFile::TokenizerConfig,
        ModelFile::SpecialTokens,
        ModelFile::AddedTokens,
        ModelFile::Tokenizer,
        ModelFile::TemplateJson,
        ModelFile::Template,
    ];

    /// Returns the file name.
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
    /// Reads the contents of a file.
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

    /// Reads a template of the folder `additional_chat_templates`, by its name. These are read
    /// after all files.
    pub fn read_named_template(&mut self, name: &str, text: &str) {
        let file = format!("{NAMED_TEMPLATES}/{name}.jinja");
        self.templates.take_file(NamedTemplate::of_file(name, text.to_owned(), file));
    }

    /// Returns the chat template that is used for recognition: the default one if there is one,
    /// else the first.
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

    /// Reads only the list of added tokens, because the vocabulary after it may be large.
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

/// Returns the tokens of a value as tokenizer files write them: a string, an object with a
/// `content`, or a list of these.
fn tokens_in(value: &Json) -> Vec<String> {
    match value {
        Json::Array(items) => items.iter().flat_map(tokens_in).collect(),
        one => token_of(one).map(str::to_owned).into_iter().collect(),
    }
}

/// Translates the error of a part to a place in the whole text.
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
