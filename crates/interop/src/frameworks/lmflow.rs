//! LMFlow's conversation templates: formatters for pairs of messages, each a list of components.

use std::sync::{Arc, LazyLock};

use rolecall_format::{
    BlankSystem, BoundaryToken, Codec, Control, ControlId, Defaults, Field, Format, LoadError, LossRule, Op, RolesRule,
    Rules, Slot, SystemRule, SystemWhen, ToolTexts, TurnsRule, codec,
};

use crate::about::About;
use crate::fields::{Fields, FrameworkFile, SourceString};
use crate::framework::{Framework, Importer, expected, titled};
use crate::tokens::Tokens;
use crate::{files, own};

/// LMFlow's row in the table of frameworks.
pub(crate) const FRAMEWORK: Framework = Framework {
    name: "lmflow",
    formats: builtin_formats,
    dialect: |model| LMFLOW.dialect("lmflow", model),
    importer: Some(Importer {
        sign: "LMFlow's `user_formatter`",
        is_template: |fields| {
            let is_list = |key: &str| {
                matches!(key, "user" | "assistant" | "system")
                    && matches!(fields.value(key), Some(rolecall_conversation::Json::Array(_)))
            };
            is_template(fields.keys(), is_list)
        },
        import: |text, name| {
            let tokens = Tokens::usual();
            import(text, name, &tokens.bos, tokens.eos.as_deref())
        },
    }),
};

pub(crate) static LMFLOW: LazyLock<About> = LazyLock::new(|| expected(About::read(files::text("lmflow/about.json"))));

fn builtin_formats() -> Vec<Format> {
    let presets = files::of("lmflow", ".json").filter(|(name, _)| *name != "about");
    let each = presets.map(|(name, text)| {
        let tokens = LMFLOW.tokens(name);
        let format = import(text, &format!("lmflow:{name}"), &tokens.bos, tokens.eos.as_deref());
        titled(expected(format), name, &LMFLOW)
    });
    each.collect()
}

const FIELDS: [&str; 17] = [
    "template_name",
    "system",
    "user",
    "assistant",
    "function",
    "observation",
    "tools",
    "separator",
    "remove_last_sep",
    "special_starter",
    "special_stopper",
    "force_system",
    "system_default",
    "class",
    "roles",
    "generate",
    "stops_questions",
];

/// The names of the same fields in the constructor of LMFlow's class.
const FORMATTERS: [&str; 6] = [
    "system_formatter",
    "user_formatter",
    "assistant_formatter",
    "function_formatter",
    "observation_formatter",
    "tools_formatter",
];

/// The placeholder for the message text in a component's text.
const CONTENT: &str = "{{content}}";

/// Reports whether a file with these fields is a conversation template.
pub(crate) fn is_template<'k>(keys: impl Iterator<Item = &'k str>, is_list: impl Fn(&str) -> bool) -> bool {
    let mut keys = keys;
    keys.any(|key| {
        FORMATTERS.contains(&key)
            || matches!(key, "template_name" | "special_starter" | "special_stopper")
            || is_list(key)
    })
}

/// Imports a conversation template: a JSON object of formatters. Each formatter is a list of
/// components such as `{"type": "string", "content": "<|user|>\n{{content}}"}`. The types are
/// `string`, `token` (`bos_token`, `eos_token` or a token's text) and `token_id`.
pub fn import(text: &str, name: &str, bos: &[String], eos: Option<&str>) -> Result<Format, LoadError> {
    let file = FrameworkFile::parse(text)?;
    let mut reader = SourceReader { controls: Vec::new() };
    let template = reader.read(&file.fields());
    file.finish(()).map(|()| template.into_format(name, [reader.controls, own::controls(bos, eos)].concat()))
}

/// The way that LMFlow's code uses a template's components.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// Pairs of user and assistant.
    Pairs,
    /// Pairs, with the system text inside the first user message.
    Folded,
    /// Pairs that each start on a new line, except at the start of a conversation.
    Lines,
    /// Messages with calls and results. The tools follow the system text, separated by commas.
    Tools,
    /// Messages with calls and results. The tools follow the system text, each between markers.
    MarkedTools,
}

impl Class {
    const ALL: [Class; 5] = [Class::Pairs, Class::Folded, Class::Lines, Class::Tools, Class::MarkedTools];

    /// Returns the key of the class in `about.json`.
    fn key(self) -> &'static str {
        match self {
            Class::Pairs => "pairs",
            Class::Folded => "folded",
            Class::Lines => "lines",
            Class::Tools => "tools",
            Class::MarkedTools => "marked-tools",
        }
    }
}

