use std::borrow::Cow;

use rolecall_format::ControlId;

/// Where a byte of a prompt came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The format: a control token.
    Control(ControlId),
    /// The format: literal text, or a default that it adds.
    Format,
    /// A message.
    Message {
        /// Which, from 0.
        message: usize,
        /// What of it: `content`, `content[1]`, `name`, `tool_calls[0].function.arguments`.
        field: Cow<'static, str>,
    },
    /// A tool that the conversation offers.
    Tool {
        /// Which, from 0.
        tool: usize,
    },
    /// An option that the caller gave.
    Option {
        /// Its name.
        name: String,
    },
}

impl Origin {
    /// Whether the format wrote it, so that it may hold control tokens.
    pub fn is_format(&self) -> bool {
        matches!(self, Origin::Control(_) | Origin::Format)
    }

    /// The message it came from.
    pub fn message(&self) -> Option<usize> {
        match self {
            Origin::Message { message, .. } => Some(*message),
            _ => None,
        }
    }
}
