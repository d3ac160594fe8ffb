//! A Jupyter kernel: a process in a sandbox that runs code, one call after the other, and keeps its variables.
//!
//! `start` starts one, `connection` speaks with it, `relay` stands between its sockets and this process, and `call`
//! follows a call from its code to its end. A task of its own owns all of it; a [`Kernel`] only sends it calls.

mod call;
mod connection;
mod relay;
mod start;

use std::process::ExitStatus;
use std::sync::mpsc as blocking;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::process::Child;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

use crate::folder::Folder;
use crate::interpreter::Stop;
use crate::sandbox::watch::{self, Allowance};
use crate::{CodeOutput, Error, KernelLimits, KernelOptions, LimitKind};
use connection::Connection;
use relay::Broken;

pub(crate) use start::Launch;

/// A kernel that runs. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Kernel {
    /// `None` only while this is dropped.
    jobs: Option<mpsc::Sender<Job>>,
    process: u32,
    /// Closed when the task of the kernel has ended.
    ended: Mutex<blocking::Receiver<()>>,
}

/// A call for a kernel.
#[derive(Debug)]
struct Job {
    code: String,
    stop: Stop,
    steps: blocking::Sender<CallStep>,
}

/// What the task of a kernel tells of a call.
#[derive(Debug)]
enum CallStep {
    Output(CodeOutput),
    End(Result<Vec<CodeOutput>, Error>),
}

/// What the task of a kernel has.
struct RunningKernel {
    child: Child,
    process: u32,
    connection: Connection,
    broken: mpsc::Receiver<Broken>,
    /// The last of what the process itself printed.
    last_words: LastWords,
    folder: Folder,
    limits: KernelLimits,
    allowance: Allowance,
}

/// The end of what a process printed.
#[derive(Clone, Debug, Default)]
struct LastWords(Arc<Mutex<Vec<u8>>>);

/// The most bytes that are kept of it.
const MOST_WORDS: usize = 2048;

impl Kernel {
    /// Starts a kernel on a folder. Run it on the threads of [`runtime`](crate::runtime).
    pub async fn start(folder: &Folder, launch: &Launch, options: &KernelOptions) -> Result<Kernel, Error> {
        let running = start::start(folder, launch, options).await?;
        let process = running.process;
        let (jobs, given) = mpsc::channel(1);
        let (living, ended) = blocking::channel();
        tokio::spawn(async move {
            running.live(given).await;
            drop(living);
        });
        Ok(Kernel { jobs: Some(jobs), process, ended: Mutex::new(ended) })
    }

    /// Returns the number of its process on this machine: that of the sandbox, if it is in one.
    pub fn process(&self) -> u32 {
        self.process
    }

    /// Reports whether it still runs.
    pub fn is_alive(&self) -> bool {
        self.jobs.as_ref().is_some_and(|jobs| !jobs.is_closed())
    }

    /// Runs code, and waits for its end.
    pub fn run(&self, code: &str, stop: &Stop, show: &mut dyn FnMut(&CodeOutput)) -> Result<Vec<CodeOutput>, Error> {
        let (steps, told) = blocking::channel();
        let died = || Error::Died("it had ended before the call".into());
        let job = Job { code: code.to_owned(), stop: stop.clone(), steps };
        self.jobs.as_ref().ok_or_else(died)?.try_send(job).map_err(|_| died())?;
        loop {
            match told.recv() {
                Ok(CallStep::Output(output)) => show(&output),
                Ok(CallStep::End(end)) => return end,
                Err(_) => return Err(died()),
            }
        }
    }
}

impl Drop for Kernel {
    /// Waits until its processes have ended, so that nothing is left when the last of this process' work is done.
    fn drop(&mut self) {
        drop(self.jobs.take());
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = ended.recv_timeout(LAST_MOMENTS);
    }
}

/// How long a kernel may take to end.
const LAST_MOMENTS: Duration = Duration::from_secs(3);

impl RunningKernel {
    /// Answers calls until the kernel ends, or nobody can send one any more.
    async fn live(mut self, mut jobs: mpsc::Receiver<Job>) {
        let mut ticks = interval(watch::OFTEN);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                job = jobs.recv() => {
                    let Some(job) = job else { break };
                    let end = self.call(&job).await;
                    let is_lost = end.as_ref().is_err_and(Error::lost_kernel);
                    if is_lost {
                        // Whoever gets the error may start another one on the same folder.
                        self.end().await;
                        jobs.close();
                    }
                    let _ = job.steps.send(CallStep::End(end));
                    if is_lost {
                        return;
                    }
                }
                _ = ticks.tick() => if self.beyond().await.is_some() { break },
                _ = self.child.wait() => break,
                _ = self.broken.recv() => break,
            }
        }
        self.end().await;
        jobs.close();
    }

    /// Looks at what the kernel uses.
    async fn beyond(&self) -> Option<Error> {
        let (process, folder, limits, most) = (self.process, self.folder.clone(), self.limits.clone(), self.allowance);
        let looked = tokio::task::spawn_blocking(move || watch::beyond(process, &folder, &limits, most)).await;
        let (kind, most) = looked.ok()??;
        Some(Error::Limit { kind, most })
    }

    /// Allows what a call may use that begins now.
    async fn allow(&mut self) {
        let (process, folder, limits) = (self.process, self.folder.clone(), self.limits.clone());
        self.allowance.processor_time = watch::of_tree(process).processor_time + limits.processor_time;
        if let Ok(files) = tokio::task::spawn_blocking(move || watch::room(process, &folder, &limits)).await {
            self.allowance.files = files;
        }
    }

    /// Ends the kernel, with all its processes.
    async fn end(&mut self) {
        if let Some(group) = i32::try_from(self.process).ok().and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let _ = self.child.start_kill();
        let _ = self.child.wait().await;
    }

    fn died(&self, status: std::io::Result<ExitStatus>) -> Error {
        let status = status.map_or_else(|error| error.to_string(), |status| status.to_string());
        let words = self.last_words.text();
        Error::Died(if words.is_empty() { status } else { format!("{status}: {words}") })
    }

    fn broke(&self, broken: &Broken) -> Error {
        match broken {
            Broken::TooLong => Error::Limit { kind: LimitKind::Message, most: self.limits.message },
            Broken::Closed => Error::Died("it closed its connection".into()),
        }
    }
}

impl LastWords {
    fn add(&self, bytes: &[u8]) {
        let mut words = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        words.extend_from_slice(bytes);
        let extra = words.len().saturating_sub(MOST_WORDS);
        words.drain(..extra);
    }

    fn text(&self) -> String {
        let words = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        crate::plain(&String::from_utf8_lossy(&words)).trim().to_owned()
    }
}
