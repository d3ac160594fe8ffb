//! Rendering of conversations through a model's own chat template, a Jinja program.
//!
//! Takes a conversation and a [`ChatTemplate`], and returns the same [`Prompt`] that a format
//! gives. The module `prepare` converts the conversation to the variables that transformers passes
//! to a template, `finish` builds a prompt from the output, and `continuing` cuts it inside the
//! last message. `analysis` determines what a template accepts and does. `code` has templates that are no Jinja, but
//! code of another kind.

mod adapt;
mod analysis;
mod around;
mod code;
mod continuing;
mod finish;
mod forms;
pub(crate) mod growing;
mod left_out;
mod messages;
mod prepare;
mod record;
mod written;

use std::sync::{Arc, OnceLock};

use rolecall_conversation::{Conversation, Tool};
use rolecall_jinja as jinja;

use crate::{Account, Bos, Error, Prompt};

use adapt::{ReplacementValues, adapt_calls, adapt_forms};
use continuing::ContinuedMessage;
use messages::Messages;
use prepare::{Inputs, Trace};

pub use analysis::{
    ArgumentForm, BosUse, Capability, ContentForm, EFFORT_SWITCH, EFFORTS, Finding, FindingKind, IdForm, ProbeBudget,
    Support, Switch, TemplateAnalysis, WantedCalls, analyze_template, analyze_template_within, template_switches,
};
pub use around::AroundTurns;
pub use code::{CodeError, CodeErrorKind, CodeMessage, CodePiece, TemplateCode};
pub use jinja::{DateTime, Error as TemplateError, Limits};
pub use left_out::{left_out, left_out_of, without_media};
pub use record::RunRecord;
pub(crate) use written::spot_at;

/// A model's compiled chat template, with the special tokens that it may name.
///
/// ```
/// use rolecall_conversation::{Conversation, Message};
/// use rolecall_render::{ChatTemplate, TemplateOptions, Writer};
///
/// let source = "{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}\n{% endfor %}";
/// let template = ChatTemplate::compile(source, vec![("bos_token".into(), "<s>".into())])?;
/// let conversation = Conversation::new(vec![Message::user("Hello <s>")]);
/// let prompt = Writer::template(template, TemplateOptions::default()).render(&conversation)?;
/// assert_eq!(prompt.text(), "<s><|user|>Hello <s>\n");
/// assert_eq!(prompt.origin_at(11).and_then(|origin| origin.message()), Some(0));
/// # Ok::<(), rolecall_render::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ChatTemplate {
    program: Arc<jinja::Template>,
    /// The values of `bos_token`, `eos_token` and others, by name.
    tokens: Vec<(String, String)>,
    /// The form in which the template expects tool calls, once determined, and the number of steps
    /// that this took.
    calls: Arc<OnceLock<(Result<WantedCalls, Error>, u64)>>,
    /// Whether a message with calls needs a null content, once determined.
    nulls: Arc<OnceLock<bool>>,
    /// The forms of messages and tools that it writes, as far as they are determined.
    forms: Arc<forms::KnownForms>,
    /// The template's literals and which of them may be adjacent, once determined.
    writes: Arc<OnceLock<Result<Arc<jinja::Writes>, Error>>>,
    /// The template's source, which identifies the prompts that it wrote.
    identity: Arc<str>,
    /// What writes the prompts, if not the program.
    code: Option<Arc<dyn TemplateCode>>,
}

/// Options for rendering a conversation through a template.
#[derive(Clone, Debug, Default)]
pub struct TemplateOptions {
    /// The time that `strftime_now` returns. Without it, a template that calls `strftime_now` is
    /// refused.
    pub now: Option<DateTime>,
    /// The resources that a template may use.
    pub limits: Limits,
    /// Template arguments by name (such as `enable_thinking`), in addition to those in the
    /// conversation.
    pub kwargs: rolecall_conversation::json::Object,
    /// The forms in which the template receives messages, calls and tools.
    pub forms: Forms,
    /// What becomes of the keys of a message whose value is null.
    pub nulls: Nulls,
    /// Whether the prompt includes the token that opens it. If the tokenizer adds the token, it is
    /// removed from the template's output.
    pub bos: Bos,
}

