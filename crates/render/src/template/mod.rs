//! Conversations through a model's own chat template, a Jinja program.
//! In: a conversation and a [`ChatTemplate`]. Out: the same [`Prompt`] that a format gives.
//! Between: `prepare` makes of the conversation what transformers hands to a template, `finish` makes a prompt of what came out,
//! `continuing` cuts it inside the last message. `analysis` says what a template takes and does.

mod adapt;
mod analysis;
mod continuing;
mod finish;
mod left_out;
mod prepare;

use std::sync::{Arc, OnceLock};

use rolecall_conversation::Conversation;
use rolecall_jinja as jinja;

use crate::{Bos, Error, Prompt};

use adapt::{Adapted, adapt_calls};
use prepare::Inputs;

pub use analysis::{
    ArgumentForm, BosUse, Capability, Finding, FindingKind, IdForm, ProbeBudget, Support, Switch, TemplateAnalysis,
    WantedCalls, analyze_template, analyze_template_within, template_switches,
};
pub use jinja::{DateTime, Error as TemplateError, Limits};
pub use left_out::{left_out, without_media};

/// A model's own chat template, compiled, with the special tokens that it may name.
///
/// ```
/// use rolecall_conversation::{Conversation, Message};
/// use rolecall_render::{ChatTemplate, TemplateOptions, render_template};
///
/// let source = "{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}\n{% endfor %}";
/// let template = ChatTemplate::compile(source, vec![("bos_token".into(), "<s>".into())])?;
/// let conversation = Conversation::new(vec![Message::user("Hello <s>")]);
/// let prompt = render_template(&conversation, &template, &TemplateOptions::default())?;
/// assert_eq!(prompt.text(), "<s><|user|>Hello <s>\n");
/// assert_eq!(prompt.origin_at(11).and_then(|origin| origin.message()), Some(0));
/// # Ok::<(), rolecall_render::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ChatTemplate {
    program: Arc<jinja::Template>,
    /// `bos_token`, `eos_token` and others, by name.
    tokens: Vec<(String, String)>,
    /// The form in which it wants tool calls, once that was asked for, and the steps that finding it out took.
    calls: Arc<OnceLock<(Result<WantedCalls, Error>, u64)>>,
    /// Its text, by which prompts say that they are its own.
    identity: Arc<str>,
}

/// How a conversation is rendered through a template.
#[derive(Clone, Debug, Default)]
pub struct TemplateOptions {
    /// What `strftime_now` tells the template; without it, a template that asks is refused.
    pub now: Option<DateTime>,
    /// How much a template may use.
    pub limits: Limits,
    /// Switches by name (`enable_thinking`), beside those that the conversation carries.
    pub kwargs: rolecall_conversation::json::Object,
    /// The form in which the template is given tool calls.
    pub calls: CallForm,
    /// Who writes the token that opens the prompt: left to a tokenizer, what the template wrote of it is taken off.
    pub bos: Bos,
}

/// The form in which a template is given tool calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CallForm {
    /// As the conversation has them, which is what transformers does.
    #[default]
    AsGiven,
    /// As the template writes them rightly (see [`WantedCalls`]): arguments that are JSON text become an object, or an object
    /// JSON text, no arguments are an empty object, and ids that it would refuse are replaced.
    AsWanted,
}

