use rolecall_conversation::Conversation;
use rolecall_format::Format;

use crate::Options;
use crate::window::Window;

/// The messages to render, and how.
#[derive(Clone, Copy)]
pub(crate) struct Task<'a> {
    /// Everything in the conversation but the messages.
    pub frame: &'a Conversation,
    pub messages: Window<'a>,
    pub format: &'a Format,
    pub options: &'a Options,
}
