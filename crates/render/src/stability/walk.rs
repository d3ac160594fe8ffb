use rolecall_conversation::{Conversation, Message, Role};

use super::{AddedMessage, KeptIds, KeptLength, Pace, Stability, Step, compare};
use crate::{DateTime, Error, Prompt, Writer};

/// Compares the prompts of a growing conversation, without their ids.
///
/// The conversation is rendered up to each of its messages, without a generation prompt. Before
/// each of the assistant's messages, it is also rendered with one. A conversation that continues
/// its last message does so in the last prompt. A message that the writer refuses is an error of
/// its steps, and the comparison goes on.
///
/// ```
/// use rolecall_conversation::{Conversation, Message};
/// use rolecall_render::stability::stability;
/// use rolecall_render::{ChatTemplate, TemplateOptions, Writer};
///
/// // A template that drops earlier answers.
/// let source = "{% for m in messages %}\n{% if m.role == 'user' or loop.last %}\n<{{ m.content }}>\n{% endif %}\n{% endfor %}";
/// let template = ChatTemplate::compile(source, Vec::new())?;
/// let messages = vec![Message::user("a"), Message::assistant("b"), Message::user("c")];
/// let writer = Writer::template(template, TemplateOptions::default());
/// let found = stability(&Conversation::new(messages), &writer);
///
/// let changes: Vec<_> = found.changes().collect();
/// assert_eq!(changes.len(), 1);
/// assert_eq!((changes[0].step.messages, changes[0].step.added.role.as_str()), (2, "user"));
/// // `<a><b>` became `<a><c>`: the byte is that of the second message's content, in line 3.
/// assert_eq!((changes[0].change.byte, changes[0].change.earlier.message), (5, Some(1)));
/// assert_eq!(changes[0].change.earlier.spot.map(|spot| spot.line), Some(3));
/// # Ok::<(), rolecall_render::Error>(())
/// ```
pub fn stability(conversation: &Conversation, writer: &Writer) -> Stability {
    stability_with(conversation, writer, Pace::default(), &mut |_| None)
}

/// Compares the prompts of a growing conversation and their ids. `ids` is called once for each
/// prompt, in order, and may return `None` if there is no tokenizer.
pub fn stability_with(
    conversation: &Conversation,
    writer: &Writer,
    pace: Pace,
    ids: &mut dyn FnMut(&Prompt) -> Option<Vec<u32>>,
) -> Stability {
    let mut walk = Walk { writer: writer.clone(), ids, pace };
    let Some((first, rest)) = conversation.messages.split_first() else { return Stability::default() };
    // One conversation grows, so that each message is copied once.
    let mut seen = Conversation {
        messages: Vec::with_capacity(conversation.messages.len()),
        tools: conversation.tools.clone(),
        documents: conversation.documents.clone(),
        add_generation_prompt: Some(false),
        continue_final_message: conversation.continue_final_message && rest.is_empty(),
        template_kwargs: conversation.template_kwargs.clone(),
    };
    seen.messages.push(first.clone());
    let mut steps = Vec::with_capacity(rest.len());
    let mut earlier = walk.rendered(&seen);
    for (at, message) in rest.iter().enumerate() {
        let opened = (*message.role() == Role::Assistant).then(|| {
            seen.add_generation_prompt = Some(true);
            let opened = walk.rendered(&seen);
            seen.add_generation_prompt = Some(false);
            opened
        });
        walk.pass_time(message);
        let is_last = at + 1 == rest.len();
        seen.continue_final_message = is_last && conversation.continue_final_message;
        seen.messages.push(message.clone());
        let later = walk.rendered(&seen);
        let history = walk.kept(&earlier, &later, &mut seen, false);
        let generation = opened.map(|opened| walk.kept(&opened, &later, &mut seen, true));
        steps.push(Step { messages: at + 1, added: AddedMessage::of(message), history, generation });
        earlier = later;
    }
    Stability { steps }
}

struct Walk<'a> {
    /// The writer at the current time.
    writer: Writer,
    ids: &'a mut dyn FnMut(&Prompt) -> Option<Vec<u32>>,
    pace: Pace,
}

/// A prompt of the conversation.
struct StepPrompt {
    prompt: Prompt,
    ids: Option<Vec<u32>>,
    /// The time at which it was rendered, if time passes.
    now: Option<DateTime>,
}

impl Walk<'_> {
    /// Returns the clock of the template, if time passes.
    fn clock(&mut self) -> Option<&mut Option<DateTime>> {
        match (&mut self.writer, self.pace) {
            (Writer::Template(_, options), Pace::Daily) => Some(&mut options.now),
            _ => None,
        }
    }

    /// Lets the time pass before a message.
    fn pass_time(&mut self, message: &Message) {
        if let Some(now) = self.clock()
            && !matches!(message.role(), Role::Assistant | Role::Tool)
        {
            *now = now.map(DateTime::next_day);
        }
    }

    fn rendered(&mut self, conversation: &Conversation) -> Result<StepPrompt, Error> {
        let prompt = self.writer.render(conversation)?;
        let ids = (self.ids)(&prompt);
        Ok(StepPrompt { prompt, ids, now: self.clock().and_then(|now| *now) })
    }

    /// Compares two prompts. `seen` is the conversation of the later one.
    fn kept(
        &mut self,
        earlier: &Result<StepPrompt, Error>,
        later: &Result<StepPrompt, Error>,
        seen: &mut Conversation,
        opened: bool,
    ) -> Result<KeptLength, Error> {
        let earlier = earlier.as_ref().map_err(Error::clone)?;
        let later = later.as_ref().map_err(Error::clone)?;
        let mut kept = compare(&earlier.prompt, &later.prompt);
        kept.ids = earlier.ids.as_deref().zip(later.ids.as_deref()).map(|(a, b)| KeptIds::compare(a, b));
        if let Some(change) = &mut kept.change {
            if let Some(written) = &mut change.later {
                written.spot = self.writer.spot_at(seen, change.byte).ok().flatten();
            }
            // The earlier conversation is the later one without its last message.
            let continues = std::mem::take(&mut seen.continue_final_message);
            let last = seen.messages.pop();
            seen.add_generation_prompt = Some(opened);
            change.earlier.spot = self.at(earlier.now, |writer| writer.spot_at(seen, change.byte).ok().flatten());
            seen.add_generation_prompt = Some(false);
            seen.messages.extend(last);
            seen.continue_final_message = continues;
        }
        Ok(kept)
    }

    /// Calls a function with the writer at a time.
    fn at<T>(&mut self, now: Option<DateTime>, call: impl FnOnce(&Writer) -> T) -> T {
        let present = self.clock().map(|clock| std::mem::replace(clock, now));
        let result = call(&self.writer);
        if let (Some(clock), Some(present)) = (self.clock(), present) {
            *clock = present;
        }
        result
    }
}
