//! llama.cpp's server as a child of this process.
//!
//! It is `llama-server` on the path, or else a Python interpreter that has the package `xllamacpp`. A child
//! ends when its standard input does, so it never outlives the gateway, not even one that is killed. One
//! that ends by itself is started again, unless it had only just been started. Until it is back, requests
//! are answered with `engine_died` or `engine_down`. Its last output is for whoever runs the gateway, and
//! no client gets it.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::Read;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{env, fmt, thread};

use crate::{Fault, FaultCode};

/// How to start llama.cpp's server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalOptions {
    /// The program `llama-server`. Without it, the path is searched.
    pub server: Option<PathBuf>,
    /// The Python interpreter, for which the path is not searched. Without it, `python3` is used if there
    /// is no `llama-server`.
    pub python: Option<PathBuf>,
    /// The most ids of a prompt and its reply, for all replies together. 0 means the server's own default.
    pub context: usize,
    /// The number of replies at the same time. 0 means the server's own default.
    pub parallel: usize,
    /// The number of threads. 0 means the server's own default.
    pub threads: usize,
    /// How long a server must have run to be started again when it ends. One that ends sooner would end in
    /// the same way again.
    pub least_run: Duration,
}

impl Default for LocalOptions {
    fn default() -> LocalOptions {
        let least_run = Duration::from_secs(30);
        LocalOptions { server: None, python: None, context: 0, parallel: 0, threads: 0, least_run }
    }
}

/// A server that runs until this is dropped.
pub(super) struct Local {
    pub address: String,
    file: PathBuf,
    port: u16,
    options: LocalOptions,
    life: Mutex<Life>,
    /// Whether it has ever been ready.
    was_ready: AtomicBool,
}

/// A server that has ended for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// How it ended, with its last output.
    pub story: String,
    /// Whether it has ever been ready. One that has not would end in the same way again.
    pub was_ready: bool,
}

/// A child from its start to its end.
struct Life {
    child: Child,
    output: Arc<Mutex<VecDeque<u8>>>,
    start: Instant,
    /// Whether its end was reported.
    is_told: bool,
}

/// The most bytes of a child's output that are kept.
const MOST_OUTPUT: usize = 4096;

/// How long a child may take to end by itself.
const LAST_MOMENTS: Duration = Duration::from_secs(3);

/// Runs a program, and ends it when standard input ends. `llama-server` itself does not watch it.
const WATCH: &str = r#"
exec 3<&0
"$@" </dev/null 3<&- &
server=$!
(cat <&3 >/dev/null; kill "$server" 2>/dev/null) &
watch=$!
wait "$server"
status=$?
kill "$watch" 2>/dev/null
exit "$status"
"#;

impl Local {
    /// Starts a server for a model file. It is not ready yet.
    pub fn start(file: &Path, options: &LocalOptions) -> Result<Local, String> {
        if !file.is_file() {
            return Err(format!("there is no file {}", file.display()));
        }
        let port = free_port().map_err(|error| format!("there is no free port: {error}"))?;
        let life = Mutex::new(Life::begin(file, port, options)?);
        let (file, options) = (file.to_owned(), options.clone());
        let (address, was_ready) = (format!("http://127.0.0.1:{port}"), AtomicBool::new(false));
        Ok(Local { address, file, port, options, life, was_ready })
    }

    /// Returns the error of a server that has ended, as clients get it.
    pub fn fault(&self) -> Option<Fault> {
        let status = self.life().ended()?;
        let message = format!("llama.cpp's server has ended: {status}");
        let help = Some("try again later; the log of the gateway has the server's last output".into());
        Some(Fault { help, ..Fault::new(FaultCode::EngineDied, message) })
    }

    /// Returns how the server ended, with its last output, if it has.
    pub fn story(&self) -> Option<String> {
        self.life().story()
    }

    /// Notes that the server is ready.
    pub fn note_ready(&self) {
        self.was_ready.store(true, Ordering::Relaxed);
    }

