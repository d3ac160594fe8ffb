//! What would be sent to the engine, with origins.

use rolecall::Request;
use rolecall::conversation::Json;

use crate::Fault;
use crate::gateway::Gateway;
use crate::wanted::Wanted;

/// Answers `/v1/render`: explains the prompt of a chat completion.
pub fn render(gateway: &Gateway, body: &str) -> Result<Json, Fault> {
    let wanted = Wanted::read(gateway, Request::from_text(body)?)?;
    let mut request = wanted.request;
    request.conversation.messages = wanted.messages;
    Ok(wanted.served.model.explain(request)?.to_json())
}
