//! The APIs: each reads its requests and writes its answers. [`find`] has all paths.

mod chat;
mod completions;
mod effort;
pub mod interactive;
pub mod list_page;
mod messages;
mod models;
mod page;
pub mod render;
pub mod responses;
mod tokens;

use axum::http::Method;
use futures_util::future::BoxFuture;
use rolecall::conversation::Json;

use self::page::PageFile;
use crate::fault::{FaultShape, of_openai};
use crate::store::Owner;
use crate::turn::exchange::{ReadRequest, ReadTexts};
use crate::{Fault, Gateway};

/// What answers a path.
pub struct Route {
    pub method: Method,
    pub access: Access,
    pub work: Work,
    /// The shape of its errors.
    pub fault: FaultShape,
}

/// Who may use a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Everybody: it says nothing of this gateway.
    Everybody,
    /// Those without a key, too: it has nothing of clients, and what asks for it often has no key.
    NoKey,
    /// Those with a key, if there are keys.
    Key,
}

/// How a request is answered.
pub enum Work {
    /// At once.
    Now(fn(&Gateway) -> Result<Json, Fault>),
    /// At once, for the name at the end of the path.
    Of(fn(&Gateway, &str) -> Result<Json, Fault>, String),
    /// From its body, which may take its time.
    Long(fn(&Gateway, &str) -> Result<Json, Fault>),
    /// With what would be sent to an engine.
    Render,
    /// By an engine.
    Exchange(ReadRequest),
    /// By an engine, to prompts that are no conversations.
    Complete(ReadTexts),
    /// In LMDeploy's interactive mode.
    Interact,
    /// With a response of OpenAI's API.
    Respond,
    /// With a file of the page.
    File(PageFile),
    /// With whether the engines answer.
    Ready,
    /// With the metrics.
    Metrics,
    /// With a container of code, or a file of one.
    Container(ContainerPath),
    /// With what is sent to containers: a form, or JSON.
    Upload(UploadPath),
    /// From what is stored, for the name in the path.
    Stored(Lookup, String),
}

/// What is asked for of containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContainerPath {
    /// All of them.
    All,
    /// One, by its id.
    One(String),
    /// The end of one.
    Delete(String),
    /// The files of one, or one of these.
    Files(String, Option<String>),
    /// The content of a file.
    Content(String, String),
    /// The end of a file.
    DeleteFile(String, String),
    /// The files that were uploaded.
    Uploads,
    /// One of these, by its id.
    Upload(String),
    /// Its content.
    UploadContent(String),
    /// Its end.
    DeleteUpload(String),
}

/// What is sent to containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UploadPath {
    /// A file, to be kept.
    Upload,
    /// A new container.
    Create,
    /// A file for a container.
    Into(String),
}

/// Looks something up that is stored.
pub type Lookup = for<'a> fn(&'a Gateway, &'a PathRequest) -> BoxFuture<'a, Result<Json, Fault>>;

/// What is asked for without a body.
#[derive(Debug)]
pub struct PathRequest {
    pub owner: Owner,
    /// The name in the path.
    pub name: String,
    /// The names and values after the path.
    pub query: Vec<(String, String)>,
}

