use std::fmt;

/// Something that a grammar says less exactly than it was asked to. It never refuses what is right because of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note {
    /// A keyword of a tool's schema that is not followed: the grammar allows more than the schema.
    Keyword {
        /// The tool.
        tool: String,
        /// Where in its schema, as a JSON pointer.
        at: String,
        /// The keyword.
        keyword: String,
    },
    /// Calls open with a text that may stand in any answer, so an answer that makes calls holds nothing before them.
    NoContentBeforeCalls {
        /// How they open.
        opening: String,
    },
    /// The format has no layout for calls, so none can be made.
    NoCalls,
    /// The format has no layout for code, so the code interpreter cannot be called.
    NoInterpreter,
    /// The format's rules and marks allow one call in a turn only.
    OneCall,
    /// A control token whose text is no name to the engine and whose id is not known; it is asked for as text.
    TokenAsText {
        /// Its text.
        text: String,
    },
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Note::Keyword { tool, at, keyword } => {
                let at = if at.is_empty() { "its schema".to_owned() } else { format!("`{at}` of its schema") };
                write!(f, "tool `{tool}`: `{keyword}` in {at} is not followed, so more is allowed than it says")
            }
            Note::NoContentBeforeCalls { opening } => write!(
                f,
                "calls open with `{}`, which any answer may hold, so an answer that makes calls holds nothing before them",
                opening.escape_debug()
            ),
            Note::NoCalls => write!(f, "the format has no layout for calls, so none can be made"),
            Note::NoInterpreter => {
                write!(f, "the format has no layout for code, so the code interpreter cannot be called")
            }
            Note::OneCall => write!(f, "the format ends the turn with a call, so there is one call in a turn only"),
            Note::TokenAsText { text } => {
                write!(f, "the id of the control token `{text}` is not known, so it is asked for as text")
            }
        }
    }
}
