//! Anthropic's messages. Source: the types in its Python SDK, version 2.14.
//!
//! A request is translated into the shape of chat completions: `request` reads its settings, `history`
//! its messages, `block` their content, and `tools` and `thinking` what their names say. `answer` writes
//! the answer, of which `blocks` has the content, and `fault` the errors.
//!
//! - Blocks of text that follow each other are one text.
//! - A result of a tool becomes a message of its own. One with `is_error` begins with `Error: `, as chat
//!   templates have no other place for it.
//! - Signatures of thinking are taken from every client and are not checked: it may edit its own history.
//! - Engines take no limit of thinking. In Anthropic's API, `budget_tokens` is a target that the model may miss, so
//!   it is taken, and the answer says that nothing enforces it.
//! - Labels such as `cache_control` change nothing: every prompt is looked up in the engine's cache.

mod answer;
mod block;
mod blocks;
mod fault;
mod history;
mod request;
mod thinking;
mod tools;

use rolecall::Request;
use rolecall::conversation::{Json, Message, object};

use crate::gateway::Gateway;
use crate::reply::writer::ReplyWriter;
use crate::request::chat_request::ChatRequest;
use crate::turn::left_out;
use crate::{Fault, FaultCode};
use answer::MessageWriter;
use history::Sources;

pub use fault::shape;

/// Reads a request.
pub fn read(gateway: &Gateway, body: &str) -> Result<(ChatRequest, Box<dyn ReplyWriter>), Fault> {
    let asked = request::read(gateway, body)?;
    if asked.chat.get("max_tokens").is_none() {
        return Err(Fault::at("max_tokens", FaultCode::MissingField, "max_tokens: expected a whole number from 1"));
    }
    let wanted = ChatRequest { wishes: asked.wishes, ..wanted(gateway, asked.chat, &asked.sources)? };
    let writer = MessageWriter::new(&wanted.served.name, asked.sources, asked.blocks);
    Ok((wanted, Box::new(writer)))
}

/// Answers `/v1/messages/count_tokens`: the number of ids of the prompt.
pub fn count_tokens(gateway: &Gateway, body: &str) -> Result<Json, Fault> {
    let asked = request::read(gateway, body)?;
    let wanted = wanted(gateway, asked.chat, &asked.sources)?;
    left_out::check(&wanted, &wanted.messages).map_err(|fault| asked.sources.placed(fault))?;
    let count = || {
        let mut request = wanted.request.clone();
        request.conversation.messages.clone_from(&wanted.messages);
        let prompt = wanted.served.model.prompt(request)?;
        let messages: Vec<&Message> = wanted.messages.iter().collect();
        left_out::judge(&wanted, &messages, left_out::of_prompt(prompt.prompt().dropped()))?;
        Ok(prompt.encode()?.tokens.len())
    };
    let count = count().map_err(|fault: Fault| asked.sources.placed(fault))?;
    Ok(object! { "input_tokens" => count as i64 }.into())
}

fn wanted(
    gateway: &Gateway,
    chat: rolecall::conversation::json::Object,
    sources: &Sources,
) -> Result<ChatRequest, Fault> {
    let request = Request::from_json(chat.into()).map_err(Fault::from);
    request.and_then(|request| ChatRequest::read(gateway, request)).map_err(|fault| sources.placed(fault))
}
