use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use rolecall::conversation::{Json, object};
use rolecall::format::CodeResult;
use rolecall_interpreter::agent::ToolResult;
use rolecall_interpreter::{CodeOutput, Error, FileEntry, Folder, Interpreter, KernelSession, Stop};
use tokio::runtime::Handle;

use super::Containers;
use super::uploads::Upload;
use crate::clock::{now, random};
use crate::store::Owner;
use crate::{Fault, FaultCode};

/// A container. It has a folder, and later a kernel, once code or a file needs them: what only might run code takes no
/// place of others.
#[derive(Debug)]
pub struct Container {
    pub id: String,
    pub created: i64,
    pub settings: ContainerSettings,
    owner: Owner,
    all: Weak<Containers>,
    used: Mutex<Instant>,
    /// `None` before it is opened, and after it was ended.
    session: tokio::sync::Mutex<Option<KernelSession>>,
    /// Set when it is opened.
    folder: OnceLock<Folder>,
    /// The files that it gets when it is opened.
    waiting: Mutex<Vec<Upload>>,
    /// The ids of files, by their names.
    files: Mutex<BTreeMap<String, String>>,
    /// Stops what runs when it is ended.
    ended: Stop,
}

/// How a container is made.
#[derive(Clone, Debug)]
pub struct ContainerSettings {
    pub name: String,
    /// How long it is kept after it was last used.
    pub idle: Duration,
    /// Whether a client made it, and not a request that may run code.
    pub is_made: bool,
    /// The most bytes of its files.
    pub disk: u64,
    /// The most files.
    pub files: u64,
}

/// What became of code.
#[derive(Clone, Debug)]
pub struct Ran {
    /// What the model reads.
    pub text: String,
    /// What the client reads, as OpenAI's items have it.
    pub outputs: Vec<Json>,
    /// Whether it was run to its end.
    pub is_whole: bool,
}

impl Container {
    pub(super) fn new(all: Weak<Containers>, owner: Owner, settings: ContainerSettings) -> Container {
        Container {
            id: format!("cntr_{:016x}{:016x}", random(), random()),
            created: now(),
            settings,
            owner,
            all,
            used: Mutex::new(Instant::now()),
            session: tokio::sync::Mutex::default(),
            folder: OnceLock::new(),
            waiting: Mutex::default(),
            files: Mutex::default(),
            ended: Stop::default(),
        }
    }

    /// Reports whether it has a folder, and so takes a place.
    pub fn is_open(&self) -> bool {
        self.folder.get().is_some()
    }

    /// Returns its folder, with the files that it was given. The thread must be one that may wait.
    fn folder(&self) -> Result<&Folder, Fault> {
        if let Some(folder) = self.folder.get() {
            return Ok(folder);
        }
        let mut waiting = self.waiting();
        if let Some(folder) = self.folder.get() {
            return Ok(folder);
        }
        let all = self.all.upgrade().filter(|_| !self.ended.is_stopped()).ok_or_else(|| missing(&self.id))?;
        let session = all.session(self.owner)?;
        let folder = session.folder().clone();
        waiting.iter().try_for_each(|file| folder.write(&file.name, &file.bytes).map_err(|error| unwritten(&error)))?;
        waiting.clear();
        *self.session.blocking_lock() = Some(session);
        Ok(self.folder.get_or_init(|| folder))
    }

    /// Ends it: what runs is stopped, and its kernel is ended. The thread must be one that may wait.
    pub fn end(&self) {
        self.ended.stop();
        self.waiting().clear();
        drop(self.session.blocking_lock().take());
    }

    /// Runs code, and waits for its end. One call runs at a time, in the order in which they came. Code that is stopped
    /// before its turn never begins. The thread must be one that may wait.
    pub fn run(&self, code: &str, stop: &Stop, code_result: &CodeResult) -> Result<Ran, Fault> {
        self.touch();
        let stop = stop.or(&self.ended);
        if !stop.is_stopped() {
            self.folder()?;
        }
        let turn = async {
            tokio::select! {
                biased;
                () = stop.stopped() => None,
                session = self.session.lock() => Some(session),
            }
        };
        let run = match Handle::current().block_on(turn).as_deref_mut() {
            Some(Some(session)) => session.run(code, &stop, &mut |_| {}),
            _ => Err(Error::NotBegun),
        };
        self.touch();
        let is_ended = self.ended.is_stopped();
        let mut outputs: Vec<Json> = Vec::new();
        let mut logs = String::new();
        let is_whole = run.is_ok() && !is_ended;
        match &run {
            Ok(execution) => {
                for output in &execution.outputs {
                    if let CodeOutput::Picture { name, .. } = output {
                        flush(&mut logs, &mut outputs);
                        let url = format!("/v1/containers/{}/files/{}/content", self.id, self.file_id(name));
                        outputs.push(object! { "type" => "image", "url" => url }.into());
                    } else {
                        let one =
                            rolecall_interpreter::Execution { outputs: vec![output.clone()], is_new_kernel: false };
                        if !logs.is_empty() && !logs.ends_with('\n') {
                            logs.push('\n');
                        }
                        logs.push_str(&one.text(str::to_owned));
                    }
                }
            }
            Err(error) => logs = error.to_string(),
        }
        let text = if is_ended {
            logs = [std::mem::take(&mut logs), DELETED.to_owned()].join("\n").trim_start().to_owned();
            ToolResult::failed("container_deleted", DELETED).text
        } else {
            ToolResult::of_code(run, code_result).text
        };
        flush(&mut logs, &mut outputs);
        Ok(Ran { text, outputs, is_whole })
    }

