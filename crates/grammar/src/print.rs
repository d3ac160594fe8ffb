//! Printers of grammars for the engines.

mod gbnf;
mod lark;
mod regex;
mod structural_tag;

pub(crate) use regex::regex;

use crate::Note;

/// A grammar in an engine's own language.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrintedGrammar {
    /// The text.
    pub text: String,
    /// The requirements that the text does not express exactly.
    pub notes: Vec<Note>,
}
