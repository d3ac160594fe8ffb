use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rolecall::conversation::{Json, object};
use rolecall::format::CodeResult;
use rolecall_interpreter::agent::ToolResult;
use rolecall_interpreter::{CodeOutput, Error, FileEntry, Folder, Interpreter, KernelSession, Stop};

use crate::clock::{now, random};
use crate::{Fault, FaultCode};

/// A container.
#[derive(Debug)]
pub struct Container {
    pub id: String,
    pub created: i64,
    name: String,
    used: Mutex<Instant>,
    session: Mutex<KernelSession>,
    folder: Folder,
    /// The ids of files, by their names.
    files: Mutex<BTreeMap<String, String>>,
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
    pub(super) fn new(session: KernelSession, name: String) -> Container {
        Container {
            id: format!("cntr_{:016x}{:016x}", random(), random()),
            created: now(),
            name,
            used: Mutex::new(Instant::now()),
            folder: session.folder().clone(),
            session: Mutex::new(session),
            files: Mutex::default(),
        }
    }

    /// Runs code, and waits for its end. One call runs at a time.
    pub fn run(self: &Arc<Container>, code: &str, stop: &Stop, code_result: &CodeResult) -> Ran {
        self.touch();
        let run = self.session.lock().unwrap_or_else(PoisonError::into_inner).run(code, stop, &mut |_| {});
        self.touch();
        let mut outputs: Vec<Json> = Vec::new();
        let mut logs = String::new();
        let is_whole = run.is_ok();
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
        flush(&mut logs, &mut outputs);
        Ran { text: ToolResult::of_code(run, code_result).text, outputs, is_whole }
    }

    /// Returns how long nobody has used it.
    pub fn idle(&self) -> Duration {
        self.used.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    pub fn touch(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Writes a file, and returns its id.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<String, Fault> {
        self.touch();
        self.folder.write(name, bytes).map_err(|error| fault(&error))?;
        Ok(self.file_id(name))
    }

    /// Removes a file.
    pub fn remove(&self, id: &str) -> Result<(), Fault> {
        let (name, _) = self.read(id)?;
        self.folder.remove(&name).map_err(|error| fault(&error))
    }

    /// Returns its files, each with an id.
    pub fn files(&self) -> Result<Vec<(String, FileEntry)>, Fault> {
        self.touch();
        let entries = self.folder.list().map_err(|error| fault(&error))?;
        Ok(entries.into_iter().map(|entry| (self.file_id(&entry.name), entry)).collect())
    }

    /// Returns the content of a file.
    pub fn read(&self, id: &str) -> Result<(String, Vec<u8>), Fault> {
        self.touch();
        let name = {
            let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
            files.iter().find(|(_, own)| *own == id).map(|(name, _)| name.clone())
        };
        let name = name.ok_or_else(|| {
            let message = format!("there is no file `{id}` in this container");
            Fault::at("file_id", FaultCode::FileNotFound, message)
        })?;
        let bytes = self.folder.read(&name).map_err(|error| fault(&error))?;
        Ok((name, bytes))
    }

    fn file_id(&self, name: &str) -> String {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.entry(name.to_owned()).or_insert_with(|| format!("cfile_{:016x}{:016x}", random(), random())).clone()
    }

    pub fn to_json(&self, idle: Duration) -> Json {
        let minutes = i64::try_from(idle.as_secs() / 60).unwrap_or(i64::MAX);
        object! {
            "id" => self.id.as_str(), "object" => "container", "created_at" => self.created, "status" => "running",
            "expires_after" => object! { "anchor" => "last_active_at", "minutes" => minutes },
            "last_active_at" => now() - i64::try_from(self.idle().as_secs()).unwrap_or(0), "name" => self.name.as_str(),
        }
        .into()
    }
}

fn flush(logs: &mut String, outputs: &mut Vec<Json>) {
    if !logs.is_empty() {
        outputs.push(object! { "type" => "logs", "logs" => std::mem::take(logs) }.into());
    }
}

/// Returns the error of an interpreter as clients get it.
pub fn fault(error: &Error) -> Fault {
    match error {
        Error::Full(_) => {
            let help = Some("delete a container, or try again later".into());
            Fault { help, retry_after: Some(5), ..Fault::new(FaultCode::ContainersFull, error.to_string()) }
        }
        Error::FileName { .. } | Error::File { .. } => Fault::at("file_id", FaultCode::FileNotFound, error.to_string()),
        other => Fault::new(FaultCode::InterpreterFailed, other.to_string()),
    }
}
