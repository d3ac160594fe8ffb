use rolecall::conversation::Json;

use crate::{Fault, Gateway};

/// Answers `/v1/models/NAME`.
pub fn model(gateway: &Gateway, name: &str) -> Result<Json, Fault> {
    Ok(gateway.model(Some(&name.into()))?.about().into())
}