    /// Returns what became of a server that has ended and is not started again.
    pub fn loss(&self) -> Option<Loss> {
        let mut life = self.life();
        let story = life.story().filter(|_| life.is_told)?;
        Some(Loss { story, was_ready: self.was_ready.load(Ordering::Relaxed) })
    }

    /// Starts a server that has ended again. Returns what happened, once for each end.
    pub fn revive(&self) -> Option<String> {
        let mut life = self.life();
        if life.is_told {
            return None;
        }
        let story = life.story()?;
        life.is_told = true;
        if life.start.elapsed() < self.options.least_run {
            let least = self.options.least_run.as_secs();
            return Some(format!("{story}; it is not started again, because it ran for less than {least} s"));
        }
        match Life::begin(&self.file, self.port, &self.options) {
            Ok(next) => {
                *life = next;
                Some(format!("{story}; it is started again"))
            }
            Err(error) => Some(format!("{story}; it cannot be started again: {error}")),
        }
    }

    fn life(&self) -> MutexGuard<'_, Life> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Life {
    fn begin(file: &Path, port: u16, options: &LocalOptions) -> Result<Life, String> {
        let mut command = command(file, port, options);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let program = command.get_program().to_owned();
        let mut child =
            command.spawn().map_err(|error| format!("{} cannot be started: {error}", Path::new(&program).display()))?;
        let output = Arc::new(Mutex::new(VecDeque::new()));
        if let Some(pipe) = child.stdout.take() {
            keep(pipe, &output);
        }
        if let Some(pipe) = child.stderr.take() {
            keep(pipe, &output);
        }
        Ok(Life { child, output, start: Instant::now(), is_told: false })
    }

    fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    fn story(&mut self) -> Option<String> {
        let status = self.ended()?;
        let output: Vec<u8> = self.output.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect();
        let output = String::from_utf8_lossy(&output);
        Some(format!("llama.cpp's server has ended: {status}; its last output: {}", output.trim()))
    }
}

impl fmt::Debug for Local {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Local").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        let child = &mut self.life.get_mut().unwrap_or_else(PoisonError::into_inner).child;
        drop(child.stdin.take());
        let end = Instant::now() + LAST_MOMENTS;
        while Instant::now() < end {
            if !matches!(child.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
        let _ = child.kill();
        let _ = child.wait();
    }
}

fn command(file: &Path, port: u16, options: &LocalOptions) -> Command {
    let numbers = [usize::from(port), options.context, options.parallel, options.threads];
    let server = match (&options.server, &options.python) {
        (Some(server), _) => Some(server.clone()),
        (None, Some(_)) => None,
        (None, None) => on_path("llama-server"),
    };
    let Some(server) = server else {
        let python = options.python.clone().unwrap_or_else(|| "python3".into());
        let mut command = Command::new(python);
        command.arg("-c").arg(include_str!("local.py")).arg(file).args(numbers.map(|number| number.to_string()));
        return command;
    };
    let mut command = Command::new("sh");
    command.args(["-c", WATCH, "sh"]).arg(server).arg("-m").arg(file).args(["--host", "127.0.0.1"]);
    let flags = ["--port", "-c", "-np", "-t"];
    for (flag, number) in flags.iter().zip(numbers).filter(|(_, number)| *number > 0) {
        command.arg(flag).arg(OsString::from(number.to_string()));
    }
    command
}

fn on_path(program: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?).map(|folder| folder.join(program)).find(|path| path.is_file())
}

fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Keeps the end of what a child writes.
fn keep(mut pipe: impl Read + Send + 'static, output: &Arc<Mutex<VecDeque<u8>>>) {
    let output = Arc::clone(output);
    thread::spawn(move || {
        let mut bytes = [0; 1024];
        while let Ok(count) = pipe.read(&mut bytes)
            && count > 0
        {
            let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
            output.extend(&bytes[..count]);
            let surplus = output.len().saturating_sub(MOST_OUTPUT);
            output.drain(..surplus);
        }
    });
}
