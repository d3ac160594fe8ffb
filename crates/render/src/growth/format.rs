//! Growth of a format's prompt: planning and writing continue after the messages whose turns are
//! settled.

use std::sync::Arc;

use rolecall_conversation::{Conversation, Message, Role};
use rolecall_format::{Codec, Control, Field, Format, Op, Slot};

use super::{Grown, Growth, GrowthKind, Longer, NotGrown};
use crate::format::{State, render_messages};
use crate::plan::{Extent, Replacement};
use crate::role::{Speakers, SpeakersState, is_blank};
use crate::task::Task;
use crate::window::Window;
use crate::{Error, Options, Prompt};

/// The state of a format's rendering.
#[derive(Debug)]
pub(super) struct FormatGrowth {
    controls: Arc<[Control]>,
    options: Options,
    speakers: SpeakersState,
    /// The number of messages that have been rendered. Not all of their turns are settled.
    count: usize,
    state: State,
}

pub(super) fn render(
    conversation: &Conversation,
    format: &Format,
    options: &Options,
) -> Result<(Prompt, Option<FormatGrowth>), Error> {
    let task = &Task { frame: conversation, messages: Window::whole(&conversation.messages), format, options };
    let speakers = Speakers::new(task);
    let mut state = None;
    let prompt = render_messages(task, speakers, Extent::of_whole(task, speakers, true), None, &mut state)?;
    Ok((prompt, state.map(|state| FormatGrowth::after(task, speakers.state(), state))))
}

pub(super) fn grow(
    growth: &FormatGrowth,
    longer: &Longer<'_>,
    format: &Format,
    options: &Options,
) -> Result<Grown, NotGrown> {
    if !growth.is_of(format, options) {
        return Err(NotGrown::OtherWriter);
    }
    let messages = growth.rest_of(longer)?;
    let task = &Task { frame: longer.frame, messages, format, options };
    let speakers = Speakers::restore(format, growth.speakers);
    growth.check(task, speakers)?;
    let extent = Extent::of_rest(task, speakers, growth.state.first);
    let mut state = None;
    let rendered = render_messages(task, speakers, extent, Some(&growth.state), &mut state);
    let prompt = rendered.map_err(|_| NotGrown::Failed)?;
    let grown = state.map(|state| FormatGrowth::after(task, growth.speakers, state));
    Ok(Grown {
        start: growth.state.write.bytes,
        prompt: prompt.cut_out(),
        growth: grown.map(|grown| Growth(GrowthKind::Format(Arc::new(grown)))),
    })
}

impl FormatGrowth {
    fn after(task: &Task<'_>, speakers: SpeakersState, state: State) -> FormatGrowth {
        let (controls, options) = (Arc::clone(&task.format.controls), task.options.clone());
        FormatGrowth { controls, options, speakers, count: task.messages.end(), state }
    }

    /// Returns the index of the first message whose turn is not settled.
    pub fn first_message(&self) -> usize {
        self.state.message
    }

    fn is_of(&self, format: &Format, options: &Options) -> bool {
        let same = Arc::ptr_eq(&self.controls, &format.controls) || self.controls == format.controls;
        same && self.options == *options
    }

    /// Returns the messages after the settled ones.
    fn rest_of<'a>(&self, longer: &Longer<'a>) -> Result<Window<'a>, NotGrown> {
        let at = self.state.message;
        if longer.count < self.count {
            return Err(NotGrown::Depends("a message that was removed"));
        }
        let tail = longer.count.checked_sub(longer.tail.len());
        let rest = match tail.and_then(|tail| at.checked_sub(tail)) {
            Some(skipped) => longer.tail.get(skipped..),
            None => longer.head.get(at..longer.count),
        };
        rest.map(|rest| Window::lent(at, rest)).ok_or(NotGrown::Needs { message: at })
    }

    /// Checks that the new messages change nothing that was written before the settled messages
    /// ended. Everything else that is written depends only on the messages before it.
    fn check(&self, task: &Task<'_>, speakers: Speakers<'_>) -> Result<(), NotGrown> {
        let plan = &self.state.plan.progress;
        let is_asked = task.format.rules.interpreter_field.is_some();
        for message in task.messages.between(self.count, task.messages.end()) {
            if *speakers.roles.of(message) == Role::System {
                if plan.replaced == Replacement::Next {
                    return Err(NotGrown::Depends("the tool prompt"));
                }
                if plan.adds_for_lack && !is_blank(message, task.format) {
                    return Err(NotGrown::Depends("the format's own system message"));
                }
            }
            if is_asked && message.tools().is_some() {
                return Err(NotGrown::Depends("the rule `interpreter-field`"));
            }
            if self.state.write.meets(message) {
                return Err(NotGrown::Depends("the generated id of a call"));
            }
        }
        let has_tools = |message: &Message| message.tools().is_some();
        let may_print = !plan.printed && (plan.offers || task.messages.iter().any(has_tools));
        if may_print && asks_for_tools(task.format) {
            return Err(NotGrown::Depends("text that announces the tools"));
        }
        Ok(())
    }
}

/// Reports whether a layout writes something only if tools are printed anywhere in the prompt.
fn asks_for_tools(format: &Format) -> bool {
    fn among(ops: &[Op]) -> bool {
        ops.iter().any(|op| match op {
            Op::Hole { field: Field::Tools | Field::Functions, codec, .. } => *codec == Codec::Present,
            Op::Group(inner) => among(inner),
            _ => false,
        })
    }
    let templates = format.defaults.system_templates.iter().map(|(_, layout)| layout);
    let layouts = Slot::ALL.into_iter().filter_map(|slot| format.layout(slot));
    layouts.chain(templates).any(|layout| among(layout.ops()))
}
