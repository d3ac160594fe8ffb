use std::fmt;
use std::ops::Range;

/// An event that the parser emits, in the order of the output. The deltas of a text concatenate to
/// the whole.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event<'t> {
    /// A delta of the answer.
    Content(&'t str),
    /// A delta of the reasoning.
    Reasoning(&'t str),
    /// A call begins. Its name is known.
    CallStarted {
        /// Index of the call in the turn, from 0.
        index: usize,
        /// The call's id: the model's own if it wrote one before the arguments, or else a generated
        /// one (see [`Ids`](crate::Ids)).
        id: &'t str,
        /// The function's name.
        name: &'t str,
    },
    /// A delta of a call's arguments, as JSON text. Emitted text is never retracted. A value that
    /// is cut off stays unclosed.
    Arguments {
        /// Index of the call.
        index: usize,
        /// The added text.
        text: &'t str,
    },
    /// A call ends.
    CallFinished {
        /// Index of the call.
        index: usize,
        /// Whether the arguments are complete.
        whole: bool,
        /// The model's own id, if it wrote one after the name. It replaces the generated id.
        id: Option<&'t str>,
    },
    /// A call of the code interpreter begins.
    CodeStarted {
        /// Index of the call in the turn, from 0. Functions and code are counted together.
        index: usize,
        /// The call's id.
        id: &'t str,
    },
    /// A delta of the code.
    Code {
        /// Index of the call.
        index: usize,
        /// The added text.
        text: &'t str,
    },
    /// The place in the output of the delta of the answer or of the reasoning that comes next: a byte
    /// range, counted like [`Malformed::span`]. It is shorter than the delta if the prompt wrote the
    /// beginning of the delta. Only a parser [`with_places`](crate::OutputParser::with_places) emits it.
    Place(Range<u64>),
    /// The turn ends.
    Stop(Stop),
    /// A part of the output does not match the layout. Its text becomes content.
    Malformed(Malformed),
}

/// The reason a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The model closed the turn, or stopped where a turn may end.
    End,
    /// The engine reached its token limit.
    Length,
    /// The caller aborted.
    Abort,
}

/// A part of the output that does not match the layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The byte range, from the start of the output. It counts the output as text, in which U+FFFD
    /// replaces invalid UTF-8.
    pub span: Range<u64>,
    /// The reason.
    pub why: Why,
}

/// The reason a part of the output is malformed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Why {
    /// The output does not have this marker or item where it is expected.
    Expected(String),
    /// The arguments are not valid JSON (or Python, or another syntax of the layout).
    BadValue(String),
    /// The output was cut off inside a call.
    Unfinished,
    /// The model ended its turn inside a call.
    UnclosedCall,
    /// The model ended its turn inside its reasoning. The span is that of the reasoning.
    UnclosedReasoning,
    /// A name, key or value is longer than the cap.
    TooLong,
    /// A value is nested deeper than the cap.
    TooDeep,
    /// No tool has this name.
    UnknownName {
        /// The name that the model wrote.
        name: String,
        /// The names of the tools offered.
        offered: Vec<String>,
    },
    /// The arguments do not match the tool's schema. They are emitted anyway.
    Schema(String),
    /// The arguments have this key twice. Both are emitted, and readers of JSON take only one of them.
    RepeatedArgument(String),
    /// Text after the end of the turn. It is no part of the message.
    AfterEnd,
    /// A part of a call has no meaning, such as an unknown key or a second value. It is dropped.
    Unread,
    /// Invalid UTF-8. It is replaced with U+FFFD.
    NotUtf8,
    /// A marker of the layout in content or reasoning, where it does not belong.
    StrayMarker(String),
    /// A marker of calls in a syntax that is not the model's.
    OtherSyntax {
        /// The marker.
        mark: String,
        /// The quoted names of the syntaxes (files in `formats/calls/`) that have the marker.
        syntax: String,
    },
    /// The content looks like a call of this tool without the markers of calls. Some engines remove
    /// special tokens.
    MissingMarkers(String),
}

/// The maximum number of offered tools that a message names.
const MOST_NAMES: usize = 8;

