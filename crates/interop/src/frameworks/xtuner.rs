//! XTuner's prompt templates. The six fields of a template define both the chat prompts and the
//! training text.

use std::sync::{Arc, LazyLock};

use rolecall_conversation::{Conversation, Role};
use rolecall_format::{
    BlankSystem, BoundaryToken, Choice, Codec, Control, Field, Format, Generation, Layout, LoadError, LossRule, Op,
    Rules, Slot, SystemRule, TurnsRule,
};

use rolecall_render::{Error, Origin, Prompt, Writer};

use crate::about::About;
use crate::braces::{self, hole, literal};
use crate::fields::{Fields, FrameworkFile};
use crate::framework::{Dialect, Framework, Importer, expected, titled};
use crate::models::ModelTable;
use crate::tokens::Tokens;
use crate::{files, own};

/// XTuner's row in the table of frameworks.
pub(crate) const FRAMEWORK: Framework = Framework {
    name: "xtuner",
    formats: builtin_formats,
    dialect,
    importer: Some(Importer {
        sign: "XTuner's `INSTRUCTION`",
        is_template: |fields| is_template(fields.keys()),
        import: |text, name| {
            let tokens = Tokens::usual();
            import(text, name, &tokens.bos, tokens.eos.as_deref())
        },
    }),
};

pub(crate) static XTUNER_MODELS: LazyLock<ModelTable> =
    LazyLock::new(|| expected(ModelTable::read(files::text("xtuner/models.json"))));

/// Finds the template that XTuner's table of models names for a model.
fn dialect(model: &str) -> Option<Dialect> {
    let row = XTUNER_MODELS.find(model)?;
    let warning = row.base.then(|| format!("`{}` is a base model: {}", row.model, XTUNER_MODELS.why_base));
    let why = format!("XTuner's table of models lists `{}`", row.model);
    Some(Dialect { format: format!("xtuner:{}", row.template), why, warning })
}

fn builtin_formats() -> Vec<Format> {
    let about = expected(About::read(files::text("xtuner/about.json")));
    let templates = files::of("xtuner", ".json").filter(|(name, _)| !matches!(*name, "about" | "models"));
    let each = templates.map(|(name, text)| {
        let tokens = about.tokens(name);
        let format = import(text, &format!("xtuner:{name}"), &tokens.bos, tokens.eos.as_deref());
        titled(with_system_templates(expected(format), &about), name, &about)
    });
    each.collect()
}

/// Adds the preset system texts and the option `system_template`, which selects one of them.
fn with_system_templates(mut format: Format, about: &About) -> Format {
    let bot_name = [("bot_name", Op::hole(Field::Option(0), Codec::Text))];
    for (name, text) in &about.system_templates {
        let ops = braces::pieces(text, &bot_name);
        format.defaults.system_templates.push((name.clone(), Layout::new(ops, &format.controls)));
    }
    let names = about.system_templates.iter().map(|(name, _)| name.clone());
    format.choices.push(Choice {
        name: "system_template".into(),
        default: "none".into(),
        values: std::iter::once("none".to_owned()).chain(names).collect(),
        usual: Vec::new(),
        help: "the preset system text to use if the conversation has none".into(),
    });
    format
}

const FIELDS: [&str; 6] = ["SYSTEM", "INSTRUCTION", "SUFFIX", "SUFFIX_AS_EOS", "SEP", "STOP_WORDS"];

/// Reports whether a file with these fields is a prompt template.
pub(crate) fn is_template<'k>(mut keys: impl Iterator<Item = &'k str>) -> bool {
    keys.any(|key| FIELDS.contains(&key))
}

/// Imports a prompt template: a JSON object of `SYSTEM`, `INSTRUCTION`, `SUFFIX`, `SUFFIX_AS_EOS`,
/// `SEP`, `STOP_WORDS`. `bos` and `eos` are placeholders for the BOS and EOS tokens of the
/// tokenizer, which replace them once it is known.
pub fn import(text: &str, name: &str, bos: &[String], eos: Option<&str>) -> Result<Format, LoadError> {
    let file = FrameworkFile::parse(text)?;
    let template = read(&file.fields());
    file.finish(()).map(|()| template.into_format(name, own::controls(bos, eos)))
}

