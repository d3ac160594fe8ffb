use std::fmt;

use crate::{Fault, FaultCode};

/// Why the store cannot do its work. The texts have no content of turns.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreFault {
    /// It cannot be reached, or does not answer in time.
    Down(String),
    /// There is no space for more.
    Full(String),
    /// What was stored is not what was written.
    Damaged(String),
    /// Another process uses the file.
    Locked(String),
    /// The file was written by another version.
    Version(String),
    /// A conversation has more bytes than all conversations may have.
    TooLarge {
        /// Its bytes.
        bytes: u64,
        /// The most that are allowed.
        most: u64,
    },
    /// The parent of a turn is not stored, for example because it was removed to make space.
    Gone,
    /// The configuration cannot be used: a path, an address, a password.
    Refused(String),
}

impl StoreFault {
    /// Returns a stable name for what is wrong.
    pub fn code(&self) -> &'static str {
        match self {
            StoreFault::Down(_) => "store_down",
            StoreFault::Full(_) => "store_full",
            StoreFault::Damaged(_) => "store_damaged",
            StoreFault::Locked(_) => "store_locked",
            StoreFault::Version(_) => "store_version",
            StoreFault::TooLarge { .. } => "conversation_too_large",
            StoreFault::Gone => "conversation_gone",
            StoreFault::Refused(_) => "store_refused",
        }
    }

    /// Returns what to do about it.
    pub fn help(&self) -> &'static str {
        match self {
            StoreFault::Down(_) => "try again; if it stays so, check the disk or the server of the store",
            StoreFault::Full(_) => "free space for the store, or allow it fewer bytes",
            StoreFault::Damaged(_) => {
                "move the file of the store away, or empty the database of the server, and start again: its \
                 conversations are lost; or bring back a copy"
            }
            StoreFault::Locked(_) => "stop the other gateway, or give this one another file; several share a server",
            StoreFault::Version(_) => "use the version that wrote the file, or move it away and start without it",
            StoreFault::TooLarge { .. } => "begin a new conversation, or allow the store more bytes",
            StoreFault::Gone => "send the whole conversation again",
            StoreFault::Refused(_) => "correct the configuration of the store",
        }
    }
}

impl fmt::Display for StoreFault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreFault::Down(why) => write!(formatter, "the store does not answer: {why}"),
            StoreFault::Full(why) => write!(formatter, "the store is full: {why}"),
            StoreFault::Damaged(why) => write!(formatter, "the store is damaged: {why}"),
            StoreFault::Locked(why) => write!(formatter, "the store is in use: {why}"),
            StoreFault::Version(why) => write!(formatter, "the store has another version: {why}"),
            StoreFault::TooLarge { bytes, most } => {
                write!(formatter, "the conversation has {bytes} bytes in the store, and at most {most} are allowed")
            }
            StoreFault::Gone => write!(formatter, "the conversation is not in the store any more"),
            StoreFault::Refused(why) => write!(formatter, "the store cannot be used: {why}"),
        }
    }
}

impl std::error::Error for StoreFault {}

impl From<StoreFault> for Fault {
    fn from(fault: StoreFault) -> Fault {
        let status = match fault {
            StoreFault::Down(_) | StoreFault::Locked(_) => 503,
            StoreFault::Full(_) => 507,
            StoreFault::Damaged(_) | StoreFault::Version(_) | StoreFault::Refused(_) => 500,
            StoreFault::TooLarge { .. } => 413,
            StoreFault::Gone => 409,
        };
        let retry_after = (status == 503).then_some(1);
        let (help, code) = (Some(fault.help().into()), FaultCode::Other(fault.code()));
        Fault { status, help, retry_after, ..Fault::new(code, fault.to_string()) }
    }
}
