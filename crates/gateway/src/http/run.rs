use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rolecall::conversation::object;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::http::server::{ServerEnd, serve_until};
use crate::observe::Level;
use crate::settings::read_keys;
use crate::{Gateway, Log, OpenFault, SettingFault, Settings, Telling, Traces};

/// Why a gateway does not run.
#[derive(Debug)]
pub enum RunFault {
    /// The settings are wrong.
    Setting(SettingFault),
    /// The gateway cannot be opened.
    Open(OpenFault),
    /// An engine that the gateway started ended before it was ready.
    Engine {
        /// The name of its model.
        name: String,
        /// How it ended, with its last output.
        why: String,
    },
    /// The system does not allow it, for example because another program has the address.
    System(String),
}

/// Runs a gateway until it gets a signal. The log tells its address once it accepts requests.
///
/// At SIGTERM or SIGINT it accepts no more requests, and ends when all are answered, or when the time to
/// drain is over, or at the second such signal. At SIGHUP it reads the keys again.
pub fn run(settings: &Settings, log: &Log) -> Result<ServerEnd, RunFault> {
    let mut config = settings.open().map_err(RunFault::Setting)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(system)?;
    let ended = runtime.block_on(async {
        let traces = match &settings.traces {
            Some(endpoint) => Traces::to(endpoint, &settings.service).map_err(RunFault::System)?,
            None => Traces::default(),
        };
        config.telling = Telling { log: log.clone(), log_content: settings.log_content, traces: traces.clone() };
        let gateway = Arc::new(Gateway::open(config).await.map_err(RunFault::Open)?);
        for warning in gateway.warnings() {
            tell(log, Level::Warning, "unsafe_engine", &warning);
        }
        let listener = TcpListener::bind(settings.listen.as_str());
        let listener = listener.await.map_err(|error| RunFault::System(format!("{}: {error}", settings.listen)))?;
        let address = listener.local_addr().map_err(system)?.to_string();
        let (sender, count) = watch::channel(0);
        // The handlers are there before anybody knows that the gateway runs.
        let signals = Signals::new().map_err(system)?;
        tokio::spawn(signals.follow(sender, Arc::clone(&gateway), settings.keys.clone()));
        let watched = Arc::clone(&gateway);
        tell(log, Level::Info, "listening", &format!("listening on http://{address}"));
        let end = reached(count.clone(), 1);
        let drain = settings.drain;
        let cut = async move {
            let over = async {
                reached(count.clone(), 1).await;
                tokio::time::sleep(drain).await;
            };
            tokio::select! {
                () = over => {}
                () = reached(count.clone(), 2) => {}
            }
        };
        let ended = tokio::select! {
            ended = serve_until(gateway, listener, end, cut) => ended.map_err(system)?,
            fault = keep_engines(&watched, log) => return Err(fault),
        };
        traces.flush().await;
        match ended {
            ServerEnd::Drained => tell(log, Level::Info, "drained", "all requests were answered"),
            ServerEnd::Cut(1) => tell(log, Level::Warning, "cut", "1 connection was cut"),
            ServerEnd::Cut(count) => tell(log, Level::Warning, "cut", &format!("{count} connections were cut")),
        }
        Ok(ended)
    });
    // Work that was cut may still be on a thread.
    runtime.shutdown_timeout(Duration::from_millis(100));
    log.flush();
    ended
}

/// Starts servers of the gateway's own again when they end. Returns the error for one that was never ready, because it
/// would end in the same way again.
async fn keep_engines(gateway: &Gateway, log: &Log) -> RunFault {
    let own = gateway.models().iter().filter(|served| served.engine.is_local());
    let mut own: Vec<_> = own.map(|served| (served, false)).collect();
    loop {
        for (served, is_ready) in &mut own {
            if !*is_ready {
                *is_ready = served.engine.probe(PATIENCE).await.is_ok();
            }
            if let Some(story) = served.engine.revive() {
                tell(log, Level::Error, "engine_died", &format!("{}: {story}", served.name));
            }
            if let Some(loss) = served.engine.loss().filter(|loss| !loss.was_ready) {
                return RunFault::Engine { name: served.name.clone(), why: loss.story };
            }
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// How long a server of the gateway's own may take to say that it is ready.
const PATIENCE: Duration = Duration::from_millis(500);

/// Writes an event of the gateway itself to the log.
fn tell(log: &Log, level: Level, event: &str, message: &str) {
    log.write(level, event, &object! { "message" => message });
}

fn system(error: io::Error) -> RunFault {
    RunFault::System(error.to_string())
}

/// Waits for a number of signals to end.
async fn reached(mut count: watch::Receiver<u32>, wanted: u32) {
    // The sender lives as long as the process.
    if count.wait_for(|count| *count >= wanted).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Counts a signal to end.
fn end(count: &watch::Sender<u32>, gateway: &Gateway) {
    tell(&gateway.observer.log, Level::Info, "draining", "no more requests are accepted");
    count.send_modify(|count| *count += 1);
}

/// Reads the keys again. A file that cannot be read changes nothing.
fn reload(gateway: &Gateway, path: Option<&Path>) {
    let (Some(path), log) = (path, &gateway.observer.log) else { return };
    match read_keys(path) {
        Ok(keys) => {
            gateway.keys.replace(&keys);
            tell(log, Level::Info, "keys_read", "the keys were read again");
        }
        Err(fault) => tell(log, Level::Error, "keys_not_read", &format!("the keys stay as they were: {fault}")),
    }
}

#[cfg(unix)]
struct Signals {
    term: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    hang_up: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn new() -> io::Result<Signals> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Signals {
            term: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Counts the signals to end, and reads the keys again.
    async fn follow(mut self, count: watch::Sender<u32>, gateway: Arc<Gateway>, keys: Option<std::path::PathBuf>) {
        loop {
            tokio::select! {
                _ = self.term.recv() => end(&count, &gateway),
                _ = self.interrupt.recv() => end(&count, &gateway),
                _ = self.hang_up.recv() => reload(&gateway, keys.as_deref()),
            }
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> io::Result<Signals> {
        Ok(Signals)
    }

    async fn follow(self, count: watch::Sender<u32>, gateway: Arc<Gateway>, _: Option<std::path::PathBuf>) {
        while tokio::signal::ctrl_c().await.is_ok() {
            end(&count, &gateway);
        }
    }
}
