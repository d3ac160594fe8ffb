use std::fmt;

use crate::Purpose;

/// A difference between a grammar and what was asked for: it allows more, or less.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note {
    /// A keyword of a schema that is not enforced, so that the grammar allows more than the schema.
    Keyword {
        /// What the schema is for.
        purpose: Purpose,
        /// The position in the schema, as a JSON pointer.
        at: String,
        /// The keyword.
        keyword: String,
    },
    /// Calls open with a text that may occur in any answer, so an answer with calls has no text
    /// before them.
    NoContentBeforeCalls {
        /// The text that opens calls.
        opening: String,
    },
    /// The format has no layout for calls, so no calls are possible.
    NoCalls,
    /// The format has no layout for code, so the code interpreter cannot be called.
    NoInterpreter,
    /// The format's rules or markers allow only one call per turn.
    OneCall,
    /// A control token whose text does not name a token to the engine and whose id is unknown. The
    /// grammar expects it as text.
    TokenAsText {
        /// The token's text.
        text: String,
    },
}

impl Note {
    /// Returns a stable name for the kind of note: `looser_grammar` if the grammar allows more than was
    /// asked for, `tighter_grammar` if it allows less.
    pub fn code(&self) -> &'static str {
        match self {
            Note::Keyword { .. } => "looser_grammar",
            Note::NoContentBeforeCalls { .. } | Note::NoCalls | Note::NoInterpreter | Note::OneCall => {
                "tighter_grammar"
            }
            Note::TokenAsText { .. } => "token_as_text",
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Note::Keyword { purpose, at, keyword } => {
                let at = if at.is_empty() { "its schema".to_owned() } else { format!("`{at}` of its schema") };
                write!(f, "{purpose}: `{keyword}` in {at} is not enforced, so the grammar allows more than the schema")
            }
            Note::NoContentBeforeCalls { opening } => write!(
                f,
                "calls open with `{}`, which any answer may contain, so an answer with calls has no text before them",
                opening.escape_debug()
            ),
            Note::NoCalls => write!(f, "the format has no layout for calls, so no calls are possible"),
            Note::NoInterpreter => {
                write!(f, "the format has no layout for code, so the code interpreter cannot be called")
            }
            Note::OneCall => write!(f, "the format ends the turn after a call, so a turn has at most one call"),
            Note::TokenAsText { text } => {
                write!(f, "the id of the control token `{text}` is unknown, so the grammar expects it as text")
            }
        }
    }
}
