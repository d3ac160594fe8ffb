use std::fmt;
use std::ops::Range;

use rolecall_conversation::Place;

use crate::Dropped;

/// What became of a leaf of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum LeafKind {
    /// All of it is in the prompt.
    Written,
    /// Some of its bytes are not in the prompt.
    WrittenInPart,
    /// The prompt has it in another form.
    Changed,
    /// The run read it, and it is not in the prompt: it only steered what is written.
    Read,
    /// It is not in the prompt, by a rule of chat formats.
    DroppedByDesign,
    /// It is not in the prompt.
    LeftOut,
}

impl LeafKind {
    /// All kinds.
    pub const ALL: [LeafKind; 6] = [
        LeafKind::Written,
        LeafKind::WrittenInPart,
        LeafKind::Changed,
        LeafKind::Read,
        LeafKind::DroppedByDesign,
        LeafKind::LeftOut,
    ];

    /// Returns a machine-readable name.
    pub fn name(self) -> &'static str {
        match self {
            LeafKind::Written => "written",
            LeafKind::WrittenInPart => "written_in_part",
            LeafKind::Changed => "changed",
            LeafKind::Read => "read",
            LeafKind::DroppedByDesign => "dropped_by_design",
            LeafKind::LeftOut => "left_out",
        }
    }

    /// Reports whether something of the leaf is lost or changed, and not by design. A strict caller
    /// refuses it.
    pub fn is_loss(self) -> bool {
        matches!(self, LeafKind::WrittenInPart | LeafKind::Changed | LeafKind::LeftOut)
    }
}

/// How a leaf was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Change {
    /// Arguments in JSON text were quoted a second time.
    QuotedTwice,
    /// A null was written as the word `None`.
    NullWord,
    /// Quotes and angle brackets were written as HTML entities.
    HtmlEscaped,
    /// It was written as Python prints a list, a dict or a quoted string.
    PythonValue,
    /// A part of a content was written as JSON, with its keys.
    JsonValue,
    /// Its letters were changed to upper or lower case.
    LetterCase,
    /// It was written otherwise.
    Rewritten,
}

impl Change {
    /// Returns a machine-readable name.
    pub fn name(self) -> &'static str {
        match self {
            Change::QuotedTwice => "quoted_twice",
            Change::NullWord => "null_word",
            Change::HtmlEscaped => "html_escaped",
            Change::PythonValue => "python_value",
            Change::JsonValue => "json_value",
            Change::LetterCase => "letter_case",
            Change::Rewritten => "rewritten",
        }
    }

    pub(crate) fn why(self) -> &'static str {
        match self {
            Change::QuotedTwice => "the template quotes the JSON text of the arguments a second time",
            Change::NullWord => "the template writes a null as the word `None`",
            Change::HtmlEscaped => "the template writes HTML entities for quotes and brackets",
            Change::PythonValue => "the template writes it as Python prints a value",
            Change::JsonValue => "the template writes the parts of the content as JSON",
            Change::LetterCase => "the template changes the case of its letters",
            Change::Rewritten => "the template writes it in another form",
        }
    }
}

/// A rule by which a leaf is not in a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DesignRule {
    /// The reasoning of earlier turns is not shown to the model.
    EarlierReasoning,
    /// `role` and `type` say what an object is, and its place in the prompt says the same.
    Envelope,
    /// Ids pair results with calls, and so does their order.
    CallId,
    /// The name of a result is that of its call.
    ResultName,
    /// The template reads the switch, but not for this conversation.
    UnusedSwitch,
}

impl DesignRule {
    /// Returns a machine-readable name.
    pub fn name(self) -> &'static str {
        match self {
            DesignRule::EarlierReasoning => "earlier_reasoning",
            DesignRule::Envelope => "envelope",
            DesignRule::CallId => "call_id",
            DesignRule::ResultName => "result_name",
            DesignRule::UnusedSwitch => "unused_switch",
        }
    }

    pub(crate) fn why(self) -> &'static str {
        match self {
            DesignRule::EarlierReasoning => "the template does not show earlier reasoning to the model",
            DesignRule::Envelope => "its place in the prompt says the same",
            DesignRule::CallId => "the order of calls and results says the same",
            DesignRule::ResultName => "the call has the same name",
            DesignRule::UnusedSwitch => "the template does not read this switch for this conversation",
        }
    }
}

/// What a caller can do about a leaf that is lost or changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Remedy {
    /// Pass messages, calls and tools in the forms that the template writes
    /// ([`Forms::AsWanted`](crate::Forms::AsWanted)).
    FormsAsWanted,
    /// Divide the conversation into samples, each as a server would send it.
    DividedSamples,
}

impl Remedy {
    /// Returns a machine-readable name.
    pub fn name(self) -> &'static str {
        match self {
            Remedy::FormsAsWanted => "forms_as_wanted",
            Remedy::DividedSamples => "divided_samples",
        }
    }
}

