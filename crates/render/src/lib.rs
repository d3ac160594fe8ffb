//! Renders a conversation to a [`Prompt`], by a format or by a chat template.
//!
//! A [`Writer`] is a format or a template, with its options. Everything that depends on which of the two it is goes
//! through it: rendering, the account, growth, loss, and the comparison of prompts. Every byte of a prompt has an
//! [`Origin`]. Content that a writer has no place for is refused, or recorded in [`Prompt::dropped`].
//!
//! Start reading at [`Writer::render`].

mod account;
mod call_ids;
mod error;
mod format;
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
mod writer;

pub use account::{Account, Change, DesignRule, FormChange, FormKind, Leaf, LeafGroup, LeafKind, Remedy};
pub use error::Error;
pub use loss::{
    FinalStop, Loss, LossNote, LossPolicy, LossSpan, LossTurns, ModelText, PartWeights, ReplyPart, RoleLoss,
};
pub use options::{Bos, Options, RuleMode, chosen_spelling};
pub use origin::Origin;
pub use prompt::{Dropped, LeftOut, Prompt, Run, Runs, Segment, Turn, Unusual};
pub use rolecall_jinja as jinja;
pub use template::{
    ArgumentForm, AroundTurns, BosUse, Capability, ChatTemplate, CodeError, CodeErrorKind, CodeMessage, CodePiece,
    ContentForm, DateTime, EFFORT_SWITCH, EFFORTS, Finding, FindingKind, Forms, IdForm, Limits, Nulls, ProbeBudget,
    RunRecord, Support, Switch, TemplateAnalysis, TemplateCode, TemplateError, TemplateOptions, WantedCalls,
    analyze_template, analyze_template_within, left_out, left_out_of, template_switches, without_media,
};
pub use trust::{ROLES, Trust};
pub use writer::Writer;
