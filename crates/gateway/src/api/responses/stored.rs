//! Stored answers: what clients ask for later.

use futures_util::future::BoxFuture;
use rolecall::conversation::{Json, object};

use crate::api::PathRequest;
use crate::api::list_page::ListPage;
use crate::{Fault, FaultCode, Gateway};

/// Answers `GET /v1/responses/ID`.
pub fn response<'a>(gateway: &'a Gateway, asked: &'a PathRequest) -> BoxFuture<'a, Result<Json, Fault>> {
    Box::pin(async move {
        if let Some((name, _)) = asked.query.first() {
            return Err(Fault::unsupported(name));
        }
        find(gateway, asked, "response").await
    })
}

/// Answers `DELETE /v1/responses/ID`.
pub fn delete<'a>(gateway: &'a Gateway, asked: &'a PathRequest) -> BoxFuture<'a, Result<Json, Fault>> {
    Box::pin(async move {
        match gateway.sessions.forget(asked.owner, &name_of(&asked.name)).await? {
            true => Ok(object! { "id" => asked.name.as_str(), "object" => "response", "deleted" => true }.into()),
            false => Err(unknown(&asked.name)),
        }
    })
}

/// Answers `GET /v1/responses/ID/input_items`: what the request for the answer had as input, without
/// the turns before.
pub fn input_items<'a>(gateway: &'a Gateway, asked: &'a PathRequest) -> BoxFuture<'a, Result<Json, Fault>> {
    Box::pin(async move {
        let page = ListPage::read(&asked.query)?;
        let Json::Array(items) = find(gateway, asked, "input").await? else { return Err(damaged()) };
        page.of(items)
    })
}

/// Returns the name under which a turn is stored.
pub fn name_of(id: &str) -> String {
    format!("response:{id}")
}

async fn find(gateway: &Gateway, asked: &PathRequest, key: &str) -> Result<Json, Fault> {
    let stored = gateway.sessions.response(asked.owner, &name_of(&asked.name)).await?;
    let Some(Json::Object(mut stored)) = stored else { return Err(unknown(&asked.name)) };
    stored.remove(key).ok_or_else(damaged)
}

fn unknown(id: &str) -> Fault {
    let message = format!("there is no response `{id}`");
    Fault { param: Some("response_id".into()), ..Fault::new(FaultCode::ResponseNotFound, message) }
}

fn damaged() -> Fault {
    Fault::new(FaultCode::DamagedSession, "the stored response is damaged")
}
