//! A grammar as text for an engine.

mod gbnf;
mod lark;
mod regex;
mod structural_tag;

pub(crate) use regex::regex;

use crate::Note;

/// A grammar in an engine's own language.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Printed {
    /// The text.
    pub text: String,
    /// What it says less exactly than it was asked to.
    pub notes: Vec<Note>,
}
