//! What goes wrong with engines.

use std::time::Duration;

use crate::{Fault, FaultCode};

/// Why a frame does not give a piece of a reply.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// It does not have what it should have.
    Broken,
    /// The engine gave the reply up.
    Aborted {
        /// The engine's reason.
        why: Option<String>,
        /// The status that the engine would have answered with.
        status: Option<u16>,
    },
}

impl Trouble {
    pub fn aborted(why: Option<&str>) -> Trouble {
        Trouble::Aborted { why: why.map(str::to_owned), status: None }
    }

    pub fn fault(self) -> Fault {
        match self {
            Trouble::Broken => broken("a frame does not have what it should have"),
            Trouble::Aborted { why, status } => {
                let why = why.map_or(String::new(), |why| format!(": {}", start(&why)));
                let status = status.map_or(502, own_status);
                Fault { status, ..Fault::new(FaultCode::EngineAborted, format!("the engine aborted the reply{why}")) }
            }
        }
    }
}

pub(super) fn down(url: &str, error: &reqwest::Error) -> Fault {
    let help = Some("check that the engine runs at this address".into());
    Fault {
        help,
        ..Fault::new(FaultCode::EngineDown, format!("the engine at {url} does not answer: {}", cause(error)))
    }
}

/// Returns the innermost reason of an error.
pub(super) fn cause(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

pub(super) fn slow(patience: Duration) -> Fault {
    Fault::new(FaultCode::EngineSlow, format!("the engine sent no ids for {} s", patience.as_secs_f64()))
}

/// The connection ended in the midst of a reply.
pub(super) fn died(why: &str) -> Fault {
    Fault::new(FaultCode::EngineDied, format!("the connection to the engine ended before the reply did: {why}"))
}

pub(crate) fn broken(what: &str) -> Fault {
    Fault::new(FaultCode::EngineBroken, format!("the engine's answer is damaged: {what}"))
}

pub(super) fn refused(status: u16, text: &str) -> Fault {
    let text = start(text);
    let message = format!("the engine refused the request with status {status}: {text}");
    Fault { status: own_status(status), ..Fault::new(FaultCode::EngineRefused, message) }
}

/// Returns the status of our answer for an engine's status.
fn own_status(status: u16) -> u16 {
    match status {
        400 | 413 | 422 => 400,
        429 | 503 => 503,
        _ => 502,
    }
}

/// Returns the start of an engine's text, which may be long.
fn start(text: &str) -> String {
    text.chars().take(500).collect()
}
