//! Stored answers: what clients ask for later.

use futures_util::future::BoxFuture;
use rolecall::conversation::{Json, object};

use crate::api::PathRequest;
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
        let page = Page::read(&asked.query)?;
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

/// A part of a list.
struct Page {
    after: Option<String>,
    limit: usize,
    is_ascending: bool,
}

/// The most items of a page. Source: OpenAI's API reference.
const MOST: usize = 100;

impl Page {
    fn read(query: &[(String, String)]) -> Result<Page, Fault> {
        let mut page = Page { after: None, limit: 20, is_ascending: false };
        for (name, value) in query {
            match (name.as_str(), value.as_str()) {
                ("after", id) => page.after = Some(id.to_owned()),
                ("order", "asc") => page.is_ascending = true,
                ("order", "desc") => page.is_ascending = false,
                ("order", _) => {
                    return Err(Fault::at("order", FaultCode::WrongValue, "order: expected \"asc\" or \"desc\""));
                }
                ("limit", count) => {
                    let count = count.parse().ok().filter(|count| (1..=MOST).contains(count));
                    let message = format!("limit: expected a whole number from 1 to {MOST}");
                    page.limit = count.ok_or_else(|| Fault::at("limit", FaultCode::WrongValue, message))?;
                }
                (name, _) => return Err(Fault::unsupported(name)),
            }
        }
        Ok(page)
    }

    fn of(&self, mut items: Vec<Json>) -> Result<Json, Fault> {
        if !self.is_ascending {
            items.reverse();
        }
        let id_of = |item: &Json| item.as_object().and_then(|item| item.get("id")).cloned().unwrap_or(Json::Null);
        let start = match &self.after {
            None => 0,
            Some(after) => {
                let at = items.iter().position(|item| id_of(item).as_str() == Some(after));
                let message = format!("after: there is no item `{after}`");
                1 + at.ok_or_else(|| Fault::at("after", FaultCode::WrongValue, message))?
            }
        };
        let has_more = items.len() - start > self.limit;
        let data: Vec<Json> = items.into_iter().skip(start).take(self.limit).collect();
        let end = |item: Option<&Json>| item.map_or(Json::Null, id_of);
        Ok(object! {
            "object" => "list", "first_id" => end(data.first()), "last_id" => end(data.last()),
            "has_more" => has_more, "data" => data,
        }
        .into())
    }
}
