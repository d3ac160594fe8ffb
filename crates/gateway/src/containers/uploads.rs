use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use axum::body::Bytes;
use futures_util::stream;
use rolecall::conversation::{Json, object};

use crate::clock::{now, random};
use crate::store::Owner;
use crate::{Fault, FaultCode};

/// Files that clients have uploaded, in memory until the gateway ends or somebody deletes them.
#[derive(Debug)]
pub struct Uploads {
    state: Mutex<UploadsState>,
    /// The most bytes of all of them.
    most: usize,
}

#[derive(Debug, Default)]
struct UploadsState {
    files: HashMap<(Owner, String), Upload>,
    /// Those that were deleted, and that containers may still hold.
    deleted: Vec<Weak<Bytes>>,
}

/// A file that a client has uploaded.
#[derive(Clone, Debug)]
pub struct Upload {
    pub id: String,
    pub name: String,
    pub bytes: Arc<Bytes>,
    purpose: String,
    created: i64,
}

/// What a form has.
#[derive(Debug, Default)]
pub struct Form {
    /// The name and the bytes of the file.
    pub file: Option<(String, Bytes)>,
    pub purpose: Option<String>,
}

impl Form {
    /// Reads a form, `multipart/form-data`.
    pub async fn read(kind: &str, body: Bytes) -> Result<Form, Fault> {
        let broken =
            |error: multer::Error| Fault::new(FaultCode::BrokenRequest, format!("the form cannot be read: {error}"));
        let boundary = multer::parse_boundary(kind).map_err(broken)?;
        let body = stream::once(async move { Ok::<Bytes, std::convert::Infallible>(body) });
        let mut parts = multer::Multipart::new(body, boundary);
        let mut form = Form::default();
        while let Some(part) = parts.next_field().await.map_err(broken)? {
            match part.name() {
                Some("file") => {
                    let header = part.headers().get("content-disposition").and_then(|value| value.to_str().ok());
                    let name = header.and_then(quoted_name).or_else(|| part.file_name().map(str::to_owned));
                    let name = name.unwrap_or_else(|| "file".to_owned());
                    // Clients send paths of their own.
                    let name = name.rsplit(['/', '\\']).next().unwrap_or_default().to_owned();
                    form.file = Some((name, part.bytes().await.map_err(broken)?));
                }
                Some("purpose") => form.purpose = Some(part.text().await.map_err(broken)?),
                Some(other) => return Err(Fault::unsupported(other)),
                None => return Err(Fault::new(FaultCode::BrokenRequest, "a part of the form has no name")),
            }
        }
        Ok(form)
    }

    /// Returns the file, which must be there.
    pub fn needed(self) -> Result<(String, Bytes), Fault> {
        self.file.ok_or_else(|| Fault::at("file", FaultCode::MissingField, "file: expected a file, found nothing"))
    }
}

/// Returns the name of a file in a header that has it in quotes, within which a backslash stands before a quote or another
/// one. Some clients do not write it: the name ends at a quote that a semicolon or nothing follows.
fn quoted_name(header: &str) -> Option<String> {
    let (_, rest) = header.split_once("filename=\"")?;
    let mut name = String::new();
    let mut chars = rest.chars();
    loop {
        match chars.next()? {
            '"' if matches!(chars.as_str().trim_start().chars().next(), None | Some(';')) => return Some(name),
            '\\' => name.push(match chars.as_str().chars().next() {
                Some('"' | '\\') => chars.next()?,
                _ => '\\',
            }),
            other => name.push(other),
        }
    }
}

/// Refuses a name that no file of a container can have.
fn check_name(name: &str) -> Result<(), Fault> {
    let why = match name {
        "" => "it is empty",
        "." | ".." => "it stands for a folder",
        name if name.len() > MOST_NAME => "it is longer than 255 bytes",
        name if name.chars().any(char::is_control) => "it has a control character",
        _ => return Ok(()),
    };
    let message = format!("file: {name:?} cannot be the name of a file: {why}");
    let help = Some("send another `filename` in the form".into());
    Err(Fault { help, ..Fault::at("file", FaultCode::WrongValue, message) })
}

/// The most bytes of a name, as systems have it.
const MOST_NAME: usize = 255;

impl Uploads {
    pub fn new(most: usize) -> Uploads {
        Uploads { state: Mutex::default(), most }
    }

    /// Keeps a file.
    pub fn add(&self, owner: Owner, name: String, bytes: Bytes, purpose: Option<String>) -> Result<Json, Fault> {
        check_name(&name)?;
        let id = format!("file-{:016x}{:016x}", random(), random());
        let purpose = purpose.unwrap_or_else(|| "assistants".to_owned());
        let upload = Upload { id: id.clone(), name, bytes: Arc::new(bytes), purpose, created: now() };
        let mut state = self.state();
        state.deleted.retain(|bytes| bytes.strong_count() > 0);
        let deleted = state.deleted.iter().filter_map(Weak::upgrade);
        let used: usize =
            state.files.values().map(|file| Arc::clone(&file.bytes)).chain(deleted).map(|file| file.len()).sum();
        if used + upload.bytes.len() > self.most {
            let message = format!("all files together may have {} bytes, and {used} are used", self.most);
            let help = Some("delete files, or make them smaller".into());
            return Err(Fault { help, ..Fault::at("file", FaultCode::TooLarge, message) });
        }
        let json = upload.to_json();
        state.files.insert((owner, id), upload);
        Ok(json)
    }

    /// Returns the ids of an owner's files, with their names and sizes.
    pub fn sizes(&self, owner: Owner) -> Vec<(String, (String, u64))> {
        let state = self.state();
        let own = state.files.iter().filter(|((by, _), _)| *by == owner);
        own.map(|((_, id), file)| (id.clone(), (file.name.clone(), file.bytes.len() as u64))).collect()
    }

    pub fn get(&self, owner: Owner, id: &str) -> Result<Upload, Fault> {
        self.state().files.get(&(owner, id.to_owned())).cloned().ok_or_else(|| unknown(id))
    }

    /// Returns the files of an owner, the oldest first.
    pub fn of_owner(&self, owner: Owner) -> Vec<Json> {
        let state = self.state();
        let own = state.files.iter().filter(|((by, _), _)| *by == owner);
        let mut own: Vec<&Upload> = own.map(|(_, file)| file).collect();
        own.sort_by_key(|file| (file.created, file.id.clone()));
        own.into_iter().map(Upload::to_json).collect()
    }

    pub fn remove(&self, owner: Owner, id: &str) -> Result<Json, Fault> {
        let mut state = self.state();
        let gone = state.files.remove(&(owner, id.to_owned())).ok_or_else(|| unknown(id))?;
        state.deleted.push(Arc::downgrade(&gone.bytes));
        Ok(object! { "id" => id, "object" => "file", "deleted" => true }.into())
    }

    fn state(&self) -> MutexGuard<'_, UploadsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Upload {
    pub fn to_json(&self) -> Json {
        object! {
            "id" => self.id.as_str(), "object" => "file", "bytes" => i64::try_from(self.bytes.len()).unwrap_or(i64::MAX),
            "created_at" => self.created, "filename" => self.name.as_str(), "purpose" => self.purpose.as_str(),
            "status" => "processed",
        }
        .into()
    }
}

fn unknown(id: &str) -> Fault {
    let help = Some("upload it to `/v1/files` with the same key".into());
    Fault { help, ..Fault::at("file_id", FaultCode::FileNotFound, format!("there is no file `{id}`")) }
}
