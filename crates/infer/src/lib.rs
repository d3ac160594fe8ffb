//! In: a chat template. Out: the layouts with which it writes an assistant's turn, as a `Format`, and what of it cannot be told.
//! Between: `probe` renders conversations and cuts the assistant's turn out, `located` makes holes of what was said in it (by origin),
//! `arguments`, `calls` and `turn` compare such turns until literal text and holes are left.
//! Start reading at [`infer`].

mod arguments;
mod cache;
mod calls;
mod ends;
mod found;
mod infer;
mod limits;
mod located;
mod optional;
mod pattern;
mod probe;
mod reasoning;
mod repetition;
mod report;
mod said;
mod sequence;
mod stages;
mod turn;
mod value;
mod verify;

pub use cache::Cache;
pub use infer::{Inferred, infer, infer_within};
pub use limits::Limits;
pub use report::{Note, Outcome, Part, Report};
