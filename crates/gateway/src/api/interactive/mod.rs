//! LMDeploy's interactive mode, `/v1/chat/interactive`. Source: `api_server.py`, `protocol.py` and
//! `api_client.py` of LMDeploy's server before the mode was removed from it.
//!
//! The server keeps the conversation: a client names it by a number, and sends only what is new. `request`
//! reads requests, and `answer` writes answers: one JSON value, or one in each line of a stream.
//!
//! - With `interactive_mode`, the conversation goes on under its number. Without, it ends with the answer.
//! - An empty prompt with `request_output_len` 0 and without `interactive_mode` ends it at once.
//! - With `cancel`, the reply to an earlier request ends where it is. What the model said so far is part of the
//!   conversation, unless it said nothing: then the earlier request fails, and its turn is not kept.
//! - A conversation that leaves no room for a reply gets an empty answer that ends with `length`.
//! - Settings that a request leaves out are the model's own, not LMDeploy's.
//! - Reasoning and calls are not part of the text. They have keys of their own, as in chat completions.

mod answer;
mod request;

use std::sync::Arc;

use axum::response::Response;
use rolecall::Request;
use rolecall::conversation::Json;

use crate::fault::answer;
use crate::gateway::{Gateway, Permit};
use crate::reply::writer::ReplyWriter;
use crate::request::chat_request::{ChatRequest, Past};
use crate::store::Owner;
use crate::turn::exchange::exchange;
use crate::{Fault, FaultCode};
use answer::{LineWriter, nothing, too_long};
use request::InteractiveRequest;

/// Answers a request.
pub async fn respond(gateway: Arc<Gateway>, owner: Owner, body: String, permit: Permit) -> Result<Response, Fault> {
    match InteractiveRequest::read(&body)? {
        InteractiveRequest::End(name) => {
            gateway.sessions.forget(owner, &name).await?;
            Ok(answer(&nothing("stop".into())))
        }
        InteractiveRequest::Cancel(name) => {
            gateway.closing.or(gateway.running.cancel(owner, name)).await?;
            Ok(answer(&nothing(Json::Null)))
        }
        InteractiveRequest::Reply { .. } => match exchange(gateway, owner, read, body, permit).await {
            // A conversation that is too long ends here, as LMDeploy's clients know it. Its turn is not kept.
            Err(Fault { excess: Some(excess), .. }) => Ok(answer(&too_long(excess))),
            answered => answered,
        },
    }
}

/// Reads a request for a reply.
pub fn read(gateway: &Gateway, body: &str) -> Result<(ChatRequest, Box<dyn ReplyWriter>), Fault> {
    let InteractiveRequest::Reply { chat, session, goes_on } = InteractiveRequest::read(body)? else {
        return Err(Fault::at("prompt", FaultCode::WrongValue, "prompt: expected a text or messages"));
    };
    let mut wanted = ChatRequest::read(gateway, Request::from_json(chat.into())?).map_err(request::renamed)?;
    if let Some(name) = session {
        wanted.past = Past::New(name.clone());
        match goes_on {
            true => wanted.names.push(name),
            false => wanted.forgets = Some(name),
        }
    }
    Ok((wanted, Box::new(LineWriter::default())))
}
