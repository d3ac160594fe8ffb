//! What clients ask for of containers and their files. Source: OpenAI's API reference.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use rolecall::conversation::json::Object;
use rolecall::conversation::{Json, json, object};
use rolecall_interpreter::{FileEntry, Folder};

use super::container::no_file;
use super::{Container, Containers, Form};
use crate::api::list_page::ListPage;
use crate::api::{ContainerPath, UploadPath};
use crate::fault;
use crate::store::Owner;
use crate::{Fault, FaultCode};

/// Answers what is asked for.
pub fn answer(
    containers: &Containers,
    owner: Owner,
    asked: &ContainerPath,
    query: &[(String, String)],
) -> Result<Response, Fault> {
    let is_list = matches!(asked, ContainerPath::All | ContainerPath::Files(_, None) | ContainerPath::Uploads);
    if let Some((name, _)) = query.first().filter(|_| !is_list) {
        return Err(Fault::unsupported(name));
    }
    let list = |data: Vec<Json>| ListPage::read(query)?.of(data);
    let json = match asked {
        ContainerPath::All => list(containers.of_owner(owner).iter().map(|own| own.to_json()).collect())?,
        ContainerPath::One(id) => containers.get(owner, id)?.to_json(),
        ContainerPath::Delete(id) => delete(containers, owner, id)?,
        ContainerPath::Files(id, None) => list(files(&*containers.get(owner, id)?)?)?,
        ContainerPath::Files(id, Some(file)) => one_file(&*containers.get(owner, id)?, file)?,
        ContainerPath::Content(id, file) => {
            let (name, bytes) = containers.get(owner, id)?.read(file)?;
            return Ok(content(&name, bytes.into()));
        }
        ContainerPath::DeleteFile(id, file) => {
            containers.get(owner, id)?.remove(file)?;
            object! { "id" => file.as_str(), "object" => "container.file.deleted", "deleted" => true }.into()
        }
        ContainerPath::Uploads => list(containers.uploads.of_owner(owner))?,
        ContainerPath::Upload(id) => containers.uploads.get(owner, id)?.to_json(),
        ContainerPath::UploadContent(id) => {
            let upload = containers.uploads.get(owner, id)?;
            return Ok(content(&upload.name, Bytes::clone(&upload.bytes)));
        }
        ContainerPath::DeleteUpload(id) => containers.uploads.remove(owner, id)?,
    };
    Ok(fault::answer(&json))
}

/// Takes what is sent: a form with a file, or JSON.
pub async fn take(
    containers: &Arc<Containers>,
    owner: Owner,
    asked: UploadPath,
    kind: String,
    body: Bytes,
) -> Result<Response, Fault> {
    let is_form = kind.trim_start().to_ascii_lowercase().starts_with("multipart/form-data");
    let json = || -> Result<Object, Fault> {
        let text =
            std::str::from_utf8(&body).map_err(|_| Fault::new(FaultCode::NotUtf8, "the request is not UTF-8"))?;
        match json::parse_unique(text).map_err(rolecall::request::Error::from)? {
            Json::Object(object) => Ok(object),
            other => Err(Fault::at("", FaultCode::WrongType, format!("expected an object, found {}", other.kind()))),
        }
    };
    let text = |object: &Object, key: &str| match object.get(key) {
        Some(Json::String(text)) => Ok(text.clone()),
        _ => Err(Fault::at(key, FaultCode::MissingField, format!("{key}: expected a text"))),
    };
    enum Sent {
        Container(NewContainer),
        File(String, String, Bytes),
        Known(String, String),
        Upload(String, Bytes, Option<String>),
    }
    let sent = match asked {
        UploadPath::Create => Sent::Container(NewContainer::read(&json()?)?),
        UploadPath::Into(id) if is_form => {
            let (name, bytes) = Form::read(&kind, body).await?.needed()?;
            Sent::File(id, name, bytes)
        }
        UploadPath::Into(id) => {
            let object = json()?;
            refuse_others(&object, &["file_id"])?;
            Sent::Known(id, text(&object, "file_id")?)
        }
        UploadPath::Upload if is_form => {
            let mut form = Form::read(&kind, body).await?;
            let purpose = form.purpose.take();
            let (name, bytes) = form.needed()?;
            Sent::Upload(name, bytes, purpose)
        }
        UploadPath::Upload => {
            let help = Some("send a form, `multipart/form-data`, with `file` and `purpose`".into());
            let fault =
                Fault::new(FaultCode::UnsupportedContentType, "the request does not say that its body is a form");
            return Err(Fault { help, ..fault });
        }
    };
    let containers = Arc::clone(containers);
    let done = tokio::task::spawn_blocking(move || {
        Ok(match sent {
            Sent::Container(NewContainer { name, files, idle }) => {
                containers.create(owner, name, &files, idle)?.to_json()
            }
            Sent::Upload(name, bytes, purpose) => containers.uploads.add(owner, name, bytes, purpose)?,
            Sent::File(id, name, bytes) => {
                let container = containers.get(owner, &id)?;
                let file = container.write(&name, &bytes)?;
                one_file(&container, &file)?
            }
            Sent::Known(id, file) => {
                let container = containers.get(owner, &id)?;
                let file = containers.put(owner, &container, &file)?;
                one_file(&container, &file)?
            }
        })
    });
    let json = done.await.unwrap_or_else(|error| Err(Fault::new(FaultCode::InterpreterFailed, error.to_string())))?;
    Ok(fault::answer(&json))
}