/// What becomes of the keys of a message whose value is null, such as `content` beside tool calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Nulls {
    /// They are missing, as in transformers' `apply_chat_template`: many templates print `None` for
    /// null, or fail. A template that fails at a call unless its content is null gets null, where
    /// transformers fails.
    #[default]
    Missing,
    /// They are `None`, as in transformers' `render_jinja_template`.
    Kept,
}

/// The forms in which a template receives messages, calls and tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Forms {
    /// Those of the conversation. This is what transformers does.
    AsGiven,
    /// Those that the template writes, with the same meaning: requests have OpenAI's forms, and many templates
    /// fail at them, or write something else.
    ///
    /// - Arguments in JSON text become an object, or an object becomes JSON text (see [`WantedCalls`]). Missing
    ///   arguments become an empty object. Ids that the template would refuse are replaced.
    /// - A content of text parts becomes one text, with a line break between them, or a text becomes a part (see
    ///   [`ContentForm`]).
    /// - A content without text beside calls is missing, null, an empty text or a part, whichever does no harm.
    /// - Messages of the role `developer` become the system's, results get the names of their calls, and tools an
    ///   empty description or schema, if the template fails without, or leaves the message out.
    /// - Keys of messages that are null, and empty lists of calls, are missing.
    #[default]
    AsWanted,
}