struct SourceTemplate {
    class: Class,
    system: Option<Vec<Op>>,
    user: Vec<Op>,
    assistant: Vec<Op>,
    function: Option<Vec<Op>>,
    observation: Option<Vec<Op>>,
    starter: Vec<Op>,
    stopper: Vec<Op>,
    /// The separator to remove from the last answer.
    last_separator: Option<String>,
    force_system: bool,
    system_default: Option<String>,
    /// The generation prompt, if it differs from the text before an answer's content.
    generate: Option<Vec<Op>>,
    /// Whether the stopper also ends a conversation without a last answer.
    stops_questions: bool,
}

struct SourceReader {
    controls: Vec<Control>,
}

impl SourceReader {
    fn read(&mut self, fields: &Fields<'_, '_>) -> SourceTemplate {
        let known: Vec<&str> = FIELDS.into_iter().chain(FORMATTERS).collect();
        fields.refuse_others(&known);
        let user = self.formatter(fields, "user", "user_formatter");
        let assistant = self.formatter(fields, "assistant", "assistant_formatter");
        for (key, formatter) in [("user_formatter", &user), ("assistant_formatter", &assistant)] {
            if formatter.is_none() {
                let help = format!("add `\"{key}\": [{{\"type\": \"string\", \"content\": \"..{CONTENT}..\"}}]`");
                fields.report("missing_key", format!("the field `{key}` is missing"), fields.start(), help);
            }
        }
        let separator = fields.inner("separator").and_then(|component| match component.text("type").as_deref() {
            Some("string") => component.text("content"),
            _ => None,
        });
        SourceTemplate {
            class: read_class(fields),
            system: self.formatter(fields, "system", "system_formatter"),
            user: user.unwrap_or_default(),
            assistant: assistant.unwrap_or_default(),
            function: self.formatter(fields, "function", "function_formatter"),
            observation: self.formatter(fields, "observation", "observation_formatter"),
            starter: fields.inner("special_starter").map(|inner| self.component(&inner, false)).unwrap_or_default(),
            stopper: fields.inner("special_stopper").map(|inner| self.component(&inner, false)).unwrap_or_default(),
            last_separator: separator.filter(|_| fields.boolean("remove_last_sep")),
            force_system: fields.boolean("force_system"),
            system_default: fields.text("system_default"),
            generate: fields
                .list("generate")
                .map(|components| components.iter().flat_map(|component| self.component(component, false)).collect()),
            stops_questions: fields.boolean("stops_questions"),
        }
    }

    /// Reads a formatter under its short or long name: a list of components, or an object that
    /// holds the list in `template`.
    fn formatter<'f>(&mut self, fields: &Fields<'f, '_>, short: &'f str, long: &'f str) -> Option<Vec<Op>> {
        let key = if fields.has(long) { long } else { short };
        let is_object = matches!(fields.value(key), Some(rolecall_conversation::Json::Object(_)));
        let inner = if is_object { fields.inner(key) } else { None };
        let components = match &inner {
            Some(inner) => inner.list("template")?,
            None => fields.list(key)?,
        };
        let before = fields.mistakes();
        let ops: Vec<Op> = components.iter().flat_map(|component| self.component(component, true)).collect();
        // An invalid component may have contained the hole.
        if fields.mistakes() == before && !ops.iter().any(|op| matches!(op, Op::Hole { .. })) {
            let message = format!("`{key}` has no `{CONTENT}`, so the message text would be lost");
            fields.report("gap", message, fields.span(key), format!("put `{CONTENT}` where the text belongs"));
        }
        Some(ops)
    }

    fn component(&mut self, fields: &Fields<'_, '_>, has_content: bool) -> Vec<Op> {
        fields.refuse_others(&["type", "content", "mask"]);
        let Some(kind) = fields.needed("type") else { return Vec::new() };
        match kind.text.as_str() {
            "string" => match fields.needed("content") {
                Some(written) => string(fields, &written, has_content),
                None => Vec::new(),
            },
            "token" => match fields.needed("content") {
                Some(written) => self.token(&written.text),
                None => Vec::new(),
            },
            "token_id" => match fields.whole("content").and_then(|id| u32::try_from(id).ok()) {
                Some(id) => vec![self.control(Control {
                    text: format!("<#{id}>"),
                    id: Some(id),
                    by_id: true,
                    ..Control::default()
                })],
                None => Vec::new(),
            },
            other => {
                let help = "use one of `string`, `token`, `token_id`".into();
                fields.report("unknown_name", format!("unknown component type `{other}`"), fields.span("type"), help);
                Vec::new()
            }
        }
    }

    fn token(&mut self, content: &str) -> Vec<Op> {
        match content {
            "bos_token" => vec![Op::Own(BoundaryToken::Bos)],
            "eos_token" => vec![Op::Own(BoundaryToken::Eos)],
            text => vec![self.control(Control { text: text.to_owned(), ..Control::default() })],
        }
    }

    /// Returns the op of a control token, and declares the token at its first use.
    fn control(&mut self, control: Control) -> Op {
        let known = self.controls.iter().position(|known| *known == control);
        let at = known.unwrap_or_else(|| {
            self.controls.push(control);
            self.controls.len() - 1
        });
        Op::Control(ControlId(at))
    }
}

