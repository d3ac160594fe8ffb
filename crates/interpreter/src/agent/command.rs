use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use rolecall::conversation::Json;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinHandle;
use tokio::time::{interval, sleep};

use super::{Callable, ToolError};
use crate::runtime::wait;
use crate::sandbox::watch::{self, Allowance};
use crate::sandbox::{self, Sandboxed};
use crate::{Error, Folder, Isolation, KernelOptions, Stop, plain};

/// A program that a model can call. It gets the arguments as a JSON object on its standard input, and what it prints is
/// the result. Nothing that a model writes becomes an argument of the program or a part of a shell's line.
#[derive(Clone, Debug)]
pub struct Command {
    /// Its name.
    pub name: String,
    /// Its definition, in OpenAI's form.
    pub definition: Json,
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// How long it may take.
    pub timeout: Duration,
    /// Files and folders that it reads, besides the system's.
    pub readable: Vec<PathBuf>,
    /// How it is run: the limits, and whether in a sandbox.
    pub options: KernelOptions,
    /// The folder that it works in, in a sandbox. Without one, it has an empty one of its own at each call. A program
    /// without a sandbox never works there: it might run what code has left.
    pub folder: Option<Folder>,
    /// The folder that it works in without a sandbox.
    pub beside: PathBuf,
}

/// How long the output of a program that has ended may take to arrive.
const LAST_OUTPUT: Duration = Duration::from_secs(1);

/// The most bytes of errors that the model reads.
const MOST_ERRORS: usize = 4096;

impl Callable for Command {
    fn name(&self) -> &str {
        &self.name
    }

    fn definition(&self) -> Json {
        self.definition.clone()
    }

    fn call(&self, arguments: &str, stop: &Stop) -> Result<String, ToolError> {
        let (command, arguments, stop) = (self.clone(), arguments.to_owned(), stop.clone());
        let end = wait(async move { Ok(command.run(arguments, stop).await) });
        end.unwrap_or_else(|error| Err(of_error(&error)))
    }
}

fn of_error(error: &Error) -> ToolError {
    ToolError { code: error.code(), message: error.to_string() }
}

fn failed(code: &'static str, message: String) -> ToolError {
    ToolError { code, message }
}

impl Command {
    async fn run(self, arguments: String, stop: Stop) -> Result<String, ToolError> {
        let is_boxed = self.options.isolation == Isolation::Sandbox;
        let folder = match &self.folder {
            Some(folder) if is_boxed => folder.clone(),
            _ => Folder::new(&self.options).map_err(|error| of_error(&error))?,
        };
        let argv = self.argv.iter().map(Into::into).collect();
        let program = Sandboxed { argv, env: Vec::new(), readable: &self.readable, shown: &[], run: None };
        let mut command = sandbox::command(&folder, &program, &self.options).map_err(|error| of_error(&error))?;
        if !is_boxed {
            command.current_dir(&self.beside);
        }
        let unable = |error: std::io::Error| failed("command_start", format!("{}: {error}", self.argv.join(" ")));
        let mut child = command.stdin(Stdio::piped()).spawn().map_err(unable)?;
        let process = child.id().unwrap_or_default();
        let most = self.options.limits.text;
        let output = child.stdout.take().map(|output| tokio::spawn(read(output, most)));
        let errors = child.stderr.take().map(|errors| tokio::spawn(read(errors, MOST_ERRORS)));
        if let Some(mut input) = child.stdin.take() {
            // A program need not read its input.
            tokio::spawn(async move {
                let _ = input.write_all(arguments.as_bytes()).await;
            });
        }
        let limits = &self.options.limits;
        let files = watch::room(process, &folder, limits);
        let allowance = Allowance { processor_time: limits.processor_time, files };
        let mut ticks = interval(watch::OFTEN);
        let timeout = sleep(self.timeout);
        tokio::pin!(timeout);
        let end = loop {
            tokio::select! {
                status = child.wait() => break status.map_err(unable),
                () = &mut timeout => {
                    break Err(failed("command_timeout", format!("it took longer than {} s", self.timeout.as_secs_f32())));
                }
                () = stop.stopped() => break Err(failed("stopped", "the user stopped it".into())),
                _ = ticks.tick() => {
                    if let Some((kind, most)) = watch::beyond(process, &folder, limits, allowance) {
                        break Err(of_error(&Error::Limit { kind, most }));
                    }
                }
            }
        };
        // What it left running ends with it.
        if let Some(group) = i32::try_from(process).ok().and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let _ = child.start_kill();
        let status = end?;
        // What it left running may hold its output open.
        let text = async |task: Option<JoinHandle<String>>| match task {
            Some(task) => tokio::time::timeout(LAST_OUTPUT, task).await.ok().and_then(Result::ok).unwrap_or_default(),
            None => String::new(),
        };
        let (output, errors) = (text(output).await, text(errors).await);
        if !status.success() {
            let said = if errors.trim().is_empty() { output } else { errors };
            return Err(failed("command_failed", format!("{status}: {}", said.trim())));
        }
        Ok(output.trim_end_matches('\n').to_owned())
    }
}

/// Reads what a program prints, as far as it is kept. The rest is read and dropped, so that the program can go on.
async fn read(mut output: impl AsyncRead + Unpin, most: usize) -> String {
    let (mut kept, mut cut, mut bytes) = (Vec::new(), 0, [0; 8192]);
    while let Ok(count @ 1..) = output.read(&mut bytes).await {
        let room = (most - kept.len()).min(count);
        kept.extend_from_slice(&bytes[..room]);
        cut += count - room;
    }
    let text = plain(&String::from_utf8_lossy(&kept));
    if cut > 0 { format!("{text}\n[{cut} more bytes of output were cut; at most {most} are kept]") } else { text }
}

impl Command {
    /// Returns the command without a sandbox, with all that this process may do.
    #[must_use]
    pub fn unsafe_without_sandbox(mut self) -> Command {
        self.options.isolation = Isolation::UnsafeNone;
        self
    }
}
