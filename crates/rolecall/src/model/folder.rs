use rolecall_conversation::Json;
use rolecall_conversation::json::{self, Object, Step, span};

use super::error::Damage;

/// What the files of a model's folder say about the format it needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelFolder {
    /// Its chat template.
    pub template: Option<String>,
    /// Tokens beside the learned vocabulary.
    pub tokens: Vec<String>,
    /// Whether these are all of them.
    pub has_all_tokens: bool,
    /// The token that opens a prompt.
    pub bos: Option<String>,
    /// The token that closes a text.
    pub eos: Option<String>,
    /// What its code is called.
    pub architectures: Vec<String>,
    /// The model that its config was made from.
    pub made_from: Option<String>,
    /// Names of the files that were read.
    pub files: Vec<&'static str>,
}

/// A file that tells a model, in the order in which they are read: of two chat templates the later one counts.
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
            ModelFile::Template => self.template = Some(text.to_owned()),
            ModelFile::TemplateJson => self.read_template(&object_of(text)?)?,
            ModelFile::TokenizerConfig => self.read_tokenizer_config(&object_of(text)?)?,
            ModelFile::SpecialTokens => {
                self.tokens.extend(object_of(text)?.iter().flat_map(|(_, value)| tokens_in(value)))
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

    /// `chat_template`: a text, or a list of named ones, of which the default one counts.
    fn read_template(&mut self, object: &Object) -> Result<(), Damage> {
        match object.get("chat_template") {
            None | Some(Json::Null) => {}
            Some(Json::String(text)) => self.template = Some(text.clone()),
            Some(Json::Array(named)) => {
                let field = |one: &Json, key: &str| Some(one.as_object()?.get(key)?.as_str()?.to_owned());
                let default = named.iter().find(|one| field(one, "name").as_deref() == Some("default"));
                self.template =
                    default.or(named.first()).and_then(|one| field(one, "template")).or(self.template.take());
            }
            Some(other) => {
                let expected = "a string or a list of named templates";
                return Err(Damage::WrongType { field: "chat_template", expected, found: other.kind() });
            }
        }
        Ok(())
    }

    fn read_tokenizer_config(&mut self, object: &Object) -> Result<(), Damage> {
        self.read_template(object)?;
        let named = ["bos_token", "eos_token", "pad_token", "unk_token", "additional_special_tokens"];
        self.tokens.extend(named.iter().filter_map(|key| object.get(key)).flat_map(tokens_in));
        self.bos = object.get("bos_token").and_then(|value| tokens_in(value).pop());
        self.eos = object.get("eos_token").and_then(|value| tokens_in(value).pop());
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
        Json::String(text) => vec![text.clone()],
        Json::Object(object) => object.get("content").and_then(Json::as_str).map(str::to_owned).into_iter().collect(),
        Json::Array(items) => items.iter().flat_map(tokens_in).collect(),
        _ => Vec::new(),
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
    }
}