impl ChatTemplate {
    /// The variables that every template is given, beside special tokens and switches.
    pub const GIVEN: [&'static str; 4] = ["messages", "tools", "documents", "add_generation_prompt"];

    /// Compiles a template within the usual limits.
    pub fn compile(source: &str, tokens: Vec<(String, String)>) -> Result<ChatTemplate, Error> {
        ChatTemplate::compile_within(source, tokens, &Limits::default())
    }

    /// Compiles a template that may be as large, and as deep, as the limits say.
    ///
    /// ```
    /// use rolecall_render::{ChatTemplate, Limits};
    /// let mut limits = Limits::default();
    /// limits.source_bytes = 10;
    /// let refused = ChatTemplate::compile_within("{{ messages }}", Vec::new(), &limits).unwrap_err();
    /// assert_eq!(refused.code(), "limit-source");
    /// ```
    pub fn compile_within(source: &str, tokens: Vec<(String, String)>, limits: &Limits) -> Result<ChatTemplate, Error> {
        let program = jinja::Template::compile(source, limits).map_err(in_template)?;
        let identity = program.source().into();
        Ok(ChatTemplate { program: Arc::new(program), tokens, calls: Arc::default(), identity })
    }

    /// The template's text, with `\n` at the end of each line and none at the end of the last: what places in errors are
    /// counted in.
    pub fn source(&self) -> &str {
        self.program.source()
    }

    /// The form in which it wants tool calls. It is found out once, within a budget of its own.
    pub fn wanted_calls(&self) -> Result<WantedCalls, Error> {
        self.wanted_calls_within(&ProbeBudget::default())
    }

    /// The same; its steps are taken from a budget, whether it was known before or not.
    pub fn wanted_calls_within(&self, budget: &ProbeBudget) -> Result<WantedCalls, Error> {
        let (wanted, steps) = self.calls.get_or_init(|| analysis::wanted_calls(self));
        budget.spend(*steps);
        wanted.clone()
    }

    /// Its text, shared with every prompt that it writes.
    pub fn identity(&self) -> &Arc<str> {
        &self.identity
    }

    /// Its literals, and which of them may stand beside each other in a prompt. What the limits do not let it know is an error.
    pub fn writes(&self) -> Result<jinja::Writes, Error> {
        self.program.writes(&Limits::default()).map_err(in_template)
    }

    /// The special tokens that the template may name.
    pub fn tokens(&self) -> &[(String, String)] {
        &self.tokens
    }
}

/// Renders a conversation as transformers does through the same template, every byte with its origin.
pub fn render_template(
    conversation: &Conversation,
    template: &ChatTemplate,
    options: &TemplateOptions,
) -> Result<Prompt, Error> {
    rendered(conversation, template, options, None)
}

/// The same for a conversation that is only tried out: its steps come from a budget that it shares with others.
pub fn probe_template(
    conversation: &Conversation,
    template: &ChatTemplate,
    options: &TemplateOptions,
    budget: &ProbeBudget,
) -> Result<Prompt, Error> {
    rendered(conversation, template, options, Some(budget))
}

fn rendered(
    conversation: &Conversation,
    template: &ChatTemplate,
    options: &TemplateOptions,
    budget: Option<&ProbeBudget>,
) -> Result<Prompt, Error> {
    let mut adapted = Adapted::default();
    let has_calls = || conversation.messages.iter().any(|message| message.as_object().get("tool_calls").is_some());
    if options.calls == CallForm::AsWanted && has_calls() {
        adapt_calls(conversation, template.wanted_calls()?, &mut adapted);
    }
    let continued = continuing::mark(conversation, &mut adapted)?;
    let (inputs, output) = run(conversation, template, options, &adapted, budget)?;
    let end = match &continued {
        Some(continued) => continued.cut(&inputs, &output)?,
        None => output.text().len(),
    };
    let mut prompt = finish::prompt(conversation, &inputs, output, end);
    prompt.template = Some(Arc::clone(&template.identity));
    let opening = template.tokens.iter().find(|(name, _)| name == "bos_token" && options.bos == Bos::LeaveToTokenizer);
    Ok(match opening {
        Some((_, bos)) => prompt.without_bos(bos),
        None => prompt,
    })
}

fn run<'a>(
    conversation: &'a Conversation,
    template: &'a ChatTemplate,
    options: &'a TemplateOptions,
    adapted: &'a Adapted,
    budget: Option<&ProbeBudget>,
) -> Result<(Inputs<'a>, jinja::Output), Error> {
    let inputs = Inputs::new(conversation, template, options, adapted);
    let clock = options.now.as_ref().map(|now| now as &dyn jinja::Clock);
    let mut limits = options.limits.clone();
    if let Some(budget) = budget {
        budget.check()?;
        limits.instructions = limits.instructions.min(budget.left());
    }
    let is_lowered = limits.instructions < options.limits.instructions;
    let environment = jinja::Environment { limits, clock, ..jinja::Environment::default() };
    let output = template.program.render(&inputs.context(), &environment);
    if let Some(budget) = budget {
        match &output {
            // What is left is not enough for this conversation, though some of it may not be used up.
            Err(error) if is_lowered && error.kind() == OUT_OF_STEPS => budget.spend(u64::MAX),
            Err(error) => budget.spend_on(error.steps(), template.source().len(), 0),
            Ok(output) => budget.spend_on(output.steps(), template.source().len(), output.text().len()),
        }
    }
    match output {
        Ok(output) => Ok((inputs, output)),
        Err(error) => {
            let message = error.passes().iter().find_map(|tag| inputs.message_of(*tag));
            Err(Error::Template { error, message })
        }
    }
}

/// What ends a rendering that takes more steps than it may.
const OUT_OF_STEPS: jinja::ErrorKind = jinja::ErrorKind::Limit(jinja::LimitKind::Instructions);

/// An error before any message was looked at.
fn in_template(error: jinja::Error) -> Error {
    Error::Template { error, message: None }
}