impl Forms {
    /// The values by their words.
    pub const ALL: [(&'static str, Forms); 2] = [("as-given", Forms::AsGiven), ("as-wanted", Forms::AsWanted)];
}

impl ChatTemplate {
    /// The variables that every template receives, in addition to special tokens and template
    /// arguments.
    pub const GIVEN: [&'static str; 4] = ["messages", "tools", "documents", "add_generation_prompt"];

    /// Compiles a template with the default limits.
    pub fn compile(source: &str, tokens: Vec<(String, String)>) -> Result<ChatTemplate, Error> {
        ChatTemplate::compile_within(source, tokens, &Limits::default())
    }

    /// Compiles a template with the given limits on its size and nesting depth.
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
        Ok(ChatTemplate {
            program: Arc::new(program),
            tokens,
            calls: Arc::default(),
            nulls: Arc::default(),
            forms: Arc::default(),
            writes: Arc::default(),
            identity,
            code: None,
        })
    }

    /// Returns the template's source, with each line ended by `\n` except the last. Positions in
    /// errors refer to this text.
    pub fn source(&self) -> &str {
        self.program.source()
    }

    /// Reports whether the template may read the time (see [`TemplateOptions::now`]). If it does not, its
    /// prompts do not depend on it.
    pub fn may_read_clock(&self) -> bool {
        self.source().contains("strftime_now")
    }

    /// Returns the form in which the template expects tool calls. It is determined once, with a
    /// separate budget.
    pub fn wanted_calls(&self) -> Result<WantedCalls, Error> {
        self.wanted_calls_within(&ProbeBudget::default())
    }

    /// Returns the form in which the template expects tool calls, and charges the steps for
    /// determining it to `budget`, even if it was already known.
    pub fn wanted_calls_within(&self, budget: &ProbeBudget) -> Result<WantedCalls, Error> {
        let (wanted, steps) = self.calls.get_or_init(|| analysis::wanted_calls(self));
        budget.spend(*steps);
        wanted.clone()
    }

    /// Reports whether the template receives a message's keys whose value is null.
    fn keeps_nulls(&self, nulls: Nulls, messages: Messages<'_>, adapted: &ReplacementValues) -> bool {
        let has_null = || {
            adapted.has_null()
                || messages.iter().any(|(_, message)| message.as_object().iter().any(|(_, json)| json.is_null()))
        };
        match nulls {
            Nulls::Kept => true,
            Nulls::Missing => has_null() && *self.nulls.get_or_init(|| analysis::needs_nulls(self)),
        }
    }

    /// Returns the same template with a fixed answer to whether a message with calls needs a null
    /// content.
    fn needing_nulls(&self, needs: bool) -> ChatTemplate {
        ChatTemplate { nulls: Arc::new(OnceLock::from(needs)), ..self.clone() }
    }

    /// Returns the template's source, which is shared with every prompt that the template writes.
    pub fn identity(&self) -> &Arc<str> {
        &self.identity
    }

    /// Returns the template's literals and which of them may be adjacent in a prompt. They are
    /// determined once. Exceeding the limits is an error.
    pub fn writes(&self) -> Result<Arc<jinja::Writes>, Error> {
        let found = || {
            let mut writes = self.program.writes(&Limits::default()).map_err(in_template)?;
            // Code may write anything.
            writes.is_complete &= self.code.is_none();
            Ok(Arc::new(writes))
        };
        self.writes.get_or_init(found).clone()
    }

    /// Reports whether the template marks the text that the model generates (`{% generation %}`).
    pub fn has_generation_blocks(&self) -> bool {
        self.program.has_generation_blocks()
    }

    /// Returns the special tokens that the template may name.
    pub fn tokens(&self) -> &[(String, String)] {
        &self.tokens
    }
}

/// Renders a conversation.
pub(crate) fn render(
    conversation: &Conversation,
    template: &ChatTemplate,
    options: &TemplateOptions,
) -> Result<Prompt, Error> {
    rendered(conversation, template, options, None)
}

/// Renders a conversation as [`render`] does, with the account of what became of each of
/// its leaves.
pub(crate) fn account(
    conversation: &Conversation,
    template: &ChatTemplate,
    options: &TemplateOptions,
) -> Result<(Prompt, Account), Error> {
    traced(conversation, template, options, |inputs, adapted, trace, text| {
        inputs.account(conversation, options, adapted, trace, text)
    })
}

/// Renders a conversation as [`render`] does, and keeps what its account follows from.
pub(crate) fn record(
    conversation: &Conversation,
    template: &Arc<ChatTemplate>,
    options: &TemplateOptions,
) -> Result<(Prompt, RunRecord), Error> {
    traced(conversation, template, options, |inputs, adapted, trace, text| {
        RunRecord::new(inputs, trace, adapted, text, template, options)
    })
}

/// Renders a conversation as a probe, with steps from a budget that it shares with other probes.
pub(crate) fn probe(
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
    let (adapted, continued) = adapt(conversation, template, options)?;
    let (inputs, output, _) = run(conversation, template, options, &adapted, budget)?;
    let end = end_of(continued.as_ref(), &inputs, &output)?;
    Ok(finished(finish::prompt(&inputs, output, end, &[], None), conversation, template, options))
}

/// Renders a conversation, and passes what the run did with its inputs to `conclude`, with the text that it wrote.
fn traced<T>(
    conversation: &Conversation,
    template: &ChatTemplate,
    options: &TemplateOptions,
    conclude: impl FnOnce(&Inputs<'_>, &ReplacementValues, Trace, &str) -> T,
) -> Result<(Prompt, T), Error> {
    let (adapted, continued) = adapt(conversation, template, options)?;
    let (inputs, output, _) = run(conversation, template, options, &adapted, None)?;
    let end = end_of(continued.as_ref(), &inputs, &output)?;
    let mut trace = Trace::default();
    let prompt = finish::prompt(&inputs, output, end, &[], Some(&mut trace));
    let concluded = conclude(&inputs, &adapted, trace, prompt.text());
    Ok((finished(prompt, conversation, template, options), concluded))
}

/// Returns where the prompt ends in the output of a run.
fn end_of(continued: Option<&ContinuedMessage>, inputs: &Inputs<'_>, output: &jinja::Output) -> Result<usize, Error> {
    continued.map_or(Ok(output.text().len()), |continued| continued.cut(inputs, output))
}

/// Adds to a prompt what is known of it beside its text.
fn finished(
    mut prompt: Prompt,
    conversation: &Conversation,
    template: &ChatTemplate,
    options: &TemplateOptions,
) -> Prompt {
    prompt.open |= conversation.continue_final_message;
    prompt.template = Some(Arc::clone(&template.identity));
    match left_to_tokenizer(template, options) {
        Some(bos) => prompt.without_bos(bos),
        None => prompt,
    }
}

/// Returns the token that the tokenizer adds, so that it is removed from the template's output.
fn left_to_tokenizer<'t>(template: &'t ChatTemplate, options: &TemplateOptions) -> Option<&'t str> {
    let bos = template.tokens.iter().find(|(name, _)| name == "bos_token");
    bos.map(|(_, bos)| bos.as_str()).filter(|_| options.bos == Bos::LeaveToTokenizer)
}

/// Returns the parts of a conversation that the template receives in another form, and the message
/// that the model continues.
fn adapt(
    conversation: &Conversation,
    template: &ChatTemplate,
    options: &TemplateOptions,
) -> Result<(ReplacementValues, Option<ContinuedMessage>), Error> {
    // transformers: "Tools should either be a JSON schema, or a callable function".
    let tools = conversation.tools.iter().flatten();
    if let Some(tool) = tools.into_iter().position(|tool| matches!(tool, Tool::Text(_))) {
        return Err(Error::ToolText { tool });
    }
    let mut adapted = ReplacementValues::default();
    if options.forms == Forms::AsWanted {
        let messages = Messages::all(&conversation.messages);
        if messages.iter().any(|(_, message)| !message.is_plain() && message.as_object().get("tool_calls").is_some()) {
            adapt_calls(messages, template.wanted_calls()?, &ReplacementValues::default(), &mut adapted);
        }
        // Without its name, the template refuses the result.
        _ = adapt_forms(messages, conversation, template, &mut adapted);
    }
    let continued = continuing::mark(conversation, &mut adapted)?;
    Ok((adapted, continued))
}

/// Runs the program that writes a conversation, which is returned too.
fn run<'a>(
    conversation: &'a Conversation,
    template: &'a ChatTemplate,
    options: &'a TemplateOptions,
    adapted: &'a ReplacementValues,
    budget: Option<&ProbeBudget>,
) -> Result<(Inputs<'a>, jinja::Output, Arc<jinja::Template>), Error> {
    let written = template.written(conversation, options)?;
    let program = written.as_ref().map_or(&template.program, |written| &written.program);
    let inputs = Inputs::new(conversation, template, options, adapted);
    let clock = options.now.as_ref().map(|now| now as &dyn jinja::Clock);
    let mut limits = options.limits.clone();
    if let Some(budget) = budget {
        budget.check()?;
        limits.instructions = limits.instructions.min(budget.left());
    }
    let is_lowered = limits.instructions < options.limits.instructions;
    let environment = jinja::Environment { limits, clock, ..jinja::Environment::default() };
    let output = program.render(&inputs.context(), &environment);
    if let Some(budget) = budget {
        match &output {
            // The remaining budget is not enough for this conversation, even if some of it is
            // unused.
            Err(error) if is_lowered && error.kind() == OUT_OF_STEPS => budget.spend(u64::MAX),
            Err(error) => budget.spend_on(error.steps(), template.source().len(), 0),
            Ok(output) => budget.spend_on(output.steps(), template.source().len(), output.text().len()),
        }
    }
    match output {
        Ok(output) => {
            written.as_ref().map_or(Ok(()), |written| written.check(&output))?;
            Ok((inputs, output, Arc::clone(program)))
        }
        Err(error) => Err(at_message(&inputs, error)),
    }
}

/// Builds an error with the message at which it occurred.
fn at_message(inputs: &Inputs<'_>, error: jinja::Error) -> Error {
    let message = error.passes().iter().find_map(|tag| inputs.message_of(*tag));
    Error::Template { error, message }
}

/// The error of a rendering that exceeds its steps.
const OUT_OF_STEPS: jinja::ErrorKind = jinja::ErrorKind::Limit(jinja::LimitKind::Instructions);

/// Builds an error that is not related to a message.
fn in_template(error: jinja::Error) -> Error {
    Error::Template { error, message: None }
}
