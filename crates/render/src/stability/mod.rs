//! Whether adding a message to a conversation changes what was already rendered.
//!
//! An engine keeps the ids that it has processed. They stay valid only if the next prompt begins
//! with the previous one. [`compare`] compares two prompts of one writer, and [`stability`]
//! compares all prompts of a growing conversation. Nothing is searched: the texts are compared, and
//! origins determine what wrote the first byte that differs.
//!
//! Start reading at [`stability`].

mod change;
mod kept;
mod pace;
mod report;
mod step;
mod walk;

pub use change::{ByteSource, Change};
pub use kept::{KeptIds, KeptLength, compare};
pub use pace::Pace;
pub use report::{Stability, StepChange};
pub use step::{AddedMessage, Step};
pub use walk::{stability, stability_with};