/// Returns what answers a path. If it takes other methods only, it is the one for one of these.
pub fn find(wanted: &Method, path: &str) -> Option<Route> {
    let with = |method: Method, access: Access, work: Work| Some(Route { method, access, work, fault: of_openai });
    let route = |method: Method, work: Work| with(method, Access::Key, work);
    match path {
        "/health" => {
            let health = |gateway: &Gateway| gateway.health();
            with(Method::GET, Access::Everybody, Work::Now(health))
        }
        "/ready" => with(Method::GET, Access::NoKey, Work::Ready),
        "/metrics" => with(Method::GET, Access::NoKey, Work::Metrics),
        "/v1/models" => route(Method::GET, Work::Now(|gateway| Ok(models::models(gateway)))),
        "/v1/chat/completions" => route(Method::POST, Work::Exchange(chat::read)),
        "/v1/completions" => route(Method::POST, Work::Complete(completions::read)),
        "/v1/chat/interactive" => route(Method::POST, Work::Interact),
        "/v1/messages" => route(Method::POST, Work::Exchange(messages::read)).map(in_shape(messages::shape)),
        "/v1/messages/count_tokens" => {
            route(Method::POST, Work::Long(messages::count_tokens)).map(in_shape(messages::shape))
        }
        "/v1/responses" => route(Method::POST, Work::Respond),
        "/v1/render" => route(Method::POST, Work::Render),
        "/v1/encode" => route(Method::POST, Work::Long(tokens::encode)),
        "/tokenize" => route(Method::POST, Work::Long(tokens::tokenize)),
        "/detokenize" => route(Method::POST, Work::Long(tokens::detokenize)),
        _ => {
            if let Some(id) = path.strip_prefix("/v1/responses/") {
                return match (id.split_once('/'), wanted) {
                    (Some((id, "input_items")), _) => {
                        route(Method::GET, Work::Stored(responses::input_items, id.to_owned()))
                    }
                    (Some(_), _) => None,
                    (None, &Method::DELETE) => route(Method::DELETE, Work::Stored(responses::delete, id.to_owned())),
                    (None, _) => route(Method::GET, Work::Stored(responses::response, id.to_owned())),
                };
            }
            if let Some(rest) = path.strip_prefix("/v1/containers") {
                let parts: Vec<&str> = rest.split('/').skip(1).collect();
                let own = |text: &str| text.to_owned();
                match (parts.as_slice(), wanted) {
                    ([], &Method::POST) if rest.is_empty() => {
                        return route(Method::POST, Work::Upload(UploadPath::Create));
                    }
                    ([id, "files"], &Method::POST) => {
                        return route(Method::POST, Work::Upload(UploadPath::Into(own(id))));
                    }
                    _ => {}
                }
                let (method, asked) = match (parts.as_slice(), wanted) {
                    ([], _) if rest.is_empty() => (Method::GET, ContainerPath::All),
                    ([id], &Method::DELETE) => (Method::DELETE, ContainerPath::Delete(own(id))),
                    ([id], _) => (Method::GET, ContainerPath::One(own(id))),
                    ([id, "files"], _) => (Method::GET, ContainerPath::Files(own(id), None)),
                    ([id, "files", file], &Method::DELETE) => {
                        (Method::DELETE, ContainerPath::DeleteFile(own(id), own(file)))
                    }
                    ([id, "files", file], _) => (Method::GET, ContainerPath::Files(own(id), Some(own(file)))),
                    ([id, "files", file, "content"], _) => (Method::GET, ContainerPath::Content(own(id), own(file))),
                    _ => return None,
                };
                return route(method, Work::Container(asked));
            }
            if let Some(rest) = path.strip_prefix("/v1/files") {
                let parts: Vec<&str> = rest.split('/').skip(1).collect();
                let (method, work) = match (parts.as_slice(), wanted) {
                    ([], &Method::POST) if rest.is_empty() => (Method::POST, Work::Upload(UploadPath::Upload)),
                    ([], _) if rest.is_empty() => (Method::GET, Work::Container(ContainerPath::Uploads)),
                    ([id], &Method::DELETE) => {
                        (Method::DELETE, Work::Container(ContainerPath::DeleteUpload((*id).to_owned())))
                    }
                    ([id], _) => (Method::GET, Work::Container(ContainerPath::Upload((*id).to_owned()))),
                    ([id, "content"], _) => {
                        (Method::GET, Work::Container(ContainerPath::UploadContent((*id).to_owned())))
                    }
                    _ => return None,
                };
                return route(method, work);
            }
            if let Some(file) = page::file(path) {
                return with(Method::GET, Access::Everybody, Work::File(file));
            }
            let name = path.strip_prefix("/v1/models/")?;
            // Names of models contain slashes, which clients encode.
            let name = percent_encoding::percent_decode_str(name).decode_utf8_lossy();
            route(Method::GET, Work::Of(models::model, name.into_owned()))
        }
    }
}

/// Returns a route with errors in a shape of their own.
fn in_shape(fault: FaultShape) -> impl FnOnce(Route) -> Route {
    move |route| Route { fault, ..route }
}