fn read_class(fields: &Fields<'_, '_>) -> Class {
    let Some(asked) = fields.text("class") else { return Class::Pairs };
    let known = LMFLOW.classes.iter().find(|(name, _)| *name == asked);
    let class = known.and_then(|(_, class)| Class::ALL.into_iter().find(|other| other.key() == class));
    class.unwrap_or_else(|| {
        let message = format!("unknown template class `{asked}`");
        let names: Vec<String> = LMFLOW.classes.iter().map(|(name, _)| format!("`{name}`")).collect();
        let help = format!("use one of {}, or remove the field", names.join(", "));
        fields.report("unknown_name", message, fields.span("class"), help);
        Class::Pairs
    })
}

/// Returns the ops of a component's text. The first `{{content}}` becomes the message text. If the
/// component is nothing else, an empty message text becomes one space.
fn string(fields: &Fields<'_, '_>, written: &SourceString, has_content: bool) -> Vec<Op> {
    let text = written.text.as_str();
    let literal = |text: &str| (!text.is_empty()).then(|| Op::Literal(text.to_owned()));
    if text == CONTENT && has_content {
        return vec![Op::hole(Field::Content, Codec::Filled)];
    }
    if let Some((before, behind)) = text.split_once(CONTENT).filter(|_| has_content) {
        refuse_holes(fields, written);
        return literal(before)
            .into_iter()
            .chain([Op::hole(Field::Content, Codec::Text)])
            .chain(literal(behind))
            .collect();
    }
    refuse_holes(fields, written);
    // LMFlow: an empty component is one space.
    vec![Op::Literal(if text.is_empty() { " ".to_owned() } else { text.to_owned() })]
}

/// Reports names in double braces other than `content`, which are most likely typos.
fn refuse_holes(fields: &Fields<'_, '_>, written: &SourceString) {
    let text = written.text.as_str();
    let mut from = 0;
    while let Some(open) = text[from..].find("{{") {
        let start = from + open;
        let Some(length) = text[start..].find("}}") else { return };
        let end = start + length + 2;
        let name = &text[start + 2..end - 2];
        if name != "content" && !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_') {
            let message = format!("`{{{{{name}}}}}` is not a hole of a component");
            fields.report("unknown_hole", message, written.span(start..end), format!("write `{CONTENT}`"));
        }
        from = end;
    }
}

impl SourceTemplate {
    fn into_format(self, name: &str, controls: Vec<Control>) -> Format {
        let tools = matches!(self.class, Class::Tools | Class::MarkedTools);
        let mut format = Format::new(name);
        format.controls = controls.into();
        let system = match (&self.system, self.class) {
            (None, _) => SystemRule::Refused,
            (Some(_), Class::Folded) => SystemRule::Fold,
            (Some(_), _) => SystemRule::First,
        };
        format.rules = Rules {
            system,
            turns: if tools { TurnsRule::Any } else { TurnsRule::Alternate },
            blank_system: BlankSystem::SkipSpaces,
            roles: if tools { RolesRule::Named } else { RolesRule::ByPlace },
            tool_texts: if tools { ToolTexts::Written } else { ToolTexts::Refused },
            loss: LossRule::Turn,
            ..Rules::default()
        };
        let none = || self.force_system.then(String::new);
        format.defaults = Defaults {
            system: self.system_default.clone().or_else(none),
            system_when: SystemWhen::None,
            // The list of tools is part of a system turn.
            system_with_tools: tools.then(String::new),
            ..Defaults::default()
        };
        if tools {
            format.roles = vec![
                ("assistant".into(), vec!["assistant".into(), "function".into()]),
                ("tool".into(), vec!["observation".into(), "tool".into()]),
            ];
        }
        let mut training = format.clone();
        training.rules.turns = TurnsRule::Paired;
        let mut format = format.with_layouts(self.layouts(self.stops_questions));
        // The stopper of an answer is learned with it.
        format.training = Some(Arc::new(training.with_layouts(self.layouts(false))));
        format
    }

