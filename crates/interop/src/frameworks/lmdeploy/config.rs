use rolecall_conversation::json::{self, Layout, Object};
use rolecall_conversation::{Json, object};
use rolecall_format::Generation;

use super::{Infill, Template};
use crate::fields::Fields;

const FIELDS: [&str; 17] = [
    "model_name",
    "system",
    "meta_instruction",
    "eosys",
    "user",
    "eoh",
    "assistant",
    "eoa",
    "separator",
    "capability",
    "stop_words",
    "session_len",
    "top_p",
    "top_k",
    "temperature",
    "repetition_penalty",
    "suffix_first",
];

/// The known capabilities: the tasks that a prompt can request.
pub(super) const CAPABILITIES: [&str; 4] = ["completion", "infilling", "chat", "python"];

/// Reports whether a file with these fields is a chat template.
pub(crate) fn is_template<'k>(mut keys: impl Iterator<Item = &'k str>) -> bool {
    keys.any(|key| FIELDS.contains(&key))
}

/// A chat template file. A field that the file does not set is `None`.
///
/// ```
/// use rolecall_interop::lmdeploy::Config;
/// let config = Config::parse(r#"{"model_name": "internlm2", "meta_instruction": "You are Bob."}"#)?;
/// assert!(config.to_json().contains(r#""system": null"#));
/// # Ok::<(), rolecall_format::LoadError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// The template's name.
    pub model_name: String,
    /// The text before a system text.
    pub system: Option<String>,
    /// The default system text.
    pub meta_instruction: Option<String>,
    /// The text after a system text.
    pub eosys: Option<String>,
    /// The text before a user's text.
    pub user: Option<String>,
    /// The text after a user's text.
    pub eoh: Option<String>,
    /// The text before an answer.
    pub assistant: Option<String>,
    /// The text after an answer.
    pub eoa: Option<String>,
    /// The text between an answer and the next turn.
    pub separator: Option<String>,
    /// The default task: `chat`, `completion`, `infilling` or `python`.
    pub capability: Option<String>,
    /// The stop texts.
    pub stop_words: Option<Vec<String>>,
    /// The session length and sampling parameters, which are part of a template in LMDeploy's
    /// documentation. Stop texts are in `stop_words`.
    pub generation: Generation,
    /// Whether infilling puts the suffix before the prefix.
    pub suffix_first: Option<bool>,
}

impl Config {
    /// Parses a file.
    pub fn parse(text: &str) -> Result<Config, rolecall_format::LoadError> {
        let file = crate::fields::FrameworkFile::parse(text)?;
        let config = Config::read(&file.fields());
        file.finish(config)
    }

    pub(super) fn read(fields: &Fields<'_, '_>) -> Config {
        fields.refuse_others(&FIELDS);
        Config {
            model_name: fields.needed("model_name").map(|written| written.text).unwrap_or_default(),
            system: fields.text("system"),
            meta_instruction: fields.text("meta_instruction"),
            eosys: fields.text("eosys"),
            user: fields.text("user"),
            eoh: fields.text("eoh"),
            assistant: fields.text("assistant"),
            eoa: fields.text("eoa"),
            separator: fields.text("separator"),
            capability: fields.text("capability"),
            stop_words: fields.texts("stop_words"),
            generation: Generation {
                session_len: fields.whole("session_len"),
                top_p: fields.number("top_p"),
                top_k: fields.whole("top_k"),
                temperature: fields.number("temperature"),
                repetition_penalty: fields.number("repetition_penalty"),
                ..Generation::default()
            },
            suffix_first: fields.has("suffix_first").then(|| fields.boolean("suffix_first")),
        }
    }

