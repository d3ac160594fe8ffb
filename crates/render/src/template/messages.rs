use rolecall_conversation::Message;

use crate::growth::Longer;

/// The messages that a template receives: all of them, or a conversation's first and last ones.
///
/// Those at hand are numbered in their order; a message's index is that in the conversation.
#[derive(Clone, Copy)]
pub(super) struct Messages<'a> {
    all: &'a [Message],
    head: &'a [&'a Message],
    tail: &'a [&'a Message],
    /// The number of all messages of the conversation.
    pub count: usize,
}

impl<'a> Messages<'a> {
    pub fn all(all: &'a [Message]) -> Messages<'a> {
        Messages { all, head: &[], tail: &[], count: all.len() }
    }

    pub fn of(longer: &Longer<'a>) -> Messages<'a> {
        let tail = longer.tail.get(longer.tail.len().saturating_sub(longer.count)..).unwrap_or_default();
        let before = longer.count - tail.len();
        let head = longer.head.get(..before).unwrap_or(longer.head);
        Messages { all: &[], head, tail, count: longer.count }
    }

    /// Returns the number of messages at hand.
    pub fn at_hand(&self) -> usize {
        self.all.len() + self.head.len() + self.tail.len()
    }

    /// Reports whether all messages are at hand.
    pub fn is_complete(&self) -> bool {
        self.at_hand() == self.count
    }

    /// Returns the index of the last message that is not at hand.
    pub fn last_missing(&self) -> Option<usize> {
        if self.is_complete() { None } else { (self.count - self.tail.len()).checked_sub(1) }
    }

    /// Returns the messages at hand with their indexes.
    pub fn iter(self) -> impl Iterator<Item = (usize, &'a Message)> {
        (0..self.at_hand()).filter_map(move |number| Some((self.index(number), self.get(number)?)))
    }

    /// Returns a message at hand by its number.
    fn get(&self, number: usize) -> Option<&'a Message> {
        let first = self.all.get(number).or_else(|| self.head.get(number).copied());
        first.or_else(|| self.tail.get(number.checked_sub(self.head.len())?).copied())
    }

    /// Returns the index of a message at hand.
    #[inline]
    pub fn index(&self, number: usize) -> usize {
        match number.checked_sub(self.all.len() + self.head.len()) {
            None => number,
            Some(in_tail) => self.count - self.tail.len() + in_tail,
        }
    }

    /// Returns the number of the message with an index, if it is at hand.
    pub fn number(&self, index: usize) -> Option<usize> {
        if index < self.all.len() + self.head.len() {
            return Some(index);
        }
        let in_tail = index.checked_sub(self.count - self.tail.len())?;
        (in_tail < self.tail.len()).then(|| self.head.len() + in_tail)
    }

    /// Returns the message with an index, if it is at hand.
    pub fn message(&self, index: usize) -> Option<&'a Message> {
        self.get(self.number(index)?)
    }
}
