//! The models that are served. What the APIs of OpenAI and Anthropic say of a model has other keys, so an answer has
//! both.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use rolecall::conversation::{Json, object};

use crate::observe::rfc_3339;
use crate::served_model::ServedModel;
use crate::{Fault, Gateway};

/// Answers `/v1/models`.
pub fn models(gateway: &Gateway) -> Json {
    let name = |served: Option<&Arc<ServedModel>>| served.map_or(Json::Null, |served| served.name.as_str().into());
    let served = gateway.models();
    let data: Vec<Json> = served.iter().map(|served| about(served)).collect();
    let (first, last) = (name(served.first()), name(served.last()));
    object! { "object" => "list", "data" => data, "has_more" => false, "first_id" => first, "last_id" => last }.into()
}

/// Answers `/v1/models/NAME`.
pub fn model(gateway: &Gateway, name: &str) -> Result<Json, Fault> {
    Ok(about(gateway.model(Some(&name.into()))?))
}

fn about(served: &ServedModel) -> Json {
    let created = UNIX_EPOCH + Duration::from_secs(u64::try_from(served.created).unwrap_or_default());
    object! {
        "id" => served.name.as_str(), "object" => "model", "created" => served.created, "owned_by" => "rolecall",
        "type" => "model", "display_name" => served.name.as_str(), "created_at" => rfc_3339(created),
    }
    .into()
}
