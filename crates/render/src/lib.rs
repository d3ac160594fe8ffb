//! Renders a [`Conversation`] to a [`Prompt`], by a [`Format`] or by a chat template.
//!
//! [`render`] takes a conversation, a format and [`Options`]. The module `order` checks the
//! format's rules, `plan` turns messages into turns with layouts, and `write` fills in the layouts.
//! Every byte of the prompt has an [`Origin`]. Content that a format has no place for is refused,
//! or recorded in [`Prompt::dropped`].
//!
//! Start reading at [`render`].

mod account;
mod call_ids;
mod error;
pub mod growth;
mod loss;
mod options;
mod order;
mod origin;
mod plan;
mod prompt;
mod role;
mod shared_map;
pub mod stability;
mod task;
mod template;
mod trust;
mod window;
mod write;

use rolecall_conversation::Conversation;
use rolecall_format::Format;

use order::OrderState;
use plan::{Extent, Plan, PlanState};
use role::Speakers;
use task::Task;
use window::Window;
use write::WriteState;

pub use account::{
    Account, Change, DesignRule, FormChange, FormKind, Leaf, LeafGroup, LeafKind, Remedy, account_by_format,
};
pub use error::Error;
pub use loss::{
    FinalStop, Loss, LossNote, LossPolicy, LossSpan, LossTurns, ModelText, PartWeights, ReplyPart, RoleLoss,
    loss_by_format, loss_by_template,
};
pub use options::{Bos, Options, RuleMode, chosen_spelling};
pub use origin::Origin;
pub use prompt::{Dropped, LeftOut, Prompt, Run, Runs, Segment, Turn, Unusual};
pub use rolecall_jinja as jinja;
pub use template::{
    ArgumentForm, AroundTurns, BosUse, Capability, ChatTemplate, ContentForm, DateTime, Finding, FindingKind, Forms,
    IdForm, Limits, Nulls, ProbeBudget, RunRecord, Support, Switch, TemplateAnalysis, TemplateError, TemplateOptions,
    WantedCalls, account_by_template, analyze_template, analyze_template_within, left_out, left_out_of, probe_template,
    record_template, render_template, template_switches, without_media, written_at,
};
pub use trust::{ROLES, Trust};

/// Renders a conversation in the form that the format's model family was trained on.
///
/// ```
/// use rolecall_conversation::{Conversation, Message};
/// use rolecall_format::builtin;
/// use rolecall_render::{Options, render};
///
/// let registry = builtin();
/// let format = registry.get("chatml").expect("built in");
/// let conversation = Conversation::new(vec![Message::user("Hello")]);
/// let prompt = render(&conversation, format, &Options::default())?;
/// assert_eq!(prompt.text(), "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n");
/// # Ok::<(), rolecall_render::Error>(())
/// ```
pub fn render(conversation: &Conversation, format: &Format, options: &Options) -> Result<Prompt, Error> {
    let task = &Task { frame: conversation, messages: Window::whole(&conversation.messages), format, options };
    let speakers = Speakers::new(task);
    render_messages(task, speakers, Extent::of_whole(task, speakers, false), None, &mut None)
}

/// Renders messages after those that lead to the state `earlier`. If the extent has settled
/// messages, `later` becomes the state after them.
fn render_messages(
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
struct State {
    /// The index of the message.
    message: usize,
    /// The index of the first message after the system messages that open the conversation.
    first: usize,
    order: OrderState,
    plan: PlanState,
    write: WriteState,
}