    /// Returns how long nobody has used it.
    pub fn idle(&self) -> Duration {
        self.used.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    pub fn touch(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Returns when it is ended, unless somebody uses it.
    pub fn left(&self) -> Duration {
        self.settings.idle.saturating_sub(self.idle())
    }

    /// Writes a file, and returns its id.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<String, Fault> {
        self.touch();
        self.folder()?.write(name, bytes).map_err(|error| unwritten(&error))?;
        Ok(self.file_id(name))
    }

    /// Gives it an uploaded file, at once or when it is opened, and returns the file's id.
    pub fn give(&self, upload: Upload) -> Result<String, Fault> {
        self.touch();
        let id = self.file_id(&upload.name);
        let mut waiting = self.waiting();
        if self.is_open() {
            drop(waiting);
            return self.write(&upload.name, &upload.bytes);
        }
        waiting.retain(|file| file.name != upload.name);
        let bytes = waiting.iter().chain([&upload]).map(|file| file.bytes.len() as u64).sum::<u64>();
        if bytes > self.settings.disk || waiting.len() as u64 >= self.settings.files {
            let message = format!("{:?}: the container has no room for the file", upload.name);
            let help = Some("make the files smaller, or give it fewer".into());
            return Err(Fault { help, ..Fault::at("file", FaultCode::TooLarge, message) });
        }
        waiting.push(upload);
        Ok(id)
    }

    /// Removes a file.
    pub fn remove(&self, id: &str) -> Result<(), Fault> {
        let (name, _) = self.read(id)?;
        self.folder()?.remove(&name).map_err(|error| fault(&error))
    }

    /// Returns its files, each with an id.
    pub fn files(&self) -> Result<Vec<(String, FileEntry)>, Fault> {
        self.touch();
        let entries = match self.folder.get() {
            Some(folder) => folder.list().map_err(|error| fault(&error))?,
            None => {
                let entry = |file: &Upload| FileEntry {
                    name: file.name.clone(),
                    size: file.bytes.len() as u64,
                    changed: self.created,
                };
                self.waiting().iter().map(entry).collect()
            }
        };
        Ok(entries.into_iter().map(|entry| (self.file_id(&entry.name), entry)).collect())
    }

    /// Returns the content of a file.
    pub fn read(&self, id: &str) -> Result<(String, Vec<u8>), Fault> {
        self.touch();
        let name = {
            let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
            files.iter().find(|(_, own)| *own == id).map(|(name, _)| name.clone())
        };
        let name = name.ok_or_else(|| no_file(id))?;
        let bytes = self.folder()?.read(&name).map_err(|error| fault(&error))?;
        Ok((name, bytes))
    }

    fn file_id(&self, name: &str) -> String {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.entry(name.to_owned()).or_insert_with(|| format!("cfile_{:016x}{:016x}", random(), random())).clone()
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<Upload>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn to_json(&self) -> Json {
        let minutes = i64::try_from(self.settings.idle.as_secs() / 60).unwrap_or(i64::MAX);
        object! {
            "id" => self.id.as_str(), "object" => "container", "created_at" => self.created, "status" => "running",
            "expires_after" => object! { "anchor" => "last_active_at", "minutes" => minutes },
            "last_active_at" => now() - i64::try_from(self.idle().as_secs()).unwrap_or(0), "name" => self.settings.name.as_str(),
        }
        .into()
    }
}

fn flush(logs: &mut String, outputs: &mut Vec<Json>) {
    if !logs.is_empty() {
        outputs.push(object! { "type" => "logs", "logs" => std::mem::take(logs) }.into());
    }
}

const DELETED: &str = "the container was deleted, so its code was stopped";

/// Returns the error for a container that is not there.
pub fn missing(id: &str) -> Fault {
    let message = format!("there is no container `{id}`; one that nobody uses for a while is removed");
    let help = Some("make one with `POST /v1/containers`, or use {\"type\": \"auto\"}".into());
    Fault { help, ..Fault::at("container", FaultCode::ContainerNotFound, message) }
}

/// Returns the error for a file that is not there.
pub fn no_file(id: &str) -> Fault {
    let message = format!("there is no file `{id}` in this container");
    let help = Some("`GET /v1/containers/ID/files` has the ids".into());
    Fault { help, ..Fault::at("file_id", FaultCode::FileNotFound, message) }
}

/// Returns the error for a file that could not be written.
fn unwritten(error: &Error) -> Fault {
    let (code, help) = match error {
        Error::FileName { .. } => (FaultCode::WrongValue, "send it with another name"),
        Error::File { .. } => (FaultCode::TooLarge, "delete files of the container, or make the file smaller"),
        other => return fault(other),
    };
    Fault { help: Some(help.into()), ..Fault::at("file", code, error.to_string()) }
}

/// Returns the error of an interpreter as clients get it.
pub fn fault(error: &Error) -> Fault {
    match error {
        Error::Full(_) => {
            let help = Some("delete a container, or try again later".into());
            Fault { help, ..Fault::new(FaultCode::ContainersFull, error.to_string()) }
        }
        Error::FileName { .. } | Error::File { .. } => {
            let help = Some("`GET /v1/containers/ID/files` has the files".into());
            Fault { help, ..Fault::at("file_id", FaultCode::FileNotFound, error.to_string()) }
        }
        other => Fault::new(FaultCode::InterpreterFailed, other.to_string()),
    }
}
