use std::fmt;

use crate::input::Tag;

/// What kind of thing went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The template itself refused its input with `raise_exception`; the message is the template's, word for word.
    Rejected,
    /// The template is not Jinja.
    Syntax,
    /// A value of the wrong type, or a wrong number of arguments.
    Type,
    /// A value of the right type that cannot be used: a division by zero, text that is no number, an index out of range.
    Value,
    /// Something undefined was used where a value is needed.
    Undefined,
    /// Something the sandbox does not allow.
    Security,
    /// A limit was hit.
    Limit(LimitKind),
    /// Something that this engine does not do, or has not been given.
    Unsupported,
}

/// Which limit was hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LimitKind {
    /// Steps of the program, and bytes that it walked over.
    Instructions,
    /// Bytes of output.
    Output,
    /// Bytes of values alive at one time.
    Memory,
    /// Macros, call blocks and recursive loops inside each other.
    Recursion,
    /// Values inside values.
    Depth,
    /// Expressions and blocks inside each other in the source.
    Nesting,
    /// Bytes of source.
    Source,
    /// Items of one loop.
    Loop,
    /// Items of one range, which the reference limits too.
    Range,
    /// Bits of one integer.
    Integer,
    /// Digits of one integer that is read or printed, which the reference limits too.
    Digits,
    /// The caller's deadline.
    Deadline,
}

impl ErrorKind {
    /// A stable name for programs.
    pub fn code(self) -> &'static str {
        match self {
            ErrorKind::Rejected => "rejected",
            ErrorKind::Syntax => "syntax",
            ErrorKind::Type => "type",
            ErrorKind::Value => "value",
            ErrorKind::Undefined => "undefined",
            ErrorKind::Security => "security",
            ErrorKind::Unsupported => "unsupported",
            ErrorKind::Limit(limit) => limit.code(),
        }
    }
}

impl LimitKind {
    /// The kinds that may be raised as far as time and memory reach. What nests is bound by the stack.
    pub const RAISED: [LimitKind; 6] = [
        LimitKind::Instructions,
        LimitKind::Output,
        LimitKind::Memory,
        LimitKind::Source,
        LimitKind::Loop,
        LimitKind::Integer,
    ];

    /// What it is called: its code without `limit-`.
    pub fn name(self) -> &'static str {
        self.code().trim_start_matches("limit-")
    }

    /// A stable name for programs.
    pub fn code(self) -> &'static str {
        match self {
            LimitKind::Instructions => "limit-instructions",
            LimitKind::Output => "limit-output",
            LimitKind::Memory => "limit-memory",
            LimitKind::Recursion => "limit-recursion",
            LimitKind::Depth => "limit-depth",
            LimitKind::Nesting => "limit-nesting",
            LimitKind::Source => "limit-source",
            LimitKind::Loop => "limit-loop",
            LimitKind::Range => "limit-range",
            LimitKind::Integer => "limit-integer",
            LimitKind::Digits => "limit-digits",
            LimitKind::Deadline => "limit-deadline",
        }
    }
}

/// A place in a template.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The line, from 1.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
    /// The bytes of the source from which it begins (line breaks counted as one byte each).
    pub offset: usize,
    /// The whole line.
    pub source_line: String,
}

/// A call that had not returned when the error came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// What was called: a macro's name, `caller`, `loop`.
    pub name: String,
    /// Where it was called.
    pub place: Place,
}

/// Why a template could not be compiled or rendered.
///
/// ```
/// use rolecall_jinja::{Context, Environment, ErrorKind, Limits, Template};
/// let template = Template::compile("a\n{{ raise_exception('no tools') }}", &Limits::default())?;
/// let error = template.render(&Context::new(), &Environment::default()).unwrap_err();
/// assert_eq!((error.kind(), error.message(), error.place().line), (ErrorKind::Rejected, "no tools", 2));
/// # Ok::<(), rolecall_jinja::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(Box<Inner>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Inner {
    kind: ErrorKind,
    message: String,
    place: Place,
    calls: Vec<Call>,
    passes: Vec<Tag>,
    steps: u64,
}

