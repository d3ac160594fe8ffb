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
pub enum SegmentPart {
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

impl SegmentPart {
    pub(super) const ALL: [SegmentPart; 9] = [
        SegmentPart::Frame,
        SegmentPart::Content,
        SegmentPart::Reasoning,
        SegmentPart::Calls,
        SegmentPart::Field,
        SegmentPart::Tools,
        SegmentPart::Documents,
        SegmentPart::Stop,
        SegmentPart::AfterStop,
    ];

    /// Returns the part's name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            SegmentPart::Frame => "frame",
            SegmentPart::Content => "content",
            SegmentPart::Reasoning => "reasoning",
            SegmentPart::Calls => "calls",
            SegmentPart::Field => "field",
            SegmentPart::Tools => "tools",
            SegmentPart::Documents => "documents",
            SegmentPart::Stop => "stop",
            SegmentPart::AfterStop => "after_stop",
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
    pub part: SegmentPart,
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
