use std::fmt;

use rolecall_render::growth::NotGrown;

use super::{Rewrite, Segment};

/// What an operation changes in the ids that an engine has processed.
#[derive(Clone, Debug, PartialEq)]
pub struct Delta {
    /// The number of ids that stay. It is smaller than the previous total only where the caller
    /// chose to rewrite or truncate.
    pub keep: usize,
    /// The ids that follow them.
    pub ids: Vec<u32>,
    /// Who wrote the new ids. Their indexes count from the start of the session.
    pub segments: Vec<Segment>,
    /// How the ids before were shown to be those of the longer conversation.
    pub proof: Proof,
    /// What the caller should know.
    pub notes: Vec<SessionNote>,
}

impl Delta {
    /// Returns the number of ids of the session after the operation.
    pub fn total(&self) -> usize {
        self.keep + self.ids.len()
    }
}

/// How the text before the new ids was shown to be what the template writes for the longer
/// conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Proof {
    /// There is nothing before the new ids.
    First,
    /// Nothing was rendered for them: they close a reply.
    Closing,
    /// Everything that was read and written before this byte is unchanged, so only the rest was
    /// rendered.
    Growth {
        /// The byte of the whole prompt from which on it was rendered.
        start: usize,
    },
    /// The whole conversation was rendered and compared.
    Whole {
        /// Why the new part could not be rendered alone.
        why: Option<NotGrown>,
    },
}

impl Proof {
    /// Returns a stable code: `first`, `closing`, `growth` or `whole`.
    pub fn code(&self) -> &'static str {
        match self {
            Proof::First => "first",
            Proof::Closing => "closing",
            Proof::Growth { .. } => "growth",
            Proof::Whole { .. } => "whole",
        }
    }
}

/// What the caller of a session should know about an operation.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum SessionNote {
    /// The model wrote ids after the token that stops it that are not the template's following
    /// text. They are kept.
    AfterStop {
        /// The number of ids.
        ids: usize,
    },
    /// The model stopped with another token than the one that the template writes there. It is
    /// kept, and the template's is not written.
    OtherStop {
        /// The text of the model's token.
        found: String,
        /// The text of the template's token.
        expected: String,
    },
    /// The model began the next turn with a token that the next message contradicts. It is kept,
    /// and the right header follows it.
    Contradicted {
        /// The text of the model's token.
        found: String,
        /// The text of the header's token.
        expected: String,
    },
    /// The model stopped inside its reasoning.
    StopInReasoning,
    /// The reply was cut off inside a call. The call is not completed and not part of the message.
    CutCall,
    /// The model finished a call that cannot be read, such as one with broken JSON. It is not part
    /// of the message; [`Reply::reading`](super::Reply::reading) has it with the reason.
    BrokenCall,
    /// The reply was unfinished and was closed.
    Closed {
        /// The number of ids that close it.
        ids: usize,
    },
    /// The template rewrites what was sent. It was kept, and the session differs from the stock
    /// rendering.
    Kept(Box<Rewrite>),
    /// The template rewrites what was sent, and it was written anew. The replaced ids are a
    /// [branch](super::Session::branches).
    Rewritten {
        /// The index of the branch.
        branch: usize,
        /// The number of ids that were replaced.
        ids: usize,
    },
    /// Messages were removed. The ids before that are a [branch](super::Session::branches).
    Truncated {
        /// The index of the branch.
        branch: usize,
        /// The number of messages that were removed.
        messages: usize,
        /// The number of ids before that.
        ids: usize,
    },
    /// The stock rendering writes a reply in another way. Its sampled ids are kept.
    Differs {
        /// The index of the message.
        message: usize,
    },
    /// A part of a message that the template does not write.
    LeftOut {
        /// The index of the message.
        message: usize,
        /// The field.
        field: String,
        /// Why.
        why: &'static str,
    },
}

impl SessionNote {
    /// Returns a stable code for the kind of note.
    pub fn code(&self) -> &'static str {
        match self {
            SessionNote::AfterStop { .. } => "after_stop",
            SessionNote::OtherStop { .. } => "other_stop",
            SessionNote::Contradicted { .. } => "contradicted",
            SessionNote::StopInReasoning => "stop_in_reasoning",
            SessionNote::CutCall => "cut_call",
            SessionNote::BrokenCall => "broken_call",
            SessionNote::Closed { .. } => "closed",
            SessionNote::Kept(_) => "kept",
            SessionNote::Rewritten { .. } => "rewritten",
            SessionNote::Truncated { .. } => "truncated",
            SessionNote::Differs { .. } => "differs",
            SessionNote::LeftOut { .. } => "left_out",
        }
    }
}

impl fmt::Display for SessionNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SessionNote::AfterStop { ids } => {
                write!(f, "the model wrote {} after its stop token, which the session keeps", Ids(*ids))
            }
            SessionNote::OtherStop { found, expected } => write!(
                f,
                "the model stopped with {found:?}, and the template writes {expected:?} there; the model's is kept"
            ),
            SessionNote::Contradicted { found, expected } => write!(
                f,
                "the model began the next turn with {found:?}, but it begins with {expected:?}; the model's token is kept"
            ),
            SessionNote::StopInReasoning => f.write_str("the model stopped inside its reasoning"),
            SessionNote::CutCall => {
                f.write_str("the reply was cut off inside a call, which is not part of the message")
            }
            SessionNote::BrokenCall => f.write_str("a call cannot be read and is not part of the message"),
            SessionNote::Closed { ids } => write!(f, "the reply was unfinished and is closed by {}", Ids(*ids)),
            SessionNote::Kept(rewrite) => write!(f, "kept although {rewrite}"),
            SessionNote::Rewritten { branch, ids } => {
                write!(f, "the template rewrites what was sent: {ids} ids are replaced and remain as branch {branch}")
            }
            SessionNote::Truncated { branch, messages, ids } => {
                write!(f, "{messages} messages were removed; the {ids} ids before that remain as branch {branch}")
            }
            SessionNote::Differs { message } => {
                write!(f, "message {message}: the template now writes this reply in another way; its ids are kept")
            }
            SessionNote::LeftOut { message, field, why } => {
                write!(f, "message {message}: `{field}` is not written: {why}")
            }
        }
    }
}

/// Writes a number of ids.
struct Ids(usize);

impl fmt::Display for Ids {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.0, if self.0 == 1 { "id" } else { "ids" })
    }
}
