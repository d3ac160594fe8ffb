//! LMDeploy's chat templates: parts that stand around each message, as its `--chat-template` JSON names them.

use std::sync::Arc;

use rolecall_conversation::{Json, json, object};
use rolecall_format::{
    Choice, Codec, Defaults, EndingRule, Field, Format, Generation, LoadError, Op, Own, Rules, Slot, SystemWhen,
};

use crate::braces::{hole, literal};
use crate::builtin::LMDEPLOY;
use crate::dialects;
use crate::fields::{Fields, File};
use crate::own;

const FIELDS: [&str; 11] = [
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
];

/// What the model can be asked for.
const CAPABILITIES: [&str; 4] = ["completion", "infilling", "chat", "python"];

/// Whether a file's fields are a chat template's.
pub(crate) fn is_template<'k>(mut keys: impl Iterator<Item = &'k str>) -> bool {
    keys.any(|key| FIELDS.contains(&key))
}

/// A chat template: a part that is not given is empty.
///
/// ```
/// use rolecall_interop::lmdeploy::Template;
/// let mut template = Template::named("mine");
/// template.user = "U:".into();
/// template.assistant = "A:".into();
/// let format = template.into_format("lmdeploy:mine");
/// assert!(format.layout(rolecall_format::Slot::User).is_some());
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Template {
    /// How it is asked for.
    pub model_name: String,
    /// Before a system text.
    pub system: String,
    /// The system text where there is none; none and an empty one differ.
    pub meta_instruction: Option<String>,
    /// Behind a system text.
    pub eosys: String,
    /// Before a user's text.
    pub user: String,
    /// Behind a user's text.
    pub eoh: String,
    /// Before an answer, and at the end of every prompt.
    pub assistant: String,
    /// Behind an answer: the model writes it.
    pub eoa: String,
    /// Between an answer and what comes next.
    pub separator: String,
    /// What the model is asked for, if nothing else is said.
    pub capability: Option<String>,
    /// Texts to stop at.
    pub stop_words: Option<Vec<String>>,
    /// What the JSON cannot say and the registered templates have.
    pub builtin: Builtin,
}

/// What only registered templates have.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Builtin {
    /// Other names.
    pub aliases: Vec<String>,
    /// How messages are put together.
    pub kind: Kind,
    /// How the model speaks, as the framework's document has it.
    pub generation: Generation,
    /// How a gap is filled.
    pub infill: Option<Infill>,
    /// Whether white space at the ends of a user's text is taken off.
    pub trims: bool,
    /// The tokens that open a text.
    pub bos: Vec<String>,
    /// Where the facts are from.
    pub sources: Vec<(String, String)>,
}

/// How a registered template puts messages together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// By its parts.
    #[default]
    Parts,
    /// By its parts, user turns numbered and no system text.
    Rounds,
    /// Not at all: the text goes to the model as it is.
    Text,
}

/// How a text with a gap is put.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Infill {
    /// What marks the gap.
    pub gap: String,
    /// What stands before the text, around the gap and behind it, in three pieces.
    pub pieces: [String; 3],
    /// Texts to stop at.
    pub stop_words: Vec<String>,
}

/// Reads a chat template over the built-in one of the same name, if there is one: a field that is null or missing
/// keeps the built-in value.
pub fn read(text: &str, builtin: impl Fn(&str) -> Option<Template>) -> Result<Template, LoadError> {
    let file = File::parse(text)?;
    let template = read_fields(&file.fields(), builtin);
    file.finish(template)
}

/// A registered template by any of its names, the framework's own name before the colon left out.
pub fn builtin(name: &str) -> Option<Template> {
    let known = |template: &&Template| {
        template.model_name == name || template.builtin.aliases.iter().any(|alias| alias == name)
    };
    LMDEPLOY.templates.iter().find(known).cloned()
}

/// The template that the framework takes for a model's path: by words in it, in its own order.
///
/// ```
/// use rolecall_interop::lmdeploy::match_path;
/// assert_eq!(match_path("internlm/internlm-chat-7b-8k"), None);
/// assert_eq!(match_path("/models/Qwen-7B"), Some("qwen"));
/// ```
pub fn match_path(path: &str) -> Option<&'static str> {
    dialects::lmdeploy_match(path)
}

fn read_fields(fields: &Fields<'_, '_>, builtin: impl Fn(&str) -> Option<Template>) -> Template {
    fields.refuse_others(&FIELDS);
    let name = fields.needed("model_name").map(|written| written.text).unwrap_or_default();
    let mut template = builtin(&name).unwrap_or_else(|| Template::named(&name));
    template.model_name = name;
    let part = |part: &mut String, key| {
        if let Some(text) = fields.text(key) {
            *part = text;
        }
    };
    part(&mut template.system, "system");
    part(&mut template.eosys, "eosys");
    part(&mut template.user, "user");
    part(&mut template.eoh, "eoh");
    part(&mut template.assistant, "assistant");
    part(&mut template.eoa, "eoa");
    part(&mut template.separator, "separator");
    if let Some(text) = fields.text("meta_instruction") {
        template.meta_instruction = Some(text);
    }
    if let Some(capability) = fields.text("capability") {
        if !CAPABILITIES.contains(&capability.as_str()) {
            let message = format!("`{capability}` is not a capability");
            let help = format!("use one of {}", CAPABILITIES.map(|name| format!("`{name}`")).join(", "));
            fields.report("unknown_name", message, fields.span("capability"), help);
        }
        template.capability = Some(capability);
    }
    if let Some(words) = fields.texts("stop_words") {
        template.stop_words = Some(words);
    } else if let ("infilling", Some(infill)) = (template.capability(), &template.builtin.infill) {
        template.stop_words = Some(infill.stop_words.clone());
    }
    template
}

