use std::fmt;
use std::time::Duration;

/// A limit that a call can run into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitKind {
    /// Memory of all processes of the kernel, in bytes.
    Memory,
    /// The sizes of all files in the folder, in bytes.
    Disk,
    /// The number of files in the folder.
    Files,
    /// The time that processors worked, in seconds.
    ProcessorTime,
    /// The time that passed, in seconds.
    WallTime,
    /// The size of one message from the kernel, in bytes.
    Message,
}

impl LimitKind {
    /// Returns the name of the limit and the unit of its value.
    pub fn describe(self) -> (&'static str, &'static str) {
        match self {
            LimitKind::Memory => ("memory", "bytes"),
            LimitKind::Disk => ("disk", "bytes"),
            LimitKind::Files => ("files", "files"),
            LimitKind::ProcessorTime => ("processor time", "seconds"),
            LimitKind::WallTime => ("time", "seconds"),
            LimitKind::Message => ("message", "bytes"),
        }
    }
}

/// Why code or a tool could not be run, or did not end as it should. Errors of the code itself are no errors here: they
/// are [`CodeOutput::Error`](crate::CodeOutput::Error).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// Something that is needed is missing on this machine. Holds what, and the command that installs it.
    Missing {
        /// What is missing.
        what: String,
        /// What to do.
        help: String,
    },
    /// A kernel did not start. Holds why, with its last output.
    Start(String),
    /// The kernel ended while it ran the code.
    Died(String),
    /// The code ran into a limit, and the kernel was ended.
    Limit {
        /// Which.
        kind: LimitKind,
        /// Its value.
        most: u64,
    },
    /// Somebody stopped the code, and it did not end by itself within this time, so that the kernel was ended.
    Stopped(Duration),
    /// Somebody stopped the code before it began.
    NotBegun,
    /// A name of a file that cannot be in the folder of a session.
    FileName {
        /// The name.
        name: String,
        /// Why not.
        why: &'static str,
    },
    /// A file of a session could not be read or written.
    File {
        /// Its name.
        name: String,
        /// What the system says.
        why: String,
    },
    /// A server of tools cannot be used.
    Tools {
        /// Its name.
        name: String,
        /// Why not.
        why: String,
    },
    /// As many kernels run as may run.
    Full(usize),
    /// The session runs other code at this moment.
    Busy,
    /// A recorded interpreter has no answer to this code.
    NotRecorded(String),
    /// What should not happen.
    Internal(String),
}

impl Error {
    /// Returns the stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Error::Missing { .. } => "interpreter_missing",
            Error::Start(_) => "kernel_start",
            Error::Died(_) => "kernel_died",
            Error::Limit { .. } => "kernel_limit",
            Error::Stopped(_) => "kernel_stopped",
            Error::NotBegun => "not_begun",
            Error::FileName { .. } => "file_name",
            Error::File { .. } => "file",
            Error::Tools { .. } => "tools",
            Error::Full(_) => "kernels_full",
            Error::Busy => "kernel_busy",
            Error::NotRecorded(_) => "not_recorded",
            Error::Internal(_) => "interpreter_internal",
        }
    }

    /// Reports whether the kernel is gone, with all that it had in memory.
    pub fn lost_kernel(&self) -> bool {
        matches!(self, Error::Died(_) | Error::Limit { .. } | Error::Stopped(_))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Missing { what, help } => write!(f, "{what}; {help}"),
            Error::Start(why) => write!(f, "the kernel did not start: {why}"),
            Error::Died(why) => write!(f, "the kernel died while it ran the code: {why}"),
            Error::Limit { kind, most } => {
                let (name, unit) = kind.describe();
                write!(f, "the code used more {name} than the limit of {most} {unit}, so its kernel was ended")?;
                match kind {
                    LimitKind::Disk | LimitKind::Files => {
                        f.write_str("; the folder is full, and code that deletes files may run")
                    }
                    _ => Ok(()),
                }
            }
            Error::Stopped(wait) => {
                write!(f, "the code was stopped, but went on for {} s, so its kernel was ended", wait.as_secs_f32())
            }
            Error::NotBegun => f.write_str("the code was stopped before it began"),
            Error::FileName { name, why } => write!(f, "{name:?} cannot be a file of the session: {why}"),
            Error::File { name, why } => write!(f, "the file {name:?}: {why}"),
            Error::Tools { name, why } => write!(f, "the MCP server `{name}` cannot be used: {why}"),
            Error::Full(most) => write!(f, "{most} kernels run already, and no more may; try again later"),
            Error::Busy => f.write_str("the session runs other code at this moment"),
            Error::NotRecorded(code) => write!(f, "nothing is recorded for this code: {code:?}"),
            Error::Internal(why) => write!(f, "the interpreter failed: {why}"),
        }
    }
}

impl std::error::Error for Error {}
