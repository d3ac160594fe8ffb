//! LMDeploy's chat templates: texts placed around each message, in the JSON format of its
//! `--chat-template` option.

use std::sync::Arc;

use rolecall_format::{
    BoundaryToken, Choice, Codec, Defaults, EndingRule, Field, Format, Generation, LoadError, Op, Rules, Slot,
    SystemWhen,
};

use crate::braces::{hole, literal};
use crate::fields::FrameworkFile;
use crate::framework::{Framework, Importer};
use crate::own;

/// LMDeploy's row in the table of frameworks.
pub(crate) const FRAMEWORK: Framework = Framework {
    name: "lmdeploy",
    formats: registry::builtin_formats,
    dialect: registry::dialect,
    importer: Some(Importer {
        sign: "LMDeploy's `model_name`",
        is_template: |fields| is_template(fields.keys()),
        import: |text, name| {
            let mut format = read(text, builtin)?.into_format(name);
            // The aliases stay with the registered template.
            format.aliases.clear();
            Ok(format)
        },
    }),
};

mod config;
mod registry;

pub use config::Config;
pub(crate) use config::is_template;

/// A chat template. A part that is not set is empty.
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
    /// The template's name.
    pub model_name: String,
    /// The text before a system text.
    pub system: String,
    /// The default system text. `None` adds no system turn; an empty text adds an empty one.
    pub meta_instruction: Option<String>,
    /// The text after a system text.
    pub eosys: String,
    /// The text before a user's text.
    pub user: String,
    /// The text after a user's text.
    pub eoh: String,
    /// The text before an answer and at the end of every prompt.
    pub assistant: String,
    /// The text after an answer, which the model generates.
    pub eoa: String,
    /// The text between an answer and the next turn.
    pub separator: String,
    /// The default task: `chat`, `completion`, `infilling` or `python`.
    pub capability: Option<String>,
    /// The stop texts.
    pub stop_words: Option<Vec<String>>,
    /// Whether infilling puts the suffix before the prefix by default.
    pub suffix_first: bool,
    /// Properties that only registered templates have.
    pub builtin: Builtin,
}

/// The properties that only registered templates have: the JSON format cannot express them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Builtin {
    /// Other names of the template.
    pub aliases: Vec<String>,
    /// The way that messages are combined.
    pub kind: TemplateKind,
    /// The session length and sampling parameters in LMDeploy's documentation.
    pub generation: Generation,
    /// The infilling prompt, if the template supports infilling.
    pub infill: Option<Infill>,
    /// Whether white space at both ends of a user's text is removed.
    pub trims: bool,
    /// The BOS tokens.
    pub bos: Vec<String>,
    /// The sources of these facts.
    pub sources: Vec<(String, String)>,
}

/// The way that a registered template combines messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TemplateKind {
    /// Each message between its parts.
    #[default]
    Parts,
    /// Each message between its parts, with numbered user turns and without a system text.
    Rounds,
    /// The text goes to the model unchanged.
    Text,
}

/// The prompt of a text with a gap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Infill {
    /// The marker of the gap in the text.
    pub gap: String,
    /// The texts before the prefix, between prefix and suffix, and after the suffix.
    pub pieces: [String; 3],
    /// The texts before the suffix, between suffix and prefix, and after the prefix.
    pub suffix_first: [String; 3],
    /// The stop texts.
    pub stop_words: Vec<String>,
}

/// Parses a chat template. A field that is null or missing keeps the value of the registered
/// template with the same name, if there is one.
pub fn read(text: &str, registered: impl Fn(&str) -> Option<Template>) -> Result<Template, LoadError> {
    let file = FrameworkFile::parse(text)?;
    let fields = file.fields();
    let config = Config::read(&fields);
    let registered = registered(&config.model_name);
    config.check(&fields, registered.as_ref().and_then(|registered| registered.builtin.infill.as_ref()));
    drop(fields);
    file.finish(config.over(registered))
}

/// Finds a registered template by its name or an alias, without the prefix `lmdeploy:`.
pub fn builtin(name: &str) -> Option<Template> {
    let known = |template: &&Template| {
        template.model_name == name || template.builtin.aliases.iter().any(|alias| alias == name)
    };
    registry::LMDEPLOY.templates.iter().find(known).cloned()
}