    /// Reports fields that the registered template with the same name does not accept.
    pub(super) fn check(&self, fields: &Fields<'_, '_>, infill: Option<&Infill>) {
        // LMDeploy treats any other word as `chat`, except in templates that support infilling.
        if let (Some(capability), Some(_)) = (&self.capability, infill)
            && !CAPABILITIES.contains(&capability.as_str())
        {
            let message = format!("unknown capability `{capability}`");
            let help = format!("use one of {}", CAPABILITIES.map(|name| format!("`{name}`")).join(", "));
            fields.report("unknown_name", message, fields.span("capability"), help);
        }
        if self.suffix_first.is_some() && infill.is_none() {
            let message = format!("`{}` does not support infilling, so it has no `suffix_first`", self.model_name);
            let help = "remove it, or name a registered template that supports infilling";
            fields.report("unknown_key", message, fields.span("suffix_first"), help.into());
        }
    }

    /// Returns the template. Fields that are not set come from the registered template or, if there
    /// is none, from [`Template::named`].
    pub fn over(self, registered: Option<Template>) -> Template {
        let mut template = registered.unwrap_or_else(|| Template::named(&self.model_name));
        let parts = [
            (&mut template.system, self.system),
            (&mut template.eosys, self.eosys),
            (&mut template.user, self.user),
            (&mut template.eoh, self.eoh),
            (&mut template.assistant, self.assistant),
            (&mut template.eoa, self.eoa),
            (&mut template.separator, self.separator),
        ];
        for (part, given) in parts {
            if let Some(text) = given {
                *part = text;
            }
        }
        template.model_name = self.model_name;
        template.meta_instruction = self.meta_instruction.or(template.meta_instruction);
        template.capability = self.capability.or(template.capability);
        template.suffix_first = self.suffix_first.unwrap_or(template.suffix_first);
        template.stop_words = self.stop_words.or(template.stop_words);
        if let ("infilling", Some(infill), None) =
            (template.capability(), &template.builtin.infill, &template.stop_words)
        {
            template.stop_words = Some(infill.stop_words.clone());
        }
        let (given, generation) = (self.generation, &mut template.builtin.generation);
        generation.session_len = given.session_len.or(generation.session_len);
        generation.top_p = given.top_p.or(generation.top_p);
        generation.top_k = given.top_k.or(generation.top_k);
        generation.temperature = given.temperature.or(generation.temperature);
        generation.repetition_penalty = given.repetition_penalty.or(generation.repetition_penalty);
        template
    }

    /// Returns the file's text as LMDeploy writes it: a field that is not set is null. Fields that
    /// the released LMDeploy does not have are left out unless they are set.
    pub fn to_json(&self) -> String {
        let text = |text: &Option<String>| text.as_deref().map_or(Json::Null, Json::from);
        let stop = self.stop_words.as_ref();
        let stop = stop.map(|words| Json::Array(words.iter().map(|word| Json::from(word.as_str())).collect()));
        let mut object = object! {
            "model_name" => self.model_name.as_str(),
            "system" => text(&self.system),
            "meta_instruction" => text(&self.meta_instruction),
            "eosys" => text(&self.eosys),
            "user" => text(&self.user),
            "eoh" => text(&self.eoh),
            "assistant" => text(&self.assistant),
            "eoa" => text(&self.eoa),
            "separator" => text(&self.separator),
            "capability" => text(&self.capability),
            "stop_words" => stop.unwrap_or(Json::Null),
        };
        self.insert_rest(&mut object);
        json::write(&Json::Object(object), &Layout::indented(4))
    }

    fn insert_rest(&self, object: &mut Object) {
        let whole = |number: u64| i64::try_from(number).ok().map(Json::from);
        let real = |number: f64| json::parse(&format!("{number:?}")).ok();
        let rest = [
            ("session_len", self.generation.session_len.and_then(whole)),
            ("top_p", self.generation.top_p.and_then(real)),
            ("top_k", self.generation.top_k.and_then(whole)),
            ("temperature", self.generation.temperature.and_then(real)),
            ("repetition_penalty", self.generation.repetition_penalty.and_then(real)),
            ("suffix_first", self.suffix_first.map(Json::from)),
        ];
        for (key, value) in rest {
            if let Some(value) = value {
                object.insert(key, value);
            }
        }
    }
}
