use std::collections::HashMap;
use std::collections::hash_map::Entry;

use rolecall::conversation::Json;
use rolecall::conversation::json::{self, Layout, Object};

use super::field::{needed_text, refuse_others};
use super::id::{answer_id, answer_of};
use super::stored::name_of;
use crate::store::Owner;
use crate::work::sized;
use crate::{Fault, FaultCode, Gateway};

/// The type of an item that stands for one of a stored answer.
const REFERENCE: &str = "item_reference";

/// Returns a request with the items of stored answers in the places of what refers to them. Any other request stays as
/// it is.
pub async fn resolve(gateway: &Gateway, owner: Owner, body: String) -> Result<String, Fault> {
    if !body.contains(REFERENCE) {
        return Ok(body);
    }
    let length = body.len();
    let parse = move || match json::parse_unique(&body) {
        Ok(Json::Object(request)) => Ok(Ok(request)),
        // Who reads it says what is wrong.
        _ => Ok(Err(body)),
    };
    let mut request: Object = match sized(length, parse).await? {
        Ok(request) => request,
        Err(body) => return Ok(body),
    };
    if let Some(Json::Array(items)) = request.get_mut("input") {
        let mut answers = HashMap::new();
        let most = gateway.limits.body_bytes;
        let mut size = length;
        for (index, item) in items.iter_mut().enumerate() {
            let Some(reference) = item.as_object().filter(|item| is_reference(item)) else { continue };
            let path = format!("input[{index}]");
            refuse_others(reference, &path, &["type", "id"])?;
            let id = needed_text(reference, &path, "id")?;
            let own = answer_of(id).ok_or_else(|| unknown(&path, id))?;
            let known = match answers.entry(own.to_owned()) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(place) => {
                    place.insert(gateway.sessions.response(owner, &name_of(&answer_id(own))).await?)
                }
            };
            *item = find(known.as_ref(), id).ok_or_else(|| unknown(&path, id))?;
            // One large item may be referred to many times.
            size += json::write(item, &Layout::compact()).len();
            if size > most {
                let message =
                    format!("{path}: with the items that it refers to, the request has more than {most} bytes");
                return Err(Fault::at(&path, FaultCode::TooLarge, message));
            }
        }
    }
    sized(length, move || Ok(json::write(&request.into(), &Layout::compact()))).await
}

fn is_reference(item: &Object) -> bool {
    item.get("type").and_then(Json::as_str) == Some(REFERENCE)
}

/// Finds an item of a stored answer.
fn find(answer: Option<&Json>, id: &str) -> Option<Json> {
    let items = answer?.as_object()?.get("response")?.as_object()?.get("output")?.as_array()?;
    let is_wanted = |item: &&Json| item.as_object().and_then(|item| item.get("id")?.as_str()) == Some(id);
    items.iter().find(is_wanted).cloned()
}

fn unknown(path: &str, id: &str) -> Fault {
    let help = Some("send the item itself".into());
    let fault =
        Fault::at(&format!("{path}.id"), FaultCode::ItemNotFound, format!("{path}.id: there is no stored item `{id}`"));
    Fault { status: 404, help, ..fault }
}
