use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use axum::body::Bytes;
use futures_util::stream;
use rolecall::conversation::{Json, object};

use crate::clock::{now, random};
use crate::store::Owner;
use crate::{Fault, FaultCode};

/// Files that clients have uploaded, in memory until the gateway ends or somebody deletes them.
#[derive(Debug)]
pub struct Uploads {
    files: Mutex<HashMap<(Owner, String), Upload>>,
    /// The most bytes of all of them.
    most: usize,
}

/// A file that a client has uploaded.
#[derive(Clone, Debug)]
pub struct Upload {
    pub id: String,
    pub name: String,
    pub bytes: Bytes,
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
                    let name = part.file_name().unwrap_or("file").to_owned();
                    // Clients send paths of their own.
                    let name = name.rsplit(['/', '\\']).next().unwrap_or("file").to_owned();
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

impl Uploads {
    pub fn new(most: usize) -> Uploads {
        Uploads { files: Mutex::default(), most }
    }

    /// Keeps a file.
    pub fn add(&self, owner: Owner, name: String, bytes: Bytes, purpose: Option<String>) -> Result<Json, Fault> {
        let id = format!("file-{:016x}{:016x}", random(), random());
        let purpose = purpose.unwrap_or_else(|| "assistants".to_owned());
        let upload = Upload { id: id.clone(), name, bytes, purpose, created: now() };
        let mut files = self.files();
        let used: usize = files.values().map(|file| file.bytes.len()).sum();
        if used + upload.bytes.len() > self.most {
            let message = format!("all files together may have {} bytes, and {used} are used", self.most);
            let help = Some("delete files, or make them smaller".into());
            return Err(Fault { help, ..Fault::at("file", FaultCode::TooLarge, message) });
        }
        let json = upload.to_json();
        files.insert((owner, id), upload);
        Ok(json)
    }

    /// Returns the ids of an owner's files, with their names and sizes.
    pub fn sizes(&self, owner: Owner) -> Vec<(String, (String, u64))> {
        let files = self.files();
        let own = files.iter().filter(|((by, _), _)| *by == owner);
        own.map(|((_, id), file)| (id.clone(), (file.name.clone(), file.bytes.len() as u64))).collect()
    }

    pub fn get(&self, owner: Owner, id: &str) -> Result<Upload, Fault> {
        self.files().get(&(owner, id.to_owned())).cloned().ok_or_else(|| unknown(id))
    }

    /// Returns the files of an owner, the newest first.
    pub fn of_owner(&self, owner: Owner) -> Vec<Json> {
        let files = self.files();
        let mut own: Vec<&Upload> = files.iter().filter(|((by, _), _)| *by == owner).map(|(_, file)| file).collect();
        own.sort_by_key(|file| std::cmp::Reverse((file.created, file.id.clone())));
        own.into_iter().map(Upload::to_json).collect()
    }

    pub fn remove(&self, owner: Owner, id: &str) -> Result<Json, Fault> {
        self.files().remove(&(owner, id.to_owned())).ok_or_else(|| unknown(id))?;
        Ok(object! { "id" => id, "object" => "file", "deleted" => true }.into())
    }

    fn files(&self) -> MutexGuard<'_, HashMap<(Owner, String), Upload>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
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
    Fault::at("file_id", FaultCode::FileNotFound, format!("there is no file `{id}`"))
}
