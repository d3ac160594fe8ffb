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
    /// The marker between a header and the message's text: `body`.
    pub body: String,
    /// The markers that end a message: `ends`. Those that are also stop texts end the turn.
    pub ends: Vec<String>,
    /// The channels that hold reasoning: `reasoning`. All others hold the answer.
    pub reasoning: Vec<String>,
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

    /// Reports whether a text begins with one of the header's markers, as the complete header of
    /// the next message does. Such a text does not end the turn by itself.
    pub fn begins(&self, text: &str) -> bool {
        self.marks().any(|mark| text.starts_with(mark))
    }
}