struct Template {
    system: Option<Vec<Op>>,
    instruction: Vec<Op>,
    suffix: String,
    suffix_as_eos: bool,
    sep: String,
    stop_words: Vec<String>,
}

fn read(fields: &Fields<'_, '_>) -> Template {
    fields.refuse_others(&FIELDS);
    let bot_name = ("bot_name", hole(Field::Option(0)));
    let system = [("system", hole(Field::Content)), ("round", Op::Literal("1".into())), bot_name.clone()];
    let instruction = [("input", hole(Field::Content)), ("round", hole(Field::Round)), bot_name];
    let lost = |key: &'static str, hole_name: &str, ops: &[Op]| {
        if !ops.iter().any(|op| matches!(op, Op::Hole { field: Field::Content, .. })) {
            let message = format!("`{key}` has no `{{{hole_name}}}`, so the text would be lost");
            fields.report("gap", message, fields.span(key), format!("put `{{{hole_name}}}` where the text belongs"));
        }
    };
    let system = fields.written("SYSTEM").map(|written| {
        let ops = braces::read(fields, &written, &system);
        lost("SYSTEM", "system", &ops);
        ops
    });
    let instruction = fields.needed("INSTRUCTION").map(|written| {
        let ops = braces::read(fields, &written, &instruction);
        lost("INSTRUCTION", "input", &ops);
        ops
    });
    Template {
        system,
        instruction: instruction.unwrap_or_default(),
        suffix: fields.text("SUFFIX").unwrap_or_default(),
        suffix_as_eos: fields.boolean("SUFFIX_AS_EOS"),
        sep: fields.text("SEP").unwrap_or_default(),
        stop_words: fields.texts("STOP_WORDS").unwrap_or_default(),
    }
}

impl Template {
    fn into_format(self, name: &str, own: Vec<Control>) -> Format {
        let mut format = Format::new(name);
        format.controls = own.into();
        format.generation = Arc::new(Generation { stop: self.stop_words.clone(), ..Generation::default() });
        let help = "the assistant's name".to_owned();
        format.choices.push(Choice { name: "bot_name".into(), default: "BOT".into(), help, ..Choice::default() });
        // XTuner's code has no other roles.
        format.roles.push(("tool".into(), Vec::new()));
        let training = self.training(format.clone());
        let mut chat = self.chat(format);
        chat.training = Some(Arc::new(training));
        chat
    }

    /// Returns the format of chat prompts. An answer ends with what the model generated there: the
    /// suffix or, if there is none, the EOS token.
    fn chat(&self, mut format: Format) -> Format {
        let system = if self.system.is_some() { SystemRule::First } else { SystemRule::None };
        format.rules = Rules { system, turns: TurnsRule::Alternate, loss: LossRule::Turn, ..Rules::default() };
        let ending = if self.suffix.is_empty() {
            vec![Op::Own(BoundaryToken::Eos)]
        } else {
            vec![Op::Literal(self.suffix.clone())]
        };
        let assistant = [vec![hole(Field::Content)], ending].concat();
        format.with_layouts(self.layouts(Slot::Begin, assistant))
    }

    /// Returns the format of training text: pairs of an input and an answer. Each answer ends with
    /// the EOS token and each pair starts with the BOS token, unless the suffix serves as EOS. In
    /// that case, there is one BOS token, at the start of the text.
    fn training(&self, mut format: Format) -> Format {
        format.rules = Rules {
            turns: TurnsRule::Answered,
            blank_system: BlankSystem::Skip,
            system: if self.system.is_some() { SystemRule::Anywhere } else { SystemRule::Refused },
            loss: LossRule::Turn,
            ..Rules::default()
        };
        let closing = if self.suffix_as_eos { Vec::new() } else { vec![Op::Own(BoundaryToken::Eos)] };
        let opens = if self.suffix_as_eos { Slot::Begin } else { Slot::Pair };
        let assistant = [vec![hole(Field::Content)], literal(&self.suffix).into_iter().collect(), closing].concat();
        format.with_layouts(self.layouts(opens, assistant))
    }