    /// Returns the layouts. `ends` says whether the stopper ends every conversation, and not only a last answer.
    fn layouts(&self, ends: bool) -> Vec<(Slot, Vec<Op>)> {
        let mut layouts = vec![
            (Slot::Begin, self.starter.clone()),
            (Slot::Assistant, self.assistant.clone()),
            (Slot::Generate, self.generate.clone().unwrap_or_else(|| before_content(&self.assistant))),
        ];
        if ends {
            layouts.push((Slot::End, self.stopper.clone()));
        }
        match (&self.system, self.class) {
            (Some(system), Class::Folded) => {
                let group = Op::Group(replaced(system, &[Op::hole(Field::System, Codec::Text)]));
                layouts.push((Slot::Folded, vec![group, Op::hole(Field::Content, Codec::Text)]));
                layouts.push((Slot::User, replaced(&self.user, &[Op::hole(Field::Folded, Codec::Text)])));
            }
            (Some(system), Class::Lines) => {
                let mut first = self.user.clone();
                let newline = match first.first_mut() {
                    Some(Op::Literal(text)) if text.starts_with('\n') => text.remove(0) == '\n',
                    _ => false,
                };
                let newline = newline.then(|| Op::Literal("\n".into()));
                layouts.push((Slot::System, system.iter().cloned().chain(newline).collect()));
                layouts.push((Slot::UserFirst, first));
                layouts.push((Slot::User, self.user.clone()));
            }
            (system, _) => {
                layouts.push((Slot::User, self.user.clone()));
                let listed = matches!(self.class, Class::Tools | Class::MarkedTools);
                let content = Op::hole(Field::Content, Codec::Text);
                let tools = listed.then(|| Op::hole(Field::Functions, Codec::Text));
                let content: Vec<Op> = std::iter::once(content).chain(tools).collect();
                layouts.extend(system.as_ref().map(|system| match listed {
                    true => (Slot::System, replaced(system, &content)),
                    false => (Slot::System, system.clone()),
                }));
            }
        }
        let literal = |text: &str| Op::Literal(text.to_owned());
        let function = Op::hole(Field::Function, Codec::Json(codec::JsonStyle::PLAIN));
        match self.class {
            Class::Tools => {
                layouts.push((Slot::ToolsItem, vec![function]));
                layouts.push((Slot::ToolsSeparator, vec![literal(",")]));
            }
            Class::MarkedTools => {
                layouts.push((Slot::ToolsItem, vec![literal("\n<tool> "), function, literal(" </tool>")]));
            }
            Class::Pairs | Class::Folded | Class::Lines => {}
        }
        let keys = codec::call::Keys::new("name", "arguments", codec::call::Style::AsGiven);
        if let (Some(function), Some(keys)) = (&self.function, keys) {
            let calls = [Op::hole(Field::Calls, Codec::Text)];
            layouts.push((Slot::AssistantWithCalls, replaced(function, &calls)));
            layouts.push((Slot::Call, vec![Op::hole(Field::Call, Codec::Call(keys))]));
        }
        layouts.extend(self.observation.clone().map(|observation| (Slot::Tool, observation)));
        let last = self.last_answer(ends);
        if last != self.assistant {
            layouts.push((Slot::AssistantLast, last));
        }
        layouts
    }

    /// Returns the ops of an answer that ends a conversation: without the separator, with the
    /// stopper unless the conversation itself ends with it.
    fn last_answer(&self, ends: bool) -> Vec<Op> {
        let mut ops = self.assistant.clone();
        if let (Some(separator), Some(Op::Literal(text))) = (&self.last_separator, ops.last_mut())
            && let Some(rest) = text.strip_suffix(separator.as_str())
        {
            *text = rest.to_owned();
        }
        ops.retain(|op| !matches!(op, Op::Literal(text) if text.is_empty()));
        if !ends {
            ops.extend(self.stopper.iter().cloned());
        }
        ops
    }
}

/// Returns the ops before the message text.
fn before_content(ops: &[Op]) -> Vec<Op> {
    ops.iter().take_while(|op| !matches!(op, Op::Hole { .. })).cloned().collect()
}

/// Returns the ops with the message text replaced by other ops.
fn replaced(ops: &[Op], by: &[Op]) -> Vec<Op> {
    let each = ops.iter().flat_map(|op| match op {
        Op::Hole { .. } => by.to_vec(),
        other => vec![other.clone()],
    });
    each.collect()
}
