//! What clients ask for of containers and their files. Source: OpenAI's API reference.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use rolecall::conversation::{Json, object};
use rolecall_interpreter::{FileEntry, Folder};

use super::{Container, Containers};
use crate::api::ContainerPath;
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
        ContainerPath::Content(id, file) => return content(&containers.get(owner, id)?, file),
    };
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
fn content(container: &Arc<Container>, file: &str) -> Result<Response, Fault> {
    let (name, bytes) = container.read(file)?;
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
    Ok(response)
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