impl Why {
    /// Reports whether the output is read as the model wrote it, and only what it says is odd: a call of a tool that was
    /// not offered, or arguments that do not fit.
    ///
    /// ```
    /// use rolecall_parse::Why;
    /// assert!(Why::RepeatedArgument("city".into()).is_of_model());
    /// assert!(!Why::Unread.is_of_model());
    /// ```
    pub fn is_of_model(&self) -> bool {
        match self {
            Why::UnknownName { .. } | Why::Schema(_) | Why::RepeatedArgument(_) => true,
            Why::Expected(_)
            | Why::BadValue(_)
            | Why::Unfinished
            | Why::UnclosedCall
            | Why::UnclosedReasoning
            | Why::TooLong
            | Why::TooDeep
            | Why::AfterEnd
            | Why::Unread
            | Why::NotUtf8
            | Why::StrayMarker(_)
            | Why::OtherSyntax { .. }
            | Why::MissingMarkers(_) => false,
        }
    }

    /// Returns a stable code for the kind of fault.
    ///
    /// ```
    /// use rolecall_parse::Why;
    /// assert_eq!(Why::Unfinished.code(), "unfinished");
    /// assert_eq!(Why::Expected("`</call>`".into()).to_string(), "expected `</call>`");
    /// ```
    pub fn code(&self) -> &'static str {
        match self {
            Why::Expected(_) => "expected",
            Why::BadValue(_) => "bad_value",
            Why::Unfinished => "unfinished",
            Why::UnclosedCall => "unclosed_call",
            Why::UnclosedReasoning => "unclosed_reasoning",
            Why::TooLong => "too_long",
            Why::TooDeep => "too_deep",
            Why::UnknownName { .. } => "unknown_name",
            Why::Schema(_) => "schema",
            Why::RepeatedArgument(_) => "repeated_argument",
            Why::AfterEnd => "after_end",
            Why::Unread => "unread",
            Why::NotUtf8 => "not_utf8",
            Why::StrayMarker(_) => "stray_marker",
            Why::OtherSyntax { .. } => "other_syntax",
            Why::MissingMarkers(_) => "missing_markers",
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Expected(what) => write!(f, "expected {}", what.replace('\n', "\\n")),
            Why::BadValue(why) | Why::Schema(why) => f.write_str(why),
            Why::Unfinished => f.write_str("the output ends inside a call"),
            Why::UnclosedCall => f.write_str("the model ended its turn inside a call"),
            Why::UnclosedReasoning => f.write_str("the model ended its turn inside its reasoning"),
            Why::TooLong => f.write_str("a name, key or value is longer than the cap"),
            Why::TooDeep => f.write_str("a value is nested deeper than the cap"),
            Why::UnknownName { name, offered } => {
                write!(f, "no tool is named `{}`", name.escape_debug())?;
                let known = offered.iter().take(MOST_NAMES).map(|name| format!("`{}`", name.escape_debug()));
                let known: Vec<String> = known.collect();
                let more = offered.len().saturating_sub(MOST_NAMES);
                match (known.is_empty(), more) {
                    (true, _) => Ok(()),
                    (false, 0) => write!(f, "; offered: {}", known.join(", ")),
                    (false, more) => write!(f, "; offered: {} and {more} more", known.join(", ")),
                }
            }
            Why::RepeatedArgument(key) => write!(f, "the argument `{}` is given twice", key.escape_debug()),
            Why::AfterEnd => f.write_str("text after the end of the turn"),
            Why::Unread => f.write_str("a part of a call has no meaning and is dropped"),
            Why::NotUtf8 => f.write_str("invalid UTF-8"),
            Why::OtherSyntax { mark, syntax } => write!(
                f,
                "the marker `{}` does not belong here: this is the syntax of {syntax}, which the model's layouts do not have",
                mark.escape_debug()
            ),
            Why::MissingMarkers(name) => write!(
                f,
                "this looks like a call of `{}` without its markers; does the engine remove special tokens?",
                name.escape_debug()
            ),
            Why::StrayMarker(marker) => write!(f, "the marker `{}` does not belong here", marker.escape_debug()),
        }
    }
}
