//! Renderings that keep their state, and renderings that take one up.

use std::sync::Arc;

use rolecall_conversation::Conversation;
use rolecall_jinja as jinja;

use super::adapt::ReplacementValues;
use super::messages::Messages;
use super::prepare::Inputs;
use super::{ChatTemplate, DateTime, Forms, TemplateOptions, adapt_calls, adapt_forms, finish, left_to_tokenizer};
use crate::growth::{Longer, NotGrown};
use crate::{Bos, Error, Prompt, Turn};

/// The state of a template's rendering at the top of its loop over the messages.
#[derive(Debug)]
pub(crate) struct TemplateGrowth {
    template: Arc<jinja::Template>,
    now: Option<DateTime>,
    forms: Forms,
    bos: Bos,
    growing: jinja::Growing,
    /// The last two turns before each byte of the output at which it can be taken up.
    turns: Vec<(usize, Vec<Turn>)>,
    /// Whether the template was told to end with a generation prompt.
    generates: bool,
    /// The number of bytes of the opening token that were removed from the output.
    removed: usize,
    /// Whether a message has tool calls.
    has_calls: bool,
    /// The last calls, in the form that the template expects.
    adapted: ReplacementValues,
    /// The number of messages.
    count: usize,
}

pub(crate) fn render(
    conversation: &Conversation,
    template: &ChatTemplate,
    options: &TemplateOptions,
) -> Result<(Prompt, Option<TemplateGrowth>), Error> {
    let messages = Messages::all(&conversation.messages);
    let has_calls = has_calls(messages);
    if template.code.is_some() || conversation.continue_final_message || (has_calls && renames(template, options)?) {
        return Ok((super::render(conversation, template, options)?, None));
    }
    let (adapted, _) = adapt(messages, conversation, has_calls, template, options, &ReplacementValues::default())?;
    let inputs = Inputs::with_messages(messages, conversation, template, options, &adapted);
    let ran = template.program.render_growing(&inputs.context(), &inputs, &environment(options));
    let (output, growing) = ran.map_err(|error| super::at_message(&inputs, error))?;
    let end = output.text().len();
    let mut prompt = finish::prompt(&inputs, output, end, &[], None);
    prompt.template = Some(Arc::clone(&template.identity));
    let bos = left_to_tokenizer(template, options);
    if let Some(bos) = bos {
        prompt = prompt.without_bos(bos);
    }
    let removed = end - prompt.text().len();
    // Earlier, the opening token may be incomplete.
    let growing = growing.after(bos.map_or(0, str::len));
    let turns =
        growing.starts().map(|at| (at, turns_before(&[], prompt.turns(), at.saturating_sub(removed)))).collect();
    let growth = TemplateGrowth {
        template: Arc::clone(&template.program),
        now: options.now,
        forms: options.forms,
        bos: options.bos,
        growing,
        turns,
        generates: inputs.generates,
        removed,
        has_calls,
        adapted: adapted.of_last(),
        count: messages.count,
    };
    Ok((prompt, Some(growth)))
}