impl Template {
    /// A template of which nothing but the name is known.
    pub fn named(name: &str) -> Template {
        Template { model_name: name.to_owned(), meta_instruction: Some(String::new()), ..Template::default() }
    }

    /// What the model is asked for, if nothing else is said.
    pub fn capability(&self) -> &str {
        self.capability.as_deref().unwrap_or("chat")
    }

    /// The template as the framework writes it to a file.
    pub fn to_json(&self) -> String {
        let text = |text: &str| Json::from(text);
        let optional = |text: &Option<String>| text.as_deref().map_or(Json::Null, Json::from);
        let stop = self.stop_words.as_ref();
        let stop = stop.map(|words| Json::Array(words.iter().map(|word| Json::from(word.as_str())).collect()));
        let object = object! {
            "model_name" => text(&self.model_name),
            "system" => text(&self.system),
            "meta_instruction" => optional(&self.meta_instruction),
            "eosys" => text(&self.eosys),
            "user" => text(&self.user),
            "eoh" => text(&self.eoh),
            "assistant" => text(&self.assistant),
            "eoa" => text(&self.eoa),
            "separator" => text(&self.separator),
            "capability" => text(self.capability()),
            "stop_words" => stop.unwrap_or(Json::Null),
        };
        json::write(&Json::Object(object), &json::Layout::indented(4))
    }

    /// The format that it describes.
    pub fn into_format(self, name: &str) -> Format {
        let mut format = Format::new(name);
        format.title = format!("{} as LMDeploy writes it", self.model_name);
        format.aliases = self.builtin.aliases.clone();
        format.sources = self.builtin.sources.clone();
        format.controls = own::controls(&self.builtin.bos, None).into();
        let ending = if self.builtin.kind == Kind::Parts { EndingRule::Reopened } else { EndingRule::Closed };
        format.rules = Rules { ending, ..Rules::default() };
        // The reference knows no other roles, or passes them over.
        let passed_over = ["tool", "environment", "observation", "function"].map(str::to_owned);
        let others = if self.builtin.kind == Kind::Rounds { passed_over.to_vec() } else { Vec::new() };
        format.roles.push(("tool".into(), others));
        format.choices.push(self.capability_choice());
        format.defaults = Defaults {
            system: self.meta_instruction.clone().filter(|_| self.builtin.kind == Kind::Parts),
            system_when: SystemWhen::NotFirst,
            gap: self.builtin.infill.as_ref().map(|infill| infill.gap.clone()),
            ..Defaults::default()
        };
        format.generation = Arc::new(Generation {
            stop: self.stop_words.clone().unwrap_or_default(),
            infill_stop: self.builtin.infill.as_ref().map(|infill| infill.stop_words.clone()).unwrap_or_default(),
            ..self.builtin.generation.clone()
        });
        format.with_layouts(self.layouts())
    }

    fn capability_choice(&self) -> Choice {
        // The reference takes any word for a chat, but where a gap can be filled.
        let closed = self.builtin.infill.is_some();
        Choice {
            name: "capability".into(),
            default: self.capability().to_owned(),
            values: if closed { CAPABILITIES.map(str::to_owned).to_vec() } else { Vec::new() },
            help: "what the model is asked for: `chat`, `completion`, `infilling` or `python`".into(),
        }
    }

    fn layouts(&self) -> Vec<(Slot, Vec<Op>)> {
        let around = |before: &str, behind: &str, content: Op| -> Vec<Op> {
            literal(before).into_iter().chain([content]).chain(literal(behind)).collect()
        };
        let content = || hole(Field::Content);
        let users = || match self.builtin.trims {
            true => Op::hole(Field::Content, Codec::Trim),
            false => content(),
        };
        let mut layouts = vec![(Slot::Begin, vec![Op::Own(Own::Bos)])];
        if self.builtin.kind != Kind::Rounds {
            layouts.push((Slot::Completion, vec![Op::Own(Own::Bos), content()]));
        }
        match self.builtin.kind {
            Kind::Text => layouts.extend([
                (Slot::System, vec![content()]),
                (Slot::User, vec![content()]),
                (Slot::Assistant, vec![content()]),
                (Slot::Generate, Vec::new()),
            ]),
            Kind::Rounds => layouts.extend([
                (
                    Slot::User,
                    [round_mark(), around(&self.user, &format!("{}{}", self.eoh, self.assistant), content())].concat(),
                ),
                (Slot::Assistant, vec![content()]),
                // The user's turn opens the answer.
                (Slot::Generate, Vec::new()),
            ]),
            Kind::Parts => layouts.extend([
                (Slot::System, around(&self.system, &self.eosys, content())),
                (Slot::User, around(&self.user, &self.eoh, users())),
                (Slot::Assistant, around(&self.assistant, &self.eoa, content())),
                (Slot::AssistantAfter, literal(&self.separator).into_iter().collect()),
                (Slot::Generate, literal(&self.assistant).into_iter().collect()),
            ]),
        }
        if let Some(Infill { pieces: [before, around, behind], .. }) = &self.builtin.infill {
            let ops = [
                Some(Op::Own(Own::Bos)),
                literal(before),
                Some(hole(Field::Prefix)),
                literal(around),
                Some(hole(Field::Suffix)),
                literal(behind),
            ];
            layouts.push((Slot::Python, vec![Op::Own(Own::Bos), content()]));
            layouts.push((Slot::Infill, ops.into_iter().flatten().collect()));
        }
        layouts
    }
}

fn round_mark() -> Vec<Op> {
    vec![Op::Literal("[Round ".into()), hole(Field::Round), Op::Literal("]\n\n".into())]
}