    fn layouts(&self, opens: Slot, assistant: Vec<Op>) -> Vec<(Slot, Vec<Op>)> {
        let mut layouts = vec![
            (opens, vec![Op::Own(BoundaryToken::Bos)]),
            (Slot::User, self.instruction.clone()),
            (Slot::Assistant, assistant),
            (Slot::AssistantAfter, literal(&self.sep).into_iter().collect()),
            // `INSTRUCTION` already opens the answer.
            (Slot::Generate, Vec::new()),
        ];
        layouts.extend(self.system.clone().map(|system| (Slot::System, system)));
        layouts
    }
}

/// Returns the prompt that XTuner's chat sends to the model for each user message: the conversation
/// so far, from the start. After each answer, `remembers` gets the prompt with that answer. If it
/// returns false, the history is dropped and the next message starts again with the system text and
/// round 1.
///
/// ```
/// use rolecall_conversation::{Conversation, Message};
/// use rolecall_render::{Options, Writer};
///
/// let format = rolecall_interop::import(r#"{"INSTRUCTION": "{round}: {input}\n"}"#, "mine")?;
/// let conversation = Conversation::new(vec![Message::user("a"), Message::assistant("b"), Message::user("c")]);
/// let writer = Writer::format(format, Options::default());
/// let inputs = rolecall_interop::xtuner::chat_inputs(&conversation, &writer, |_| true).unwrap();
/// let texts: Vec<&str> = inputs.iter().map(|input| input.text()).collect();
/// assert_eq!(texts, ["<s>1: a\n", "<s>1: a\nb</s>2: c\n"]);
/// # Ok::<(), rolecall_format::LoadError>(())
/// ```
pub fn chat_inputs(
    conversation: &Conversation,
    writer: &Writer,
    remembers: impl Fn(&Prompt) -> bool,
) -> Result<Vec<Prompt>, Error> {
    let messages = &conversation.messages;
    let leading = messages.iter().take_while(|message| *message.role() == Role::System).count();
    let part = |from: usize, to: usize, opens: bool| {
        let mut part = conversation.clone();
        part.messages = messages[..leading].iter().chain(&messages[from..to]).cloned().collect();
        part.add_generation_prompt = Some(opens);
        writer.render(&part)
    };
    let mut inputs = Vec::new();
    let mut start = leading;
    for (index, message) in messages.iter().enumerate().skip(leading) {
        if *message.role() == Role::User {
            inputs.push(part(start, index + 1, true)?);
        } else if index + 1 < messages.len() && !remembers(&part(start, index + 1, false)?) {
            start = index + 1;
        }
    }
    Ok(inputs)
}

/// An input and its output in XTuner's training data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pair {
    /// The system text of the conversation.
    pub system: String,
    /// The user's text of the conversation.
    pub asked: String,
    /// The assistant's text of the conversation.
    pub answer: String,
    /// The model's whole input, without the BOS token.
    pub input: String,
    /// The output that carries loss, without the EOS token.
    pub output: String,
    /// Whether the EOS token follows the output.
    pub need_eos_token: bool,
    /// The separator after the output, which carries no loss.
    pub sep: String,
}

/// Returns the pairs of a prompt that was rendered as training text.
pub fn pairs(prompt: &Prompt) -> Vec<Pair> {
    let mut pairs: Vec<Pair> = Vec::new();
    let mut open = Pair::default();
    for (at, turn) in prompt.turns().iter().enumerate() {
        let mut written = String::new();
        let mut own = String::new();
        let mut closed = false;
        for segment in prompt.segments_in(prompt.turn_span(at)) {
            match segment.origin {
                Origin::Control(id) => closed |= prompt.controls()[id.0].ends_turn,
                Origin::Message { .. } => own.push_str(segment.text),
                _ => {}
            }
            if !matches!(segment.origin, Origin::Control(_)) {
                written.push_str(segment.text);
            }
        }
        match turn.slot {
            Slot::System => {
                open.system = own;
                open.input.push_str(&written);
            }
            Slot::User => {
                open.asked = own;
                open.input.push_str(&written);
            }
            Slot::Assistant => {
                let pair = Pair { answer: own, output: written, need_eos_token: closed, ..std::mem::take(&mut open) };
                pairs.push(pair);
            }
            Slot::AssistantAfter => {
                if let Some(pair) = pairs.last_mut() {
                    pair.sep = written;
                }
            }
            _ => {}
        }
    }
    pairs
}
