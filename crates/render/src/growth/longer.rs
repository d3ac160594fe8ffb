use rolecall_conversation::{Conversation, Message};

/// A long conversation of which only the first and last messages are at hand.
#[derive(Clone, Copy, Debug)]
pub struct Longer<'a> {
    /// Everything but the messages: tools, documents, template arguments, and whether a generation
    /// prompt is wanted. Its own messages are ignored.
    pub frame: &'a Conversation,
    /// The number of all messages.
    pub count: usize,
    /// The first messages.
    pub head: &'a [&'a Message],
    /// The last messages. They may overlap with `head` in a short conversation.
    pub tail: &'a [&'a Message],
}

impl<'a> Longer<'a> {
    /// Returns a message, or `None` if it is not at hand.
    pub fn message(&self, index: usize) -> Option<&'a Message> {
        let tail_start = self.count.checked_sub(self.tail.len())?;
        match index.checked_sub(tail_start) {
            Some(at) => self.tail.get(at).copied(),
            None => self.head.get(index).copied(),
        }
    }
}
