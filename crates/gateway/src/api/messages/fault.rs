use rolecall::conversation::{Json, object};

use crate::Fault;

/// Returns an error in the shape of Anthropic's API, with the code and the place that ours has, and the id of the
/// request if it is known.
pub fn shape(fault: &Fault, id: Option<&str>) -> Json {
    let kind = match fault.status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        400..500 => "invalid_request_error",
        503 | 529 => "overloaded_error",
        504 => "timeout_error",
        _ => "api_error",
    };
    let mut error = object! { "type" => kind };
    if let Json::Object(own) = fault.to_json()
        && let Some(own) = own.get("error").and_then(Json::as_object)
    {
        own.iter().filter(|(key, _)| *key != "type").for_each(|(key, value)| error.insert(key, value.clone()));
    }
    if let Some(excess) = fault.excess {
        error.insert("message", excess.anthropic().into());
    }
    // The SDK then sends the whole conversation itself.
    if fault.param.as_deref() == Some("thread") {
        error.insert("details", object! { "error_code" => "thread_unsupported_request" }.into());
    }
    object! { "type" => "error", "error" => error, "request_id" => id.map_or(Json::Null, Json::from) }.into()
}
