//! Whether adding a message to a conversation changes what was already rendered.
//!
//! [`Model::stability`] compares the prompts of a growing conversation,
//! [`ModelPrompt::kept_in`](crate::model::ModelPrompt::kept_in) two prompts, and [`report`] does
//! the former over a set of conversations that were chosen to expose changes ([`Case`]).

mod case;
mod json;
mod report;

pub use case::Case;
pub use json::to_json;
pub use report::{Report, is_prefix_stable, report};
pub use rolecall_render::stability::{
    AddedMessage, ByteSource, Change, KeptIds, KeptLength, Pace, Stability, Step, StepChange, compare, stability,
    stability_with,
};

#[cfg(doc)]
use crate::Model;