/// A container that a client makes.
struct NewContainer {
    name: String,
    files: Vec<String>,
    idle: Option<Duration>,
}

impl NewContainer {
    fn read(object: &Object) -> Result<NewContainer, Fault> {
        let wrong = |key: &str, what: &str| Fault::at(key, FaultCode::WrongType, format!("{key}: expected {what}"));
        refuse_others(object, &["name", "file_ids", "expires_after"])?;
        let get = |key: &str| object.get(key).filter(|value| !value.is_null());
        let name = match get("name") {
            None => String::new(),
            Some(name) => name.as_str().ok_or_else(|| wrong("name", "a text"))?.to_owned(),
        };
        let whole = |value: &Json| match value {
            Json::Number(number) => number.as_i64().and_then(|number| u64::try_from(number).ok()),
            _ => None,
        };
        let text = |id: &Json| id.as_str().map(str::to_owned);
        let files = match get("file_ids") {
            None => Some(Vec::new()),
            Some(ids) => ids.as_array().and_then(|ids| ids.iter().map(text).collect()),
        };
        let files = files.ok_or_else(|| wrong("file_ids", "a list of ids of files"))?;
        let idle = match get("expires_after") {
            None => None,
            Some(value) => {
                let value = value.as_object().ok_or_else(|| wrong("expires_after", "an object"))?;
                let anchor = value.get("anchor").and_then(Json::as_str);
                let minutes = value.get("minutes").and_then(whole);
                let (Some("last_active_at"), Some(minutes @ 1..), 2) = (anchor, minutes, value.iter().count()) else {
                    let message = "expires_after: expected {\"anchor\": \"last_active_at\", \"minutes\": N}";
                    return Err(Fault::at("expires_after", FaultCode::WrongValue, message));
                };
                Some(Duration::from_secs(minutes.saturating_mul(60)))
            }
        };
        Ok(NewContainer { name, files, idle })
    }
}

/// Refuses fields that are not known.
fn refuse_others(object: &Object, known: &[&str]) -> Result<(), Fault> {
    match object.iter().find(|(key, value)| !known.contains(key) && !value.is_null()) {
        Some((key, _)) => Err(Fault::unsupported(key)),
        None => Ok(()),
    }
}

/// Ends a container.
fn delete(containers: &Containers, owner: Owner, id: &str) -> Result<Json, Fault> {
    containers.remove(owner, id)?;
    Ok(object! { "id" => id, "object" => "container.deleted", "deleted" => true }.into())
}

/// Returns the files of a container, the oldest first.
fn files(container: &Container) -> Result<Vec<Json>, Fault> {
    let mut files = container.files()?;
    files.sort_by(|(_, a), (_, b)| (a.changed, &a.name).cmp(&(b.changed, &b.name)));
    Ok(files.iter().map(|(id, entry)| of_file(container, id, entry)).collect())
}

/// Returns one of them.
fn one_file(container: &Container, wanted: &str) -> Result<Json, Fault> {
    let files = container.files()?;
    let (id, entry) = files.iter().find(|(id, _)| id == wanted).ok_or_else(|| no_file(wanted))?;
    Ok(of_file(container, id, entry))
}

/// Returns the content of a file, as bytes that no browser shows as a page.
fn content(name: &str, bytes: Bytes) -> Response {
    let mut response = Response::new(Body::from(bytes));
    let kind = match name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase()).as_deref() {
        Some("png") => "image/png",
        Some("jpg" | "jpeg") => "image/jpeg",
        Some("gif") => "image/gif",
        Some("csv" | "txt" | "json" | "jsonl" | "md" | "py") => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox"));
    response
}

fn of_file(container: &Container, id: &str, entry: &FileEntry) -> Json {
    object! {
        "id" => id, "object" => "container.file", "created_at" => entry.changed, "container_id" => container.id.as_str(),
        "bytes" => i64::try_from(entry.size).unwrap_or(i64::MAX), "path" => Folder::path_within(&entry.name),
        "source" => "assistant",
    }
    .into()
}
