//! What would be sent to the engine, with origins.

use std::sync::Arc;

use rolecall::answer::of_segments;
use rolecall::conversation::{Json, Message, object};

use super::chat;
use crate::Fault;
use crate::gateway::{Gateway, Permit};
use crate::store::Owner;
use crate::turn::exchange::{PreparedRequest, prepare};
use crate::work::apart;

/// Answers `/v1/render`: explains the prompt of a chat completion.
///
/// If its conversation is known, the engine gets the ids that it has, and what is new. They are under
/// `session`; the rest is the prompt that the whole conversation would have.
pub async fn render(gateway: Arc<Gateway>, owner: Owner, body: String, permit: Permit) -> Result<Json, Fault> {
    let size = body.len();
    let prepared = prepare(&gateway, owner, chat::read, body, permit).await?;
    apart(size, move || explain(prepared)).await
}

fn explain(PreparedRequest { wanted, turn, .. }: PreparedRequest) -> Result<Json, Fault> {
    let mut request = wanted.request;
    request.conversation.messages = match &turn.awaited {
        Some(awaited) => awaited.session.messages().iter().map(|message| Message::clone(message)).collect(),
        None => wanted.instructions.into_iter().chain(wanted.messages).collect(),
    };
    let mut answer = match wanted.served.model.explain(request)?.to_json() {
        Json::Object(answer) => answer,
        answer => return Ok(answer),
    };
    let known = turn.awaited.filter(|awaited| awaited.past.is_some());
    if let Some(awaited) = known {
        let ids: Vec<Json> = awaited.session.ids().into_iter().map(|id| i64::from(id).into()).collect();
        let session = object! {
            "history" => turn.history.name(), "kept" => turn.kept as i64, "ids" => ids,
            "segments" => of_segments(&awaited.session.segments()),
        };
        answer.insert("session", session.into());
    }
    Ok(Json::Object(answer))
}
