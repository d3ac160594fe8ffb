//! Renders a [`Conversation`] to a [`Prompt`], by a [`Format`] or by a chat template.
//!
//! [`render`] takes a conversation, a format and [`Options`]. The module `order` checks the
//! format's rules, `plan` turns messages into turns with layouts, and `write` fills in the layouts.
//! Every byte of the prompt has an [`Origin`]. Content that a format has no place for is refused,
//! or recorded in [`Prompt::dropped`].
//!
//! Start reading at [`render`].

mod call_ids;
mod error;
mod extend;
pub mod growth;
mod loss;
mod options;
mod order;
mod origin;
mod plan;
mod prompt;
mod role;
pub mod stability;
mod template;
mod trust;
mod write;

use rolecall_conversation::Conversation;
use rolecall_format::Format;

use role::Speakers;

pub use error::Error;
pub use extend::{extend, new_turn};
pub use loss::{
    FinalStop, Loss, LossNote, LossPolicy, LossSpan, LossTurns, PartWeights, RoleLoss, Written, loss_by_format,
    loss_by_template,
};
pub use options::{Bos, Options, RuleMode};
pub use origin::Origin;
pub use prompt::{Dropped, LeftOut, Prompt, Run, Runs, Segment, Turn, Unusual};
pub use rolecall_jinja as jinja;
pub use template::{
    ArgumentForm, BosUse, CallForm, Capability, ChatTemplate, DateTime, Finding, FindingKind, IdForm, Limits,
    ProbeBudget, Support, Switch, TemplateAnalysis, TemplateError, TemplateOptions, WantedCalls, analyze_template,
    analyze_template_within, left_out, probe_template, render_template, template_switches, without_media, written_at,
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
    let chosen = options::choose(conversation, format, options)?;
    let speakers = Speakers::new(conversation, format, options.rules);
    order::check(conversation, format, options.rules, speakers)?;
    let plan = plan::plan_turns(conversation, format, options.rules, speakers, &chosen)?;
    write::write_prompt(plan, format, options.bos, &chosen)
}
