use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::runtime::{run, runtime};

/// The program of a server, in a process group of its own: what it starts ends with it, as a shell's or a package
/// runner's children do.
///
/// If this process is killed, a program is left that does not end with its standard input. To end it then, it would have to be told
/// in between fork and exec, which takes unsafe code.
#[derive(Debug)]
pub(super) struct McpProcess(Mutex<Option<Child>>);

impl McpProcess {
    /// Starts it. It speaks on its standard input and output.
    pub fn start(mut command: Command) -> Result<(McpProcess, ChildStdout, ChildStdin), String> {
        use std::process::Stdio;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0).kill_on_drop(true);
        let program = command.as_std().get_program().to_string_lossy().into_owned();
        let mut child =
            command.spawn().map_err(|error| format!("the program `{program}` cannot be started: {error}"))?;
        let pipes = child.stdout.take().zip(child.stdin.take());
        let process = McpProcess(Mutex::new(Some(child)));
        let (output, input) = pipes.ok_or("it has no standard input and output")?;
        Ok((process, output, input))
    }

    /// Ends it, and waits until it has ended.
    pub async fn end(&self) {
        if let Some(child) = self.take() {
            let ended = async move {
                end(child).await;
                Ok(())
            };
            let _ = run(ended).await;
        }
    }

    fn take(&self) -> Option<Child> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for McpProcess {
    fn drop(&mut self) {
        let Some(child) = self.take() else { return };
        // This process may end before the task runs.
        signal(&child, Signal::TERM);
        if let Ok(runtime) = runtime() {
            runtime.spawn(end(child));
        }
    }
}

/// How long it may take to end by itself.
const GRACE: Duration = Duration::from_secs(1);

/// Ends a group, whose standard input is closed.
async fn end(mut child: Child) {
    let group = child.id();
    if timeout(GRACE, child.wait()).await.is_err() {
        signal(&child, Signal::TERM);
        let _ = timeout(GRACE, child.wait()).await;
    }
    // What it left running ends with it.
    signal_group(group, Signal::KILL);
    let _ = child.wait().await;
}

fn signal(child: &Child, signal: Signal) {
    signal_group(child.id(), signal);
}

fn signal_group(group: Option<u32>, signal: Signal) {
    if let Some(group) = group.and_then(|group| Pid::from_raw(i32::try_from(group).ok()?)) {
        let _ = kill_process_group(group, signal);
    }
}
