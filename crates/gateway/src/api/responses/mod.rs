//! OpenAI's responses. Source: its API reference, and the types of its Python package.
//!
//! A request is translated into a chat completion: `body` reads it with the help of `input` (items to
//! messages) and `tools`. `reference` finds items of stored answers that it refers to. `places` names
//! errors by the client's own items. Of MCP servers, `mcp_context` is what is found out before, `mcp_offer` reads the
//! tool, `input_mcp` the items, and `mcp_item` is the item of a call. `input_file` reads the files of messages. `result_order` puts results in the order of their calls. `events` writes the answer from the items in `output`, and `answer`
//! has the rest of it. `stored` returns it later.
//!
//! Log probabilities are asked for by `include`, and are those of the tokens of the message's text. Events
//! have them without the bytes of the tokens, as the types say.

mod answer;
mod body;
mod events;
mod field;
mod id;
mod input;
mod input_file;
mod input_mcp;
mod mcp_context;
mod mcp_item;
mod mcp_offer;
mod output;
mod places;
mod reference;
mod result_order;
mod stored;
mod tools;

use std::sync::Arc;

use axum::response::Response;
use rolecall::Request;
use rolecall::conversation::json;
use rolecall::conversation::{Json, Message};
use rolecall::request::Error;

pub use self::stored::{delete, input_items, response};

use self::answer::ResponseObject;
use self::body::Body;
use self::events::{ResponseWriter, WriterMcp};
use self::input_mcp::PendingCall;
use self::mcp_context::{ApprovalRequest, McpContext};
use self::tools::McpList;
use crate::containers::ContainerChoice;
use crate::gateway::{Gateway, Permit};
use crate::reply::writer::ReplyWriter;
use crate::request::chat_request::{ChatRequest, Past};
use crate::store::Owner;
use crate::turn::exchange::exchange;
use crate::turn::hosted_calls::{ApprovedCall, HostedTools};
use crate::{Fault, FaultCode};

/// Answers a request.
pub async fn respond(gateway: Arc<Gateway>, owner: Owner, body: String, permit: Permit) -> Result<Response, Fault> {
    let body = reference::resolve(&gateway, owner, body).await?;
    let context = McpContext::find(&gateway, owner, &body).await?;
    exchange(gateway, owner, |gateway: &Gateway, body: &str| read_with(gateway, body, context), body, permit).await
}

/// Reads a request whose MCP servers are not asked.
pub fn read(gateway: &Gateway, body: &str) -> Result<(ChatRequest, Box<dyn ReplyWriter>), Fault> {
    read_with(gateway, body, McpContext::of(gateway))
}

fn read_with(
    gateway: &Gateway,
    body: &str,
    mut context: McpContext,
) -> Result<(ChatRequest, Box<dyn ReplyWriter>), Fault> {
    let value = json::parse_unique(body).map_err(Error::from)?;
    let object = field::object(&value, "the request")?;
    let mut body = Body::read(object, &context)?;
    if let Some(effort) = &body.effort {
        effort.set(&gateway.model(body.chat.get("model"))?.model, body::EFFORT, &mut body.chat)?;
    }
    let mut places = std::mem::take(&mut body.input.places);
    let mut wanted = want(gateway, &mut body).map_err(|fault| places.name(fault))?;
    // A conversation that goes on by a name counts the new messages alone.
    places.instructions = if body.previous.is_some() { 0 } else { wanted.instructions.len() };
    wanted.hosted = hosted(&mut body)?;
    let own = id::new();
    let input = body.is_stored.then(|| std::mem::take(&mut body.input.items));
    if body.is_stored {
        wanted.names.push(stored::name_of(&id::answer_id(&own)));
    }
    let are_parallel = field::flag(object, "", "parallel_tool_calls")?.unwrap_or(true);
    let answer = ResponseObject::new(own, &body, &wanted, are_parallel);
    // What the conversation has is not listed again.
    body.input.listed.iter().for_each(|(server, digest)| context.listed.insert(server, digest.clone()));
    let is_new = |list: &McpList| context.listed.get(&list.server).and_then(Json::as_str) != Some(list.digest.as_str());
    let lists: Vec<McpList> = body.tools.lists.iter().filter(|list| is_new(list)).cloned().collect();
    lists.iter().for_each(|list| context.listed.insert(&list.server, list.digest.as_str().into()));
    let mcp = WriterMcp::new(wanted.hosted.clone(), lists, context.listed);
    Ok((wanted, Box::new(ResponseWriter::new(answer, places, input, mcp))))
}

/// Returns what runs here of MCP servers.
fn hosted(body: &mut Body) -> Result<HostedTools, Fault> {
    let mut hosted = HostedTools { tools: std::mem::take(&mut body.tools.hosted), approved: Vec::new() };
    for PendingCall { message, request, path } in std::mem::take(&mut body.input.approved) {
        let ApprovalRequest { id, call_id, server, name, arguments } = request;
        let tool = hosted.tools.iter().find(|tool| tool.server.label() == server && tool.name == name);
        let tool = tool.cloned().ok_or_else(|| {
            let message = format!("{path}: the request does not offer the tool `{name}` of the MCP server `{server}`");
            let help = Some("offer it in `tools`, as in the request before".into());
            Fault { help, ..Fault::at(&path, FaultCode::WrongValue, message) }
        })?;
        let path = body.previous.is_some().then_some(path);
        hosted.approved.push(ApprovedCall { message, call_id, request: id, tool, arguments, path });
    }
    Ok(hosted)
}

/// Reads what is wanted from the translated request.
fn want(gateway: &Gateway, body: &mut Body) -> Result<ChatRequest, Fault> {
    let chat = std::mem::take(&mut body.chat);
    let mut wanted = ChatRequest::read(gateway, Request::from_json(chat.into())?)?;
    wanted.instructions = body.instructions.iter().map(|text| Message::system(text.as_str())).collect();
    if let Some(id) = &body.previous {
        wanted.past = Past::Known(stored::name_of(id));
    }
    wanted.is_stored = body.is_stored;
    wanted.container = match (&body.tools.container, &gateway.containers) {
        (Some((index, ContainerChoice { id: Some(_), .. })), None) => {
            let help = Some("use {\"type\": \"auto\"}, and run the code that the answer has".into());
            return Err(Fault { help, ..Fault::unsupported(&format!("tools[{index}].container")) });
        }
        (Some((index, ContainerChoice { files, .. })), None) if !files.is_empty() => {
            let help = Some("this gateway does not run code: run the code that the answer has".into());
            return Err(Fault { help, ..Fault::unsupported(&format!("tools[{index}].container.file_ids")) });
        }
        (_, None) => None,
        (choice, Some(_)) => choice.as_ref().map(|(_, choice)| choice.clone()),
    };
    for file in std::mem::take(&mut body.input.files) {
        let Some(container) = &mut wanted.container else {
            let message = format!("{}: no code runs that could read the file", file.path);
            let help = "offer {\"type\": \"code_interpreter\", \"container\": {\"type\": \"auto\"}}";
            return Err(Fault {
                help: Some(help.into()),
                ..Fault::at(&file.path, FaultCode::UnsupportedPart, message)
            });
        };
        container.files.push(file.id);
    }
    Ok(wanted)
}