/// A leaf of a request, or a part of one of which all leaves have the same fate, that is not
/// written as it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// Its place in the request.
    pub place: Place,
    /// What became of it.
    pub kind: LeafKind,
    /// How it was changed.
    pub change: Option<Change>,
    /// The rule by which it need not be in the prompt.
    pub rule: Option<DesignRule>,
    /// The reason, for people.
    pub why: &'static str,
    /// The byte ranges of its text that are not in the prompt. Empty if all or nothing is.
    pub missing: Vec<Range<usize>>,
    /// The number of leaves that it stands for.
    pub count: usize,
    /// What helps.
    pub remedy: Option<Remedy>,
}

impl Leaf {
    pub(crate) fn new(place: Place, kind: LeafKind, why: &'static str) -> Leaf {
        Leaf { place, kind, change: None, rule: None, why, missing: Vec::new(), count: 1, remedy: None }
    }

    pub(crate) fn dropped(dropped: &Dropped) -> Leaf {
        let (kind, rule) = match dropped.by_design {
            true => (LeafKind::DroppedByDesign, Some(DesignRule::EarlierReasoning)),
            false => (LeafKind::LeftOut, None),
        };
        Leaf { rule, ..Leaf::new(dropped.place.clone(), kind, dropped.why) }
    }

    /// Reports whether a door tells people about the leaf.
    pub fn is_notable(&self) -> bool {
        self.kind.is_loss() || self.rule == Some(DesignRule::EarlierReasoning)
    }

    /// Reports whether the leaf says something that the rest of the request does not, unlike a role,
    /// a type or the id of a call.
    pub fn is_telling(&self) -> bool {
        !matches!(self.rule, Some(DesignRule::Envelope | DesignRule::CallId | DesignRule::ResultName))
    }

    pub(crate) fn is_name_of_call(&self) -> bool {
        self.is_of_call() && self.place.field.ends_with(".name")
    }

    /// Reports whether it is lost or changed, and the template may write it in another form: a message, a content, or
    /// what a call has beside its name.
    pub(crate) fn may_be_saved(&self) -> bool {
        let field = &*self.place.field;
        let is_content = || self.place.message.is_some() && (field.is_empty() || field.starts_with("content"));
        self.kind.is_loss() && (self.is_of_call() && !self.is_name_of_call() || is_content())
    }

    pub(crate) fn is_of_call(&self) -> bool {
        self.place.message.is_some() && self.place.field.starts_with("tool_calls")
    }
}

/// The leaves of a request with the same kind and reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeafGroup<'a> {
    /// What became of them.
    pub kind: LeafKind,
    /// How they were changed.
    pub change: Option<Change>,
    /// The rule by which they are not in the prompt.
    pub rule: Option<DesignRule>,
    /// The reason, for people.
    pub why: &'static str,
    /// The number of places.
    pub count: usize,
    /// The first of them.
    pub first: &'a Leaf,
    /// What helps.
    pub remedy: Option<Remedy>,
}

impl<'a> LeafGroup<'a> {
    pub(crate) fn of(first: &'a Leaf) -> LeafGroup<'a> {
        let Leaf { kind, change, rule, why, remedy, .. } = *first;
        LeafGroup { kind, change, rule, why, count: 1, first, remedy }
    }

    pub(crate) fn has(&self, leaf: &Leaf) -> bool {
        (self.kind, self.change, self.rule, self.why, self.remedy)
            == (leaf.kind, leaf.change, leaf.rule, leaf.why, leaf.remedy)
    }
}

/// Writes the group as a sentence for people: its first place, the number of others and the reason.
impl fmt::Display for LeafGroup<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.first.place)?;
        let is_one = self.count == 1;
        if !is_one {
            write!(f, " and {} more", self.count - 1)?;
        }
        let verb = if is_one { "is" } else { "are" };
        match (self.kind, self.first.missing.as_slice()) {
            (LeafKind::WrittenInPart | LeafKind::DroppedByDesign, [first, rest @ ..]) => {
                write!(f, " {verb} written in part: bytes {} to {}", first.start, first.end)?;
                match rest.len() {
                    0 => {}
                    1 => f.write_str(" and one other range")?,
                    more => write!(f, " and {more} other ranges")?,
                }
                f.write_str(" of the text are not in the prompt")?;
                match self.rule {
                    Some(_) => write!(f, ": {}", self.why),
                    None => Ok(()),
                }
            }
            (LeafKind::WrittenInPart, []) => write!(f, " {verb} written in part: {}", self.why),
            (LeafKind::Changed, _) => write!(f, " {verb} changed: {}", self.why),
            _ => write!(f, " {verb} not in the prompt: {}", self.why),
        }
    }
}