impl Error {
    pub(crate) fn new(fault: Fault, place: Place, calls: Vec<Call>) -> Error {
        let Reason { kind, message } = *fault.0;
        Error(Box::new(Inner { kind, message, place, calls, passes: Vec::new(), steps: 0 }))
    }

    /// What kind of error this is.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// What was expected and what was found; for [`ErrorKind::Rejected`] the template's own words.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Where in the template.
    pub fn place(&self) -> &Place {
        &self.0.place
    }

    /// With the items that loops were at.
    pub(crate) fn during(mut self, passes: Vec<Tag>) -> Error {
        self.0.passes = passes;
        self
    }

    /// With the steps that were taken before it.
    pub(crate) fn after(mut self, steps: u64) -> Error {
        self.0.steps = steps;
        self
    }

    /// The steps that a rendering or an analysis took before it failed, as [`crate::Limits::instructions`] counts them; none
    /// where the template did not compile.
    pub fn steps(&self) -> u64 {
        self.0.steps
    }

    /// What the caller calls the items of its own that loops were at, the innermost first: which message it was about.
    pub fn passes(&self) -> &[Tag] {
        &self.0.passes
    }

    /// The calls that led there, the outermost first.
    pub fn calls(&self) -> &[Call] {
        &self.0.calls
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} ({}, line {}, column {})",
            self.message(),
            self.kind().code(),
            self.place().line,
            self.place().column
        )
    }
}

impl std::error::Error for Error {}

/// An error that does not know its place yet.
#[derive(Debug)]
pub(crate) struct Fault(Box<Reason>);

#[derive(Debug)]
struct Reason {
    kind: ErrorKind,
    message: String,
}

pub(crate) type Res<T> = Result<T, Fault>;

impl Fault {
    #[cold]
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Fault {
        Fault(Box::new(Reason { kind, message: message.into() }))
    }

    #[cold]
    pub(crate) fn type_error(message: impl Into<String>) -> Fault {
        Fault::new(ErrorKind::Type, message)
    }

    #[cold]
    pub(crate) fn value(message: impl Into<String>) -> Fault {
        Fault::new(ErrorKind::Value, message)
    }

    #[cold]
    pub(crate) fn syntax(message: impl Into<String>) -> Fault {
        Fault::new(ErrorKind::Syntax, message)
    }

    #[cold]
    pub(crate) fn unsupported(message: impl Into<String>) -> Fault {
        Fault::new(ErrorKind::Unsupported, message)
    }

    #[cold]
    pub(crate) fn limit(which: LimitKind, most: impl fmt::Display) -> Fault {
        let what = match which {
            LimitKind::Instructions => "instructions",
            LimitKind::Output => "bytes of output",
            LimitKind::Memory => "bytes of live values",
            LimitKind::Recursion => "calls inside each other",
            LimitKind::Depth => "values inside each other",
            LimitKind::Nesting => "nested expressions or blocks",
            LimitKind::Source => "bytes of source",
            LimitKind::Loop => "items of one loop",
            LimitKind::Range => "items of one range",
            LimitKind::Integer => "bits of one integer",
            LimitKind::Digits => "digits of one integer",
            LimitKind::Deadline => return Fault::new(ErrorKind::Limit(which), "the caller's deadline has passed"),
        };
        Fault::new(ErrorKind::Limit(which), format!("more than {most} {what}"))
    }

    pub(crate) fn kind(&self) -> ErrorKind {
        self.0.kind
    }
}

/// The place of a byte of the source.
pub(crate) fn place_of(source: &str, offset: usize) -> Place {
    let mut offset = offset.min(source.len());
    while !source.is_char_boundary(offset) {
        offset -= 1;
    }
    let start = source[..offset].rfind('\n').map_or(0, |at| at + 1);
    let end = source[offset..].find('\n').map_or(source.len(), |at| offset + at);
    Place {
        line: source[..offset].matches('\n').count() as u32 + 1,
        column: source[start..offset].chars().count() as u32 + 1,
        offset,
        source_line: source[start..end].to_owned(),
    }
}
