//! The log: one line of JSON for each request, and for each event of the gateway itself.
//!
//! `tracing` with `tracing-subscriber` would do the same through a global subscriber and a second
//! library for JSON. This log has one writer and one shape of lines, and tests can read it.

use std::fmt;
use std::io::Write;
use std::iter;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prometheus_client::metrics::counter::Counter;
use rolecall::conversation::json::{self, Layout, Object};
use rolecall::conversation::object;
use rolecall::template::DateTime;

/// Where log lines go. Clones write to the same place.
#[derive(Clone, Default)]
pub struct Log {
    /// `None` if there is no log.
    lines: Option<SyncSender<LogOrder>>,
    dropped: Counter,
}

/// The most lines that wait to be written.
const WAITING: usize = 4096;

/// How long lines wait for others that are written with them.
const PAUSE: Duration = Duration::from_millis(5);

/// What waits for the thread that writes.
enum LogOrder {
    Line(String),
    /// Somebody who wants to know that all lines before were written.
    Flush(SyncSender<()>),
}

impl Log {
    /// Returns a log that writes to standard error.
    pub fn stderr() -> Log {
        Log::to(std::io::stderr())
    }

    /// Returns a log that writes to a writer, on a thread of its own: a writer that is slow slows no
    /// request. Lines that find no place to wait are dropped and counted.
    pub fn to(mut writer: impl Write + Send + 'static) -> Log {
        let (lines, waiting) = sync_channel::<LogOrder>(WAITING);
        let started = thread::Builder::new().name("log".to_owned()).spawn(move || {
            let mut text = String::new();
            // Errors of a log cannot be told anywhere.
            let mut write = |text: &mut String| {
                let _ = writer.write_all(text.as_bytes()).and_then(|()| writer.flush());
                text.clear();
            };
            while let Ok(first) = waiting.recv() {
                for next in iter::once(first).chain(waiting.try_iter().take(WAITING)) {
                    match next {
                        LogOrder::Line(line) => text += &line,
                        LogOrder::Flush(done) => {
                            write(&mut text);
                            let _ = done.send(());
                        }
                    }
                }
                write(&mut text);
                // Requests do not have to wake a thread that does not wait.
                thread::sleep(PAUSE);
            }
        });
        Log { lines: started.is_ok().then_some(lines), dropped: Counter::default() }
    }

    /// Returns the counter of lines that were dropped.
    pub(crate) fn dropped(&self) -> Counter {
        self.dropped.clone()
    }

    /// Waits until all lines so far are written, or a second is over.
    pub(crate) fn flush(&self) {
        let (done, is_done) = sync_channel(1);
        if let Some(lines) = &self.lines
            && lines.try_send(LogOrder::Flush(done)).is_ok()
        {
            let _ = is_done.recv_timeout(Duration::from_secs(1));
        }
    }

    /// Writes a line.
    pub(crate) fn write(&self, level: Level, event: &str, facts: &Object) {
        let Some(lines) = &self.lines else { return };
        let head = object! { "time" => rfc_3339(SystemTime::now()), "level" => level.name(), "event" => event };
        let layout = Layout::compact();
        let mut text = String::with_capacity(ROOM);
        json::write_object_into(&mut text, &head, &layout);
        // The facts go on in the same object.
        text.pop();
        for (name, fact) in facts.iter() {
            text.push(',');
            json::write_string(&mut text, name, false);
            text.push(':');
            json::write_into(&mut text, fact, &layout);
        }
        text.push_str("}\n");
        if lines.try_send(LogOrder::Line(text)).is_err() {
            self.dropped.inc();
        }
    }
}

/// The usual number of bytes of a line.
const ROOM: usize = 512;

/// How important a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Info,
    Warning,
    Error,
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Level::Info => "info",
            Level::Warning => "warning",
            Level::Error => "error",
        }
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Log({})", self.lines.is_some())
    }
}

/// Returns a time as RFC 3339 writes it, in UTC: `2026-11-25T23:30:00.123Z`.
pub(crate) fn rfc_3339(now: SystemTime) -> String {
    let elapsed = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = i64::try_from(elapsed.as_secs()).unwrap_or(i64::MAX);
    let Some(at) = DateTime::from_unix(seconds) else { return String::new() };
    let DateTime { year, month, day, hour, minute, second, .. } = at;
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", elapsed.subsec_millis())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::rfc_3339;

    #[test]
    fn times_are_written_as_rfc_3339_says() {
        for (seconds, wanted) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199, "2024-02-29T23:59:59.000Z"),
            (1_735_689_599, "2024-12-31T23:59:59.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(rfc_3339(UNIX_EPOCH + Duration::from_secs(seconds)), wanted);
        }
        assert_eq!(rfc_3339(UNIX_EPOCH + Duration::from_millis(1_234)), "1970-01-01T00:00:01.234Z");
    }
}
