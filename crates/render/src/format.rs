//! Rendering by a format: `order` checks its rules, `plan` turns messages into turns with layouts, and `write` fills in
//! the layouts.

use rolecall_conversation::Conversation;
use rolecall_format::Format;

use crate::options;
use crate::order::{self, OrderState};
use crate::plan::{self, Extent, Plan, PlanState};
use crate::role::Speakers;
use crate::task::Task;
use crate::window::Window;
use crate::write::{self, WriteState};
use crate::{Error, Options, Prompt};

/// Renders a conversation in the form that the format's model family was trained on.
pub(crate) fn render(conversation: &Conversation, format: &Format, options: &Options) -> Result<Prompt, Error> {
    let task = &Task { frame: conversation, messages: Window::whole(&conversation.messages), format, options };
    let speakers = Speakers::new(task);
    render_messages(task, speakers, Extent::of_whole(task, speakers, false), None, &mut None)
}

/// Renders messages after those that lead to the state `earlier`. If the extent has settled
/// messages, `later` becomes the state after them.
pub(crate) fn render_messages(
    task: &Task<'_>,
    speakers: Speakers<'_>,
    extent: Extent,
    earlier: Option<&State>,
    later: &mut Option<State>,
) -> Result<Prompt, Error> {
    let chosen = options::choose(task.frame, task.format, task.options)?;
    let passed = order::check(task, speakers, earlier.map(|state| state.order), extent.settled)?;
    let mut plan = Plan::new(task);
    plan::plan_turns(task, &extent, speakers, &chosen, earlier.map(|state| &state.plan), &mut plan)?;
    let mut settled = extent.settled.zip(plan.settled.take());
    let mark = settled.as_ref().map(|(message, (turns, _))| (*message, *turns));
    let mut written = None;
    let before = earlier.map(|state| &state.write);
    let prompt = write::write_prompt(&mut plan, task, &chosen, mark, before, &mut written)?;
    if let (Some((message, (_, plan))), Some(write)) = (settled.take(), written) {
        *later = Some(State { message, first: extent.first, order: passed, plan, write });
    }
    Ok(prompt)
}

/// The state of a rendering before a message, from which any longer conversation can be rendered.
#[derive(Clone, Debug)]
pub(crate) struct State {
    /// The index of the message.
    pub message: usize,
    /// The index of the first message after the system messages that open the conversation.
    pub first: usize,
    order: OrderState,
    pub plan: PlanState,
    pub write: WriteState,
}
