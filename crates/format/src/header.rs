/// The header of each message, in a family whose reply consists of several messages:
/// `[reading.header]`. A header names its message's author, recipient, channel and content type, in
/// any order, and all but the author are optional.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The marker that begins a message: `start`. The author follows.
    pub start: String,
    /// The author of the model's messages: `author`.
    pub author: String,
    /// The text directly before a recipient: `recipient`.
    pub recipient: String,
    /// The marker before a channel: `channel`. Empty if there are no channels.
    pub channel: String,
    /// The marker that may precede a content type: `content-type`. Empty if there is none.
    pub content_type: String,
    /// The words that are content types: `content-types`. Empty if any word may be one.
    pub content_types: Vec<String>,
    /// The marker between a header and the message's text: `body`.
    pub body: String,
    /// The markers that end a message: `ends`. Those that are also stop texts end the turn.
    pub ends: Vec<String>,
    /// The channels that hold reasoning: `reasoning`. All others hold the answer.
    pub reasoning: Vec<String>,
    /// The known channels that hold the answer: `answers`. Models may leave out the markers around
    /// the name of a known channel.
    pub answers: Vec<String>,
    /// The prefix of recipients that are functions: `functions`. It is not part of the name.
    pub functions: String,
    /// The recipients that run code: `code`.
    pub code: Vec<String>,
    /// The recipients that are not called: `people`.
    pub people: Vec<String>,
}

impl Header {
    /// Returns every marker.
    pub fn marks(&self) -> impl Iterator<Item = &str> {
        let own = [&self.start, &self.channel, &self.content_type, &self.body];
        own.into_iter().chain(&self.ends).map(String::as_str).filter(|mark| !mark.is_empty())
    }

    /// Returns the longest known channel with which a text begins.
    pub fn channel_of<'h>(&'h self, text: &str) -> Option<&'h str> {
        let known = self.reasoning.iter().chain(&self.answers).map(String::as_str);
        known.filter(|name| !name.is_empty() && text.starts_with(name)).max_by_key(|name| name.len())
    }

    /// Reports whether a text may continue to the author or a known channel.
    pub fn may_become_word(&self, text: &str) -> bool {
        let words = self.reasoning.iter().chain(&self.answers).chain([&self.author]);
        words.into_iter().any(|word| word.len() > text.len() && word.starts_with(text))
    }

    /// Reports whether a text begins with one of the header's markers, as the complete header of
    /// the next message does. Such a text does not end the turn by itself.
    pub fn begins(&self, text: &str) -> bool {
        self.marks().any(|mark| text.starts_with(mark))
    }
}
