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

/// What the model can be asked for.
pub(super) const CAPABILITIES: [&str; 4] = ["completion", "infilling", "chat", "python"];

/// Whether a file's fields are a chat template's.
pub(crate) fn is_template<'k>(mut keys: impl Iterator<Item = &'k str>) -> bool {
    keys.any(|key| FIELDS.contains(&key))
}

/// A chat template as its file has it: what the file does not give is none.
///
/// ```
/// use rolecall_interop::lmdeploy::Config;
/// let config = Config::parse(r#"{"model_name": "internlm2", "meta_instruction": "You are Bob."}"#)?;
/// assert!(config.to_json().contains(r#""system": null"#));
/// # Ok::<(), rolecall_format::LoadError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// How the template is asked for.
    pub model_name: String,
    /// Before a system text.
    pub system: Option<String>,
    /// The system text where there is none.
    pub meta_instruction: Option<String>,
    /// Behind a system text.
    pub eosys: Option<String>,
    /// Before a user's text.
    pub user: Option<String>,
    /// Behind a user's text.
    pub eoh: Option<String>,
    /// Before an answer.
    pub assistant: Option<String>,
    /// Behind an answer.
    pub eoa: Option<String>,
    /// Between an answer and what comes next.
    pub separator: Option<String>,
    /// What the model is asked for.
    pub capability: Option<String>,
    /// Texts to stop at.
    pub stop_words: Option<Vec<String>>,
    /// Session length and sampling, which the framework's document makes part of a template. Texts to stop at are above.
    pub generation: Generation,
    /// Whether a gap's suffix comes before its prefix.
    pub suffix_first: Option<bool>,
}

impl Config {
    /// Reads a file.
    pub fn parse(text: &str) -> Result<Config, rolecall_format::LoadError> {
        let file = crate::fields::File::parse(text)?;
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

    /// Reports what the registered template of the same name does not take.
    pub(super) fn check(&self, fields: &Fields<'_, '_>, infill: Option<&Infill>) {
        // The reference takes any word for a chat, but where a gap can be filled.
        if let (Some(capability), Some(_)) = (&self.capability, infill)
            && !CAPABILITIES.contains(&capability.as_str())
        {
            let message = format!("`{capability}` is not a capability");
            let help = format!("use one of {}", CAPABILITIES.map(|name| format!("`{name}`")).join(", "));
            fields.report("unknown_name", message, fields.span("capability"), help);
        }
        if self.suffix_first.is_some() && infill.is_none() {
            let message = format!("`{}` fills no gap, so it has no `suffix_first`", self.model_name);
            let help = "take it out, or name a registered template that fills gaps";
            fields.report("unknown_key", message, fields.span("suffix_first"), help.into());
        }
    }

    /// The template: what is not given is as the registered one of the same name has it, or empty.
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

    /// The file's text as the framework writes it: null stands for what is not given. The fields that the released
    /// framework does not have are written only where they are given.
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