pub(crate) fn grow(
    growth: &TemplateGrowth,
    longer: &Longer<'_>,
    template: &ChatTemplate,
    options: &TemplateOptions,
) -> Result<(usize, Prompt, Option<TemplateGrowth>), NotGrown> {
    let is_same = Arc::ptr_eq(&growth.template, &template.program)
        && (growth.now, growth.forms, growth.bos) == (options.now, options.forms, options.bos);
    if !is_same {
        return Err(NotGrown::OtherWriter);
    }
    if longer.frame.continue_final_message {
        return Err(NotGrown::Unsupported("a message that the model is to continue"));
    }
    let messages = Messages::of(longer);
    if messages.count < growth.count {
        return Err(NotGrown::Unsupported("messages that were removed"));
    }
    let failed = |_: Error| NotGrown::Failed;
    let has_calls = growth.has_calls || has_calls(messages);
    if has_calls && renames(template, options).map_err(failed)? {
        return Err(NotGrown::Unsupported("call ids that are numbered over the conversation"));
    }
    let (adapted, unknown) =
        adapt(messages, longer.frame, has_calls, template, options, &growth.adapted).map_err(failed)?;
    if let (Some(_), Some(message)) = (unknown, messages.last_missing()) {
        return Err(NotGrown::Needs { message });
    }
    let inputs = Inputs::with_messages(messages, longer.frame, template, options, &adapted);
    let is_switched = inputs.generates != growth.generates;
    let context = inputs.context();
    let ran = template.program.grow(&context, &inputs, &growth.growing, is_switched, &environment(options));
    if let Some(message) = inputs.needs() {
        return Err(NotGrown::Needs { message });
    }
    let jinja::Grown { start, output, growing, .. } = match ran {
        Ok(Some(grown)) => grown,
        Ok(None) if growth.growing.latest().is_some() => return Err(NotGrown::Depends("`add_generation_prompt`")),
        Ok(None) => return Err(NotGrown::Depends("the text of all messages")),
        Err(_) => return Err(NotGrown::Failed),
    };
    // The opening token may be removed from the text before.
    if start < left_to_tokenizer(template, options).map_or(0, str::len) {
        return Err(NotGrown::Depends("the text before all messages"));
    }
    let end = output.text().len();
    let before = growth.turns.iter().find(|(known, _)| *known == start).map(|(_, turns)| turns.clone());
    let before = before.unwrap_or_default();
    let mut prompt = finish::prompt(&inputs, output, end, &before, None);
    let earlier = growth.turns.iter().filter(|(known, _)| *known <= start);
    let turns = growing.starts().map(|at| match earlier.clone().find(|(known, _)| *known == at) {
        Some(known) => known.clone(),
        None => (at, turns_before(&before, prompt.turns(), at.saturating_sub(start))),
    });
    let turns = turns.collect();
    prompt.template = Some(Arc::clone(&template.identity));
    let growth = TemplateGrowth {
        template: Arc::clone(&growth.template),
        growing,
        turns,
        generates: inputs.generates,
        has_calls,
        adapted: adapted.of_last(),
        count: messages.count,
        ..*growth
    };
    Ok((start.saturating_sub(growth.removed), prompt, Some(growth)))
}

impl TemplateGrowth {
    /// Returns the line of the loop that is taken up, and the message that it is taken up at.
    pub(crate) fn place(&self) -> Option<(u32, usize)> {
        let checkpoint = self.growing.latest()?;
        Some((self.template.spot(checkpoint.loop_at()).line, checkpoint.next()))
    }
}

/// Returns the last two turns that begin before a byte of a prompt. `before` has the turns before
/// the prompt, the last of which may go on in it.
fn turns_before(before: &[Turn], turns: &[Turn], byte: usize) -> Vec<Turn> {
    let is_known = |turn: &&Turn| turn.start == 0 && before.iter().any(|known| known.message == turn.message);
    let new = turns.iter().skip_while(is_known).take_while(|turn| turn.start < byte);
    let all: Vec<Turn> = before.iter().chain(new).copied().collect();
    all[all.len().saturating_sub(2)..].to_vec()
}

fn has_calls(messages: Messages<'_>) -> bool {
    messages.iter().any(|(_, message)| message.as_object().get("tool_calls").is_some())
}

/// Reports whether calls get new ids, which depend on all messages.
fn renames(template: &ChatTemplate, options: &TemplateOptions) -> Result<bool, Error> {
    Ok(options.forms == Forms::AsWanted && template.wanted_calls()?.ids.is_some())
}

/// Returns the replacements, and the first message whose form depends on one that is not at hand.
fn adapt(
    messages: Messages<'_>,
    frame: &Conversation,
    has_calls: bool,
    template: &ChatTemplate,
    options: &TemplateOptions,
    earlier: &ReplacementValues,
) -> Result<(ReplacementValues, Option<usize>), Error> {
    let mut adapted = ReplacementValues::default();
    if options.forms == Forms::AsGiven {
        return Ok((adapted, None));
    }
    if has_calls {
        adapt_calls(messages, template.wanted_calls()?, earlier, &mut adapted);
    }
    let unknown = adapt_forms(messages, frame, template, &mut adapted);
    Ok((adapted, unknown))
}

fn environment(options: &TemplateOptions) -> jinja::Environment<'_> {
    let clock = options.now.as_ref().map(|now| now as &dyn jinja::Clock);
    jinja::Environment { limits: options.limits.clone(), clock, ..jinja::Environment::default() }
}
