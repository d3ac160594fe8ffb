//! What is known about requests: metrics, logs and traces.
//!
//! Each request has a [`RequestLog`], which its work writes to: how long each stage took, how many ids there
//! were. When the request ends, the metrics, a line of the log and the spans of a trace are made of it.
//! None of them contains what was said, unless the log is told to.

mod log;
mod metrics;
mod request_log;
mod route;
mod stage;
mod trace_context;
mod traces;
mod watch;

pub use log::Log;
pub(crate) use log::{Level, rfc_3339};
pub(crate) use metrics::{MEDIA_TYPE, Metrics};
pub(crate) use request_log::RequestLog;
pub(crate) use stage::Stage;
pub use traces::Traces;
pub(crate) use watch::Watch;

/// Where everything about requests is told.
#[derive(Debug)]
pub(crate) struct Observer {
    pub metrics: Metrics,
    pub log: Log,
    /// Whether the log has what was said.
    pub has_content: bool,
    pub traces: Traces,
}

/// Where a gateway tells what it does.
#[derive(Clone, Debug, Default)]
pub struct Telling {
    /// Where log lines go.
    pub log: Log,
    /// Whether the log contains requests and replies.
    pub log_content: bool,
    /// Where traces go.
    pub traces: Traces,
}

impl Observer {
    pub fn new(telling: &Telling) -> Observer {
        let metrics = Metrics::new(telling.log.dropped(), telling.traces.dropped());
        let Telling { log, log_content, traces } = telling.clone();
        Observer { metrics, log, has_content: log_content, traces }
    }
}
