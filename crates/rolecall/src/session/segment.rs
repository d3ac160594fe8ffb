use std::ops::Range;

/// Who wrote an id of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Author {
    /// The format or chat template.
    Template,
    /// The caller: the text of a message, tool, document or switch.
    Caller,
    /// The model. These ids are never changed.
    Sampled,
    /// The session, to end a reply that the model did not finish.
    Closing,
}

impl Author {
    pub(super) const ALL: [Author; 4] = [Author::Template, Author::Caller, Author::Sampled, Author::Closing];

    /// Returns the author's name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Author::Template => "template",
            Author::Caller => "caller",
            Author::Sampled => "sampled",
            Author::Closing => "closing",
        }
    }
}

/// The part of a message that an id belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Part {
    /// What stands around the parts of a message: headers, separators, closers.
    Frame,
    /// The text of a message.
    Content,
    /// The reasoning of a reply.
    Reasoning,
    /// The tool calls of a reply.
    Calls,
    /// Another field of a message, such as its name.
    Field,
    /// The declaration of a tool.
    Tools,
    /// A document.
    Documents,
    /// The token that stops the model.
    Stop,
    /// Ids that the model wrote after the token that stops it.
    AfterStop,
}

impl Part {
    pub(super) const ALL: [Part; 9] = [
        Part::Frame,
        Part::Content,
        Part::Reasoning,
        Part::Calls,
        Part::Field,
        Part::Tools,
        Part::Documents,
        Part::Stop,
        Part::AfterStop,
    ];

    /// Returns the part's name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Part::Frame => "frame",
            Part::Content => "content",
            Part::Reasoning => "reasoning",
            Part::Calls => "calls",
            Part::Field => "field",
            Part::Tools => "tools",
            Part::Documents => "documents",
            Part::Stop => "stop",
            Part::AfterStop => "after_stop",
        }
    }
}

/// A run of ids of one author, message and part.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment {
    /// Who wrote the ids.
    pub author: Author,
    /// The index of the message that they belong to, if any.
    pub message: Option<usize>,
    /// The part of the message.
    pub part: Part,
    /// The ids: indexes in the session, from 0.
    pub ids: Range<usize>,
    /// The loss weight: 1 for what the model sampled, otherwise 0.
    /// [`Session::rollout`](super::Session::rollout) applies other policies.
    pub weight: f32,
}

impl Segment {
    /// Returns the part of the segment from an id on.
    pub(super) fn from(self, first: usize) -> Segment {
        Segment { ids: self.ids.start.max(first)..self.ids.end, ..self }
    }
}
