use rolecall_conversation::Message;

/// Consecutive messages of a conversation, up to its last one. Each has its index in the whole
/// conversation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window<'a> {
    start: usize,
    /// The messages as one list. If it is empty, they are lent one by one.
    list: &'a [Message],
    lent: &'a [&'a Message],
}

impl<'a> Window<'a> {
    /// Creates a window of all messages of a conversation.
    pub fn whole(messages: &'a [Message]) -> Window<'a> {
        Window { start: 0, list: messages, lent: &[] }
    }

    /// Creates a window of the last messages, of which the first has this index.
    pub fn lent(start: usize, messages: &'a [&'a Message]) -> Window<'a> {
        Window { start, list: &[], lent: messages }
    }

    /// Returns the index of the first message.
    #[inline]
    pub fn start(&self) -> usize {
        self.start
    }

    /// Returns the number of messages in the whole conversation.
    #[inline]
    pub fn end(&self) -> usize {
        self.start + self.len()
    }

    /// Returns the number of messages in the window.
    #[inline]
    pub fn len(&self) -> usize {
        self.list.len() + self.lent.len()
    }

    /// Returns the message with this index, if it is in the window.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&'a Message> {
        let at = index.checked_sub(self.start)?;
        self.list.get(at).or_else(|| self.lent.get(at).copied())
    }

    /// Returns the first message of the window.
    pub fn first(&self) -> Option<&'a Message> {
        self.get(self.start)
    }

    /// Returns the last message.
    pub fn last(&self) -> Option<&'a Message> {
        self.get(self.end().wrapping_sub(1))
    }

    /// Returns the messages of the window in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &'a Message> + use<'a> {
        self.list.iter().chain(self.lent.iter().copied())
    }

    /// Returns the messages of a range of indices in order, as far as they are in the window.
    #[inline]
    pub fn between(&self, from: usize, to: usize) -> impl DoubleEndedIterator<Item = &'a Message> + use<'a> {
        let (from, to) = (from.saturating_sub(self.start), to.min(self.end()).saturating_sub(self.start));
        let list = self.list.get(from..to).unwrap_or_default();
        let lent = self.lent.get(from..to).unwrap_or_default();
        list.iter().chain(lent.iter().copied())
    }

    /// Returns the messages with these indices, as far as they are in the window.
    pub fn those<'i>(&self, indices: &'i [usize]) -> impl Iterator<Item = (usize, &'a Message)> + use<'i, 'a> {
        let window = *self;
        indices.iter().filter_map(move |index| Some((*index, window.get(*index)?)))
    }

    /// Returns the number of calls in a range of messages.
    pub fn count_calls(&self, from: usize, to: usize) -> usize {
        self.between(from, to).map(|message| message.calls().len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use rolecall_conversation::Message;

    use super::Window;

    #[test]
    fn messages_are_found_by_their_index_in_the_conversation() {
        let all = ["a", "b", "c", "d"].map(Message::user);
        let lent: Vec<&Message> = all[2..].iter().collect();
        let (whole, rest) = (Window::whole(&all), Window::lent(2, &lent));
        let texts = |window: &Window<'_>, from, to| {
            window.between(from, to).filter_map(Message::plain_text).collect::<Vec<_>>().concat()
        };
        assert_eq!([texts(&whole, 1, 3), texts(&rest, 1, 3), texts(&rest, 3, 9)], ["bc", "c", "d"]);
        assert_eq!(texts(&rest, 4, 4) + &texts(&rest, 3, 2) + &texts(&Window::lent(3, &[]), 0, 9), "");
        assert_eq!((rest.get(1), rest.get(3), rest.last(), rest.end()), (None, Some(&all[3]), Some(&all[3]), 4));
        assert_eq!(rest.those(&[0, 2]).map(|(index, _)| index).collect::<Vec<_>>(), [2]);
    }
}
