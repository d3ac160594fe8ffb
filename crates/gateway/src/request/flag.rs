use rolecall::conversation::Json;
use rolecall::conversation::json::Object;

use crate::{Fault, FaultCode};

/// Reads a flag, which has its usual value if it is missing or null.
pub fn flag(body: &Object, key: &str, usual: bool) -> Result<bool, Fault> {
    match body.get(key) {
        None | Some(Json::Null) => Ok(usual),
        Some(Json::Bool(value)) => Ok(*value),
        Some(_) => Err(Fault::at(key, FaultCode::WrongType, format!("{key}: expected true or false"))),
    }
}
