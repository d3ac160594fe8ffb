use std::fmt;

use super::Rewrite;

/// An operation that a session cannot do. The session is unchanged.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum SessionError {
    /// The plan was made for another state of the session.
    StalePlan,
    /// A reply is awaited.
    AwaitsReply,
    /// No reply is awaited.
    NotOpen,
    /// There are no messages.
    NoMessages,
    /// The template rewrites ids already sent.
    Rewrites(Box<Rewrite>),
    /// A message with a partial text cannot be appended.
    Continues,
    /// The loss was to follow the chat template's `{% generation %}` blocks.
    Tagged,
    /// The saved session belongs to another model.
    OtherModel {
        /// What differs: `template`, `tokenizer` ..
        part: &'static str,
    },
    /// The saved session has another version.
    OtherVersion {
        /// The version that was found.
        found: String,
    },
    /// The saved session is damaged.
    Damaged {
        /// Where and how.
        why: String,
    },
    /// The turns that must stay are longer than the limit.
    TooLong {
        /// The number of ids that must stay.
        least: usize,
        /// The limit.
        most: usize,
    },
}

impl SessionError {
    /// Returns a stable code for the kind of error.
    pub fn code(&self) -> &'static str {
        match self {
            SessionError::StalePlan => "stale_plan",
            SessionError::AwaitsReply => "awaits_reply",
            SessionError::NotOpen => "not_open",
            SessionError::NoMessages => "no_messages",
            SessionError::Rewrites(_) => "rewrites",
            SessionError::Continues => "continues",
            SessionError::Tagged => "no_tags",
            SessionError::OtherModel { .. } => "other_model",
            SessionError::OtherVersion { .. } => "other_version",
            SessionError::Damaged { .. } => "damaged_session",
            SessionError::TooLong { .. } => "too_long",
        }
    }

    /// Returns what to do about it.
    pub fn help(&self) -> &'static str {
        match self {
            SessionError::StalePlan => "make a new plan for the session as it is now",
            SessionError::AwaitsReply => "accept the model's reply first, or fork the session before `open`",
            SessionError::NotOpen => "call `open` and pass its ids to the engine first",
            SessionError::NoMessages => "append a message first",
            SessionError::Rewrites(_) => "choose to keep what was sent, or to rewrite it",
            SessionError::Continues => "append whole messages; a session continues replies by their ids",
            SessionError::Tagged => "choose a policy that is not `tagged`",
            SessionError::OtherModel { .. } => "restore the session with the model that it was saved with",
            SessionError::OtherVersion { .. } => "restore the session with the version of rolecall that saved it",
            SessionError::Damaged { .. } => "save the session again",
            SessionError::TooLong { .. } => "raise the limit",
        }
    }
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SessionError::StalePlan => f.write_str("the plan was made for another state of the session"),
            SessionError::AwaitsReply => f.write_str("the session awaits a reply"),
            SessionError::NotOpen => f.write_str("the session awaits no reply"),
            SessionError::NoMessages => f.write_str("the session has no messages"),
            SessionError::Rewrites(rewrite) => write!(f, "{rewrite}"),
            SessionError::Continues => f.write_str("a session cannot continue a message"),
            SessionError::Tagged => f.write_str(
                "the loss was to follow the chat template's tags, but a session's loss follows who wrote the ids",
            ),
            SessionError::OtherModel { part } => write!(f, "the session was saved with another {part}"),
            SessionError::OtherVersion { found } => write!(f, "unknown version {found} of a saved session"),
            SessionError::Damaged { why } => write!(f, "the saved session is damaged: {why}"),
            SessionError::TooLong { least, most } => {
                write!(f, "what must stay has {least} ids, more than the limit of {most}")
            }
        }
    }
}

impl std::error::Error for SessionError {}
