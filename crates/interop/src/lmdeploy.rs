//! LMDeploy's chat templates: parts that stand around each message, as its `--chat-template` JSON names them.

use std::sync::Arc;

use rolecall_format::{
    Choice, Codec, Defaults, EndingRule, Field, Format, Generation, LoadError, Op, Own, Rules, Slot, SystemWhen,
};

use crate::braces::{hole, literal};
use crate::fields::File;
use crate::framework::{Framework, Importer};
use crate::own;

/// LMDeploy.
pub(crate) const FRAMEWORK: Framework = Framework {
    name: "lmdeploy",
    formats: registry::builtin_formats,
    dialect: registry::dialect,
    importer: Some(Importer {
        sign: "LMDeploy's `model_name`",
        is_template: |fields| is_template(fields.keys()),
        import: |text, name| {
            let mut format = read(text, builtin)?.into_format(name);
            // The built-in template keeps its names.
            format.aliases.clear();
            Ok(format)
        },
    }),
};

mod config;
mod registry;

pub use config::Config;
pub(crate) use config::is_template;

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
    /// Whether a gap's suffix comes before its prefix, if nothing else is said.
    pub suffix_first: bool,
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
    /// What stands before the prefix, between it and the suffix, and behind that.
    pub pieces: [String; 3],
    /// The same where the suffix comes first.
    pub suffix_first: [String; 3],
    /// Texts to stop at.
    pub stop_words: Vec<String>,
}

/// Reads a chat template over the registered one of the same name, if there is one: a field that is null or missing
/// keeps the registered value.
pub fn read(text: &str, registered: impl Fn(&str) -> Option<Template>) -> Result<Template, LoadError> {
    let file = File::parse(text)?;
    let fields = file.fields();
    let config = Config::read(&fields);
    let registered = registered(&config.model_name);
    config.check(&fields, registered.as_ref().and_then(|registered| registered.builtin.infill.as_ref()));
    drop(fields);
    file.finish(config.over(registered))
}

/// A registered template by any of its names, the framework's own name before the colon left out.
pub fn builtin(name: &str) -> Option<Template> {
    let known = |template: &&Template| {
        template.model_name == name || template.builtin.aliases.iter().any(|alias| alias == name)
    };
    registry::LMDEPLOY.templates.iter().find(known).cloned()
}

/// The template that the framework takes for a model's path: by words in it, in its own order.
///
/// ```
/// use rolecall_interop::lmdeploy::match_path;
/// assert_eq!(match_path("internlm/internlm-chat-7b-8k"), None);
/// assert_eq!(match_path("/models/Qwen-7B"), Some("qwen"));
/// ```
pub fn match_path(path: &str) -> Option<&'static str> {
    registry::lmdeploy_match(path)
}

impl Template {
    /// A template of which nothing but the name is known.
    pub fn named(name: &str) -> Template {
        // LMDeploy: the length of every template that says no other.
        let generation = Generation { session_len: Some(2048), ..Generation::default() };
        Template {
            model_name: name.to_owned(),
            meta_instruction: Some(String::new()),
            builtin: Builtin { generation, ..Builtin::default() },
            ..Template::default()
        }
    }

    /// What the model is asked for, if nothing else is said.
    pub fn capability(&self) -> &str {
        self.capability.as_deref().unwrap_or("chat")
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
        format.choices.extend(self.builtin.infill.is_some().then(|| self.order_choice()));
        format.defaults = Defaults {
            system: self.meta_instruction.clone().filter(|_| self.builtin.kind == Kind::Parts),
            system_when: SystemWhen::NotFirst,
            gap: self.builtin.infill.as_ref().map(|infill| infill.gap.clone()),
            ..Defaults::default()
        };
        format.generation = Arc::new(Generation {
            stop: self.stop_words.clone().unwrap_or_default(),
            infill_stop: match (&self.stop_words, &self.builtin.infill) {
                (Some(words), Some(_)) => words.clone(),
                (None, Some(infill)) => infill.stop_words.clone(),
                (_, None) => Vec::new(),
            },
            ..self.builtin.generation.clone()
        });
        format.with_layouts(self.layouts())
    }

    fn capability_choice(&self) -> Choice {
        let known = config::CAPABILITIES.map(str::to_owned).to_vec();
        // The reference takes any word for a chat, but where a gap can be filled.
        let (values, usual) = if self.builtin.infill.is_some() { (known, Vec::new()) } else { (Vec::new(), known) };
        Choice {
            name: "capability".into(),
            default: self.capability().to_owned(),
            values,
            usual,
            help: "what the model is asked for: `chat`, `completion`, `infilling` or `python`".into(),
        }
    }

    fn order_choice(&self) -> Choice {
        Choice {
            name: "suffix_first".into(),
            default: self.suffix_first.to_string(),
            values: vec!["false".into(), "true".into()],
            help: "where a gap is filled: whether the text behind the gap comes before the text in front of it".into(),
            ..Choice::default()
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
        if let Some(infill) = &self.builtin.infill {
            layouts.push((Slot::Python, vec![Op::Own(Own::Bos), content()]));
            layouts.push((Slot::Infill, gap(&infill.pieces, Field::Prefix, Field::Suffix)));
            layouts.push((Slot::InfillSuffixFirst, gap(&infill.suffix_first, Field::Suffix, Field::Prefix)));
        }
        layouts
    }
}

/// Two texts between three pieces.
fn gap([before, between, behind]: &[String; 3], first: Field, second: Field) -> Vec<Op> {
    let ops = [
        Some(Op::Own(Own::Bos)),
        literal(before),
        Some(hole(first)),
        literal(between),
        Some(hole(second)),
        literal(behind),
    ];
    ops.into_iter().flatten().collect()
}

fn round_mark() -> Vec<Op> {
    vec![Op::Literal("[Round ".into()), hole(Field::Round), Op::Literal("]\n\n".into())]
}
