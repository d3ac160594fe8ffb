//! What clients ask for of containers and their files. Source: OpenAI's API reference.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use rolecall::conversation::json::Object;
use rolecall::conversation::{Json, json, object};
use rolecall_interpreter::{FileEntry, Folder};

use super::{Container, Containers, Form};
use crate::api::{ContainerPath, UploadPath};
use crate::fault;
use crate::store::Owner;
use crate::{Fault, FaultCode};

/// Answers what is asked for.
pub fn answer(containers: &Containers, owner: Owner, asked: &ContainerPath) -> Result<Response, Fault> {
    let json = match asked {
        ContainerPath::All => list(containers, owner),
        ContainerPath::One(id) => containers.get(owner, id)?.to_json(containers.idle),
        ContainerPath::Delete(id) => delete(containers, owner, id)?,
        ContainerPath::Files(id, file) => files(&containers.get(owner, id)?, file.as_deref())?,
        ContainerPath::Content(id, file) => {
            let (name, bytes) = containers.get(owner, id)?.read(file)?;
            return Ok(content(&name, bytes.into()));
        }
        ContainerPath::DeleteFile(id, file) => {
            containers.get(owner, id)?.remove(file)?;
            object! { "id" => file.as_str(), "object" => "container.file.deleted", "deleted" => true }.into()
        }
        ContainerPath::Uploads => of_list(containers.uploads.of_owner(owner)),
        ContainerPath::Upload(id) => containers.uploads.get(owner, id)?.to_json(),
        ContainerPath::UploadContent(id) => {
            let upload = containers.uploads.get(owner, id)?;
            return Ok(content(&upload.name, upload.bytes));
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
        Name(String),
        File(String, String, Bytes),
        Known(String, String),
        Upload(String, Bytes, Option<String>),
    }
    let sent = match asked {
        UploadPath::Create => Sent::Name(json()?.get("name").and_then(Json::as_str).unwrap_or_default().to_owned()),
        UploadPath::Into(id) if is_form => {
            let (name, bytes) = Form::read(&kind, body).await?.needed()?;
            Sent::File(id, name, bytes)
        }
        UploadPath::Into(id) => Sent::Known(id, text(&json()?, "file_id")?),
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
            Sent::Name(name) => containers.create(owner, name)?.to_json(containers.idle),
            Sent::Upload(name, bytes, purpose) => containers.uploads.add(owner, name, bytes, purpose)?,
            Sent::File(id, name, bytes) => {
                let container = containers.get(owner, &id)?;
                let file = container.write(&name, &bytes)?;
                files(&container, Some(&file))?
            }
            Sent::Known(id, file) => {
                let container = containers.get(owner, &id)?;
                let file = containers.put(owner, &container, &file)?;
                files(&container, Some(&file))?
            }
        })
    });
    let json = done.await.unwrap_or_else(|error| Err(Fault::new(FaultCode::InterpreterFailed, error.to_string())))?;
    Ok(fault::answer(&json))
}

/// Returns the containers of an owner.
fn list(containers: &Containers, owner: Owner) -> Json {
    let data = containers.of_owner(owner).iter().map(|own| own.to_json(containers.idle)).collect();
    of_list(data)
}

/// Ends a container.
fn delete(containers: &Containers, owner: Owner, id: &str) -> Result<Json, Fault> {
    containers.remove(owner, id)?;
    Ok(object! { "id" => id, "object" => "container.deleted", "deleted" => true }.into())
}

/// Returns the files of a container, or one of them.
fn files(container: &Arc<Container>, file: Option<&str>) -> Result<Json, Fault> {
    let files = container.files()?;
    match file {
        None => Ok(of_list(files.iter().map(|(id, entry)| of_file(container, id, entry)).collect())),
        Some(wanted) => {
            let found = files.iter().find(|(id, _)| id == wanted);
            let (id, entry) = found.ok_or_else(|| {
                Fault::at("file_id", FaultCode::FileNotFound, format!("there is no file `{wanted}` in this container"))
            })?;
            Ok(of_file(container, id, entry))
        }
    }
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

fn of_list(data: Vec<Json>) -> Json {
    let id = |item: Option<&Json>| item.and_then(|item| item.as_object()?.get("id").cloned()).unwrap_or(Json::Null);
    object! {
        "object" => "list", "first_id" => id(data.first()), "last_id" => id(data.last()), "has_more" => false, "data" => data,
    }
    .into()
}