/// Finds the template that LMDeploy selects for a model's path: it looks for words in the path and
/// tries templates in its own order.
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
    /// Returns a template with this name and LMDeploy's defaults.
    pub fn named(name: &str) -> Template {
        // LMDeploy: the default session length of templates.
        let generation = Generation { session_len: Some(2048), ..Generation::default() };
        Template {
            model_name: name.to_owned(),
            meta_instruction: Some(String::new()),
            builtin: Builtin { generation, ..Builtin::default() },
            ..Template::default()
        }
    }

    /// Returns the default task, which is `chat` unless the template sets another.
    pub fn capability(&self) -> &str {
        self.capability.as_deref().unwrap_or("chat")
    }

    /// Converts the template to a format with this name.
    pub fn into_format(self, name: &str) -> Format {
        let mut format = Format::new(name);
        format.title = format!("LMDeploy template {}", self.model_name);
        format.aliases = self.builtin.aliases.clone();
        format.sources = self.builtin.sources.clone();
        format.controls = own::controls(&self.builtin.bos, None).into();
        let ending = if self.builtin.kind == TemplateKind::Parts { EndingRule::Reopened } else { EndingRule::Closed };
        format.rules = Rules { ending, ..Rules::default() };
        // LMDeploy has no other roles. The kind `rounds` skips messages with other roles.
        let passed_over = ["tool", "environment", "observation", "function"].map(str::to_owned);
        let others = if self.builtin.kind == TemplateKind::Rounds { passed_over.to_vec() } else { Vec::new() };
        format.roles.push(("tool".into(), others));
        format.choices.push(self.capability_choice());
        format.choices.extend(self.builtin.infill.is_some().then(|| self.order_choice()));
        let has_default = self.meta_instruction.is_some() && self.builtin.kind == TemplateKind::Parts;
        format.choices.extend(has_default.then(system_choice));
        format.defaults = Defaults {
            system: self.meta_instruction.clone().filter(|_| self.builtin.kind == TemplateKind::Parts),
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
        // LMDeploy treats any other word as `chat`, except in templates that support infilling.
        let (values, usual) = if self.builtin.infill.is_some() { (known, Vec::new()) } else { (Vec::new(), known) };
        Choice {
            name: "capability".into(),
            default: self.capability().to_owned(),
            values,
            usual,
            help: "the task for the model: `chat`, `completion`, `infilling` or `python`".into(),
        }
    }

    fn order_choice(&self) -> Choice {
        Choice {
            name: "suffix_first".into(),
            default: self.suffix_first.to_string(),
            values: vec!["false".into(), "true".into()],
            help: "for infilling: whether the text after the gap comes before the text in front of it".into(),
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
        let mut layouts = vec![(Slot::Begin, vec![Op::Own(BoundaryToken::Bos)])];
        if self.builtin.kind != TemplateKind::Rounds {
            layouts.push((Slot::Completion, vec![Op::Own(BoundaryToken::Bos), content()]));
        }
        match self.builtin.kind {
            TemplateKind::Text => layouts.extend([
                (Slot::System, vec![content()]),
                (Slot::User, vec![content()]),
                (Slot::Assistant, vec![content()]),
                (Slot::Generate, Vec::new()),
            ]),
            TemplateKind::Rounds => layouts.extend([
                (
                    Slot::User,
                    [round_mark(), around(&self.user, &format!("{}{}", self.eoh, self.assistant), content())].concat(),
                ),
                (Slot::Assistant, vec![content()]),
                // The user's turn already opens the answer.
                (Slot::Generate, Vec::new()),
            ]),
            TemplateKind::Parts => layouts.extend([
                (Slot::System, around(&self.system, &self.eosys, content())),
                (Slot::User, around(&self.user, &self.eoh, users())),
                (Slot::Assistant, around(&self.assistant, &self.eoa, content())),
                (Slot::AssistantAfter, literal(&self.separator).into_iter().collect()),
                (Slot::Generate, literal(&self.assistant).into_iter().collect()),
            ]),
        }
        if let Some(infill) = &self.builtin.infill {
            layouts.push((Slot::Python, vec![Op::Own(BoundaryToken::Bos), content()]));
            layouts.push((Slot::Infill, gap(&infill.pieces, Field::Prefix, Field::Suffix)));
            layouts.push((Slot::InfillSuffixFirst, gap(&infill.suffix_first, Field::Suffix, Field::Prefix)));
        }
        layouts
    }
}

/// Returns the option for the default text before a system message.
fn system_choice() -> Choice {
    Choice {
        name: "system-when".into(),
        default: "not-first".into(),
        values: vec!["not-first".into(), "always".into()],
        help: "whether a system message replaces `meta_instruction`, as in the released code, or follows it, as in \
               LMDeploy's documentation (`always`)"
            .into(),
        ..Choice::default()
    }
}

/// Returns the ops of an infilling prompt: three pieces with the two texts between them.
fn gap([before, between, behind]: &[String; 3], first: Field, second: Field) -> Vec<Op> {
    let ops = [
        Some(Op::Own(BoundaryToken::Bos)),
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
