use std::fmt;
use std::sync::Arc;

use rolecall_conversation::Message;
use rolecall_render::jinja::Spot;

use super::Session;
use super::line::Line;
use super::stock::Next;

/// Messages that may be appended to a session, and what this changes.
///
/// A plan belongs to the state of the session in which it was made.
#[derive(Clone)]
pub struct Plan {
    pub(super) new: Vec<Arc<Message>>,
    pub(super) next: Arc<Next>,
    /// The session as the plan continues it.
    pub(super) base: Session,
    /// The state that it belongs to.
    pub(super) line: Line,
    pub(super) pending: Vec<Arc<Message>>,
}

impl Plan {
    /// Returns what the template rewrites of the ids already sent, or `None` if they stay valid.
    pub fn rewrite(&self) -> Option<&Rewrite> {
        self.next.rewrite.as_ref()
    }

    /// Reports whether all ids already sent stay valid.
    pub fn is_stable(&self) -> bool {
        self.next.rewrite.is_none()
    }
}

/// A place from which on a template writes other text than it wrote before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewrite {
    /// The first byte of the stock prompt that differs.
    pub byte: usize,
    /// The index of the message at that byte, if it belongs to one.
    pub message: Option<usize>,
    /// The place in the template that wrote the earlier text. A format has none.
    pub line: Option<Spot>,
    /// The number of ids already sent from that byte on: what an engine would have to process
    /// again.
    pub ids: usize,
    /// The beginning of the earlier text at that byte.
    pub before: String,
    /// The beginning of the text that replaces it.
    pub after: String,
}

impl fmt::Display for Rewrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the template rewrites byte {}", self.byte)?;
        if let Some(message) = self.message {
            write!(f, " (message {message})")?;
        }
        if let Some(line) = self.line {
            write!(f, ", line {}", line.line)?;
        }
        write!(f, ": {:?} becomes {:?}, which costs {} ids", self.before, self.after, self.ids)
    }
}

/// What to do where a template rewrites ids already sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnRewrite {
    /// Refuses the messages.
    #[default]
    Refuse,
    /// Keeps what was sent. The session then differs from the stock rendering, which
    /// [`Session::difference`](super::Session::difference) shows.
    Keep,
    /// Writes the text anew from the changed place. The replaced ids stay readable as a
    /// [branch](super::Session::branches).
    Rewrite,
}
