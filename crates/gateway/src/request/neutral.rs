use rolecall::conversation::Json;

use crate::request::number;
use crate::{Fault, FaultCode};

/// Reports whether a setting is one of LMDeploy's own that its clients always send, with a value that changes nothing
/// here. Other values of such a setting are the caller's to refuse. Source: `protocol.py` and `api_client.py` of
/// LMDeploy v0.2.6 and v0.7.3.
pub fn is_neutral(key: &str, value: &Json) -> Result<bool, Fault> {
    let flag = || {
        value.as_bool().ok_or_else(|| Fault::at(key, FaultCode::WrongType, format!("{key}: expected true or false")))
    };
    Ok(match key {
        // There are no special tokens in a text that is read from ids, so none has spaces.
        "skip_special_tokens" => flag()?,
        "spaces_between_special_tokens" => {
            flag()?;
            true
        }
        "ignore_eos" => !flag()?,
        "min_new_tokens" => number::count(value) == Some(0),
        // No session.
        "session_id" => number::integer(value) == Some(-1),
        // The client's method has more arguments, and sends their empty dict.
        "kwargs" => value.as_object().is_some_and(rolecall::conversation::json::Object::is_empty),
        _ => false,
    })
}
