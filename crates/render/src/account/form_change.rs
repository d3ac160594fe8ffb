use rolecall_conversation::Place;

/// Values of a request that the template received in another form, with the same meaning (see
/// [`Forms::AsWanted`](crate::Forms)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormChange {
    /// What was changed.
    pub kind: FormKind,
    /// The number of values.
    pub count: usize,
    /// The place of the first one.
    pub first: Place,
}

/// A way in which a value can get another form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FormKind {
    /// The text parts of a content became one text.
    JoinedParts,
    /// A text became a part.
    TextAsPart,
    /// A content without text, beside calls, became another one.
    EmptyContent,
    /// A message of the role `developer` became the system's.
    Role,
    /// The arguments of a message's calls got another form, or its calls got other ids.
    Calls,
    /// A result got the id of its call.
    CallId,
    /// A result got the name of its call.
    ResultName,
    /// A tool got the description or the schema that it lacked.
    Tool,
}

impl FormKind {
    /// Returns a machine-readable name.
    pub fn name(self) -> &'static str {
        match self {
            FormKind::JoinedParts => "joined_parts",
            FormKind::TextAsPart => "text_as_part",
            FormKind::EmptyContent => "empty_content",
            FormKind::Role => "role",
            FormKind::Calls => "calls",
            FormKind::CallId => "call_id",
            FormKind::ResultName => "result_name",
            FormKind::Tool => "tool",
        }
    }
}

impl FormChange {
    /// Counts a change in a list that has each kind once.
    pub(crate) fn count(changes: &mut Vec<FormChange>, kind: FormKind, first: impl FnOnce() -> Place) {
        match changes.iter_mut().find(|change| change.kind == kind) {
            Some(change) => change.count += 1,
            None => changes.push(FormChange { kind, count: 1, first: first() }),
        }
    }
}
