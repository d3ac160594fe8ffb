use std::fmt;

/// The reason why only the whole conversation can be rendered.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotGrown {
    /// The state belongs to another format or template.
    OtherWriter,
    /// The format or template cannot be taken up after its messages.
    Unsupported(&'static str),
    /// Something that was read before depends on the messages that follow.
    Depends(&'static str),
    /// A message is needed that is not at hand.
    Needs {
        /// The index of the message.
        message: usize,
    },
    /// The rendering failed; rendering the whole conversation reports why.
    Failed,
}

impl NotGrown {
    /// Returns a stable code for the reason.
    pub fn code(&self) -> &'static str {
        match self {
            NotGrown::OtherWriter => "other_writer",
            NotGrown::Unsupported(_) => "unsupported",
            NotGrown::Depends(_) => "depends",
            NotGrown::Needs { .. } => "needs_message",
            NotGrown::Failed => "failed",
        }
    }
}

impl fmt::Display for NotGrown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotGrown::OtherWriter => f.write_str("the state belongs to another format or template"),
            NotGrown::Unsupported(what) => write!(f, "rendering cannot continue after {what}"),
            NotGrown::Depends(what) => write!(f, "{what} depends on the messages that follow"),
            NotGrown::Needs { message } => write!(f, "message {message} is needed again"),
            NotGrown::Failed => f.write_str("rendering the end alone failed"),
        }
    }
}
