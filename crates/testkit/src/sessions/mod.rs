//! Sessions of which every operation is checked, and what plays them.
//!
//! - `fitted` gives a vocabulary the markers of a template.
//! - `subject` opens models: formats and templates with tokenizers that fit.
//! - `watched` is a session of which every operation is checked against the laws.
//! - `play` turns any bytes into a script of operations.

mod fitted;
mod play;
mod subject;
mod watched;

pub use fitted::Fitted;
pub use play::{Played, play};
pub use subject::{Subject, Vocabulary};
pub use watched::Watched;
