use std::fmt;

use crate::input::Tag;

/// The kind of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The template rejected its input with `raise_exception`; the message is the template's,
    /// verbatim.
    Rejected,
    /// The template is not valid Jinja.
    Syntax,
    /// A value has the wrong type, or a call has the wrong number of arguments.
    Type,
    /// A value has the right type but cannot be used: division by zero, text that is not a number,
    /// an index out of range.
    Value,
    /// An undefined value was used where a value is required.
    Undefined,
    /// The sandbox forbids the operation.
    Security,
    /// A limit was exceeded.
    Limit(LimitKind),
    /// The engine does not support a feature, or was not given what it needs.
    Unsupported,
}

/// The limit that was exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LimitKind {
    /// Steps of the program, plus the bytes it processed.
    Instructions,
    /// Bytes of output.
    Output,
    /// Bytes of values alive at the same time.
    Memory,
    /// Nested macros, call blocks and recursive loops.
    Recursion,
    /// Nested values.
    Depth,
    /// Nested expressions and blocks in the source.
    Nesting,
    /// Bytes of source.
    Source,
    /// Items of one loop.
    Loop,
    /// Items of one range, which the reference also limits.
    Range,
    /// Bits of one integer.
    Integer,
    /// Digits of one integer that is parsed or printed, which the reference also limits.
    Digits,
    /// The caller's deadline.
    Deadline,
}

impl ErrorKind {
    /// Returns a stable identifier for programs.
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
    /// The kinds that can be raised as far as time and memory allow. Nesting limits cannot, because
    /// the stack bounds them.
    pub const RAISED: [LimitKind; 6] = [
        LimitKind::Instructions,
        LimitKind::Output,
        LimitKind::Memory,
        LimitKind::Source,
        LimitKind::Loop,
        LimitKind::Integer,
    ];

    /// Returns the name of the limit: its code without `limit-`.
    pub fn name(self) -> &'static str {
        self.code().trim_start_matches("limit-")
    }

    /// Returns a stable identifier for programs.
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

/// A location in a template.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Location {
    /// The line, counted from 1.
    pub line: u32,
    /// The column in characters, counted from 1.
    pub column: u32,
    /// The byte offset in the normalized source, where each line break is one byte.
    pub offset: usize,
    /// The full text of the line.
    pub source_line: String,
}

/// A call that was active when the error occurred.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The name of the callee: a macro's name, `caller` or `loop`.
    pub name: String,
    /// The location of the call.
    pub place: Location,
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
    place: Location,
    calls: Vec<Call>,
    passes: Vec<Tag>,
    steps: u64,
}

impl Error {
    pub(crate) fn new(fault: Fault, place: Location, calls: Vec<Call>) -> Error {
        let Reason { kind, message } = *fault.0;
        Error(Box::new(Inner { kind, message, place, calls, passes: Vec::new(), steps: 0 }))
    }

    /// Returns the kind of this error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the message, which says what was expected and what was found; for
    /// [`ErrorKind::Rejected`], the template's own message.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns the location in the template.
    pub fn place(&self) -> &Location {
        &self.0.place
    }

    /// Adds the items of the active loops.
    pub(crate) fn during(mut self, passes: Vec<Tag>) -> Error {
        self.0.passes = passes;
        self
    }

    /// Adds the number of steps taken before the error.
    pub(crate) fn after(mut self, steps: u64) -> Error {
        self.0.steps = steps;
        self
    }

    /// Returns the number of steps taken before the rendering or analysis failed, as
    /// [`crate::Limits::instructions`] counts them; zero if the template did not compile.
    pub fn steps(&self) -> u64 {
        self.0.steps
    }

    /// Returns the tags of the input values that the active loops were at, innermost first. They
    /// tell which message caused the error.
    pub fn passes(&self) -> &[Tag] {
        &self.0.passes
    }

    /// Returns the active calls, outermost first.
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

/// An error without a location.
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
            LimitKind::Recursion => "nested calls",
            LimitKind::Depth => "levels of nested values",
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

/// Returns the location of a byte offset in the source.
pub(crate) fn place_of(source: &str, offset: usize) -> Location {
    let mut offset = offset.min(source.len());
    while !source.is_char_boundary(offset) {
        offset -= 1;
    }
    let start = source[..offset].rfind('\n').map_or(0, |at| at + 1);
    let end = source[offset..].find('\n').map_or(source.len(), |at| offset + at);
    Location {
        line: source[..offset].matches('\n').count() as u32 + 1,
        column: source[start..offset].chars().count() as u32 + 1,
        offset,
        source_line: source[start..end].to_owned(),
    }
}
