//! Infers the layouts with which a chat template writes an assistant's turn, as a `Format`, and
//! reports what cannot be inferred.
//!
//! The module `probe` renders conversations and cuts out the assistant's turn. `located` replaces
//! the conversation's own text in it by holes, based on origins. `arguments`, `calls` and `turn`
//! compare such turns until only literal text and holes remain.
//!
//! Start reading at [`infer`].

mod arguments;
mod borrowed;
mod cache;
mod calls;
mod ends;
mod found;
mod infer;
mod limits;
mod located;
mod marker;
mod opened;
mod optional;
mod other_marks;
mod pattern;
mod probe;
mod reasoning;
mod repetition;
mod report;
mod said;
mod sequence;
mod spans;
mod stages;
mod turn;
mod typed;
mod value;
mod verify;
mod warning;

pub use cache::Cache;
pub use infer::{InferredFormat, infer, infer_within};
pub use limits::Limits;
pub use report::{Note, Outcome, Report, TurnPart};
pub use warning::LayoutWarning;
