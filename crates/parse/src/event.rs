use std::fmt;
use std::ops::Range;

/// What the parser saw, in order. Deltas join to the whole.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event<'t> {
    /// More of the answer.
    Content(&'t str),
    /// More of the reasoning.
    Reasoning(&'t str),
    /// A call begins: its name is known.
    CallStarted {
        /// Which call of the turn, from 0.
        index: usize,
        /// Its id as the model wrote it before its arguments, or as the caller's [`Ids`](crate::Ids) make one.
        id: &'t str,
        /// The function's name.
        name: &'t str,
    },
    /// More of a call's arguments, as JSON text. What was given so far is never taken back; a value that is cut off stays open.
    Arguments {
        /// Which call.
        index: usize,
        /// The characters.
        text: &'t str,
    },
    /// A call is over.
    CallFinished {
        /// Which call.
        index: usize,
        /// Whether its arguments are whole.
        whole: bool,
        /// The id, where the model wrote it behind the name: the maker's own in place of a made one.
        id: Option<&'t str>,
    },
    /// A call of the code interpreter begins.
    CodeStarted {
        /// Which call of the turn, from 0; functions and code are counted together.
        index: usize,
        /// Its id.
        id: &'t str,
    },
    /// More of the code.
    Code {
        /// Which call.
        index: usize,
        /// The characters.
        text: &'t str,
    },
    /// The turn is over.
    Stop(Stop),
    /// Something could not be read as the layout says; its text goes on as content.
    Malformed(Malformed),
}

/// Why a turn is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The model closed it, or stopped where a turn may end.
    End,
    /// The engine reached its limit of tokens.
    Length,
    /// The caller broke off.
    Abort,
}

/// Something of the output that could not be read as the layout says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// Where, in bytes of the output from its start.
    pub span: Range<u64>,
    /// What.
    pub why: Why,
}

/// What is wrong with a piece of output.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Why {
    /// Something else stood where this mark was expected.
    Expected(String),
    /// The arguments are no JSON (or Python, or whatever the layout says).
    BadValue(String),
    /// The output ended inside a call.
    Unfinished,
    /// A name, a key or a value is longer than the cap.
    TooLong,
    /// A value is nested deeper than the cap.
    TooDeep,
    /// A name that no tool has, where the caller refuses these.
    UnknownName(String),
    /// The arguments are not what the tool's schema says; they are given all the same.
    Schema(String),
    /// Text behind the end of the turn.
    AfterEnd,
    /// Bytes that are no UTF-8; they are given as U+FFFD.
    NotUtf8,
}

impl Why {
    /// A stable name for the kind of fault.
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
            Why::TooLong => "too_long",
            Why::TooDeep => "too_deep",
            Why::UnknownName(_) => "unknown_name",
            Why::Schema(_) => "schema",
            Why::AfterEnd => "after_end",
            Why::NotUtf8 => "not_utf8",
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Expected(what) => write!(f, "expected {}", what.replace('\n', "\\n")),
            Why::BadValue(why) | Why::Schema(why) => f.write_str(why),
            Why::Unfinished => f.write_str("the output ends inside a call"),
            Why::TooLong => f.write_str("a name, a key or a value is longer than the cap"),
            Why::TooDeep => f.write_str("a value is nested deeper than the cap"),
            Why::UnknownName(name) => write!(f, "no tool is called `{}`", name.escape_debug()),
            Why::AfterEnd => f.write_str("text behind the end of the turn"),
            Why::NotUtf8 => f.write_str("bytes that are no UTF-8"),
        }
    }
}
