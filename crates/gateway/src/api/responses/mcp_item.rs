use rolecall::conversation::json::Object;
use rolecall::conversation::{Json, object};
use rolecall_interpreter::agent::{ToolError, ToolResult};

use super::field::{get, list, needed_text, object, text, wrong};
use crate::Fault;
use crate::mcp_servers::{CLOSED, LATE};
use crate::turn::hosted_calls::{ApprovedCall, HostedTool};

/// A call of a tool of an MCP server, as its item shows it.
#[derive(Clone, Debug)]
pub struct McpItem {
    pub call_id: String,
    pub server: String,
    /// The name that the server gives the tool.
    pub name: String,
    pub arguments: String,
    pub is_whole: bool,
    pub state: McpState,
}

/// What becomes of the call.
#[derive(Clone, Debug)]
pub enum McpState {
    /// The client is asked whether it runs.
    Asks,
    /// It runs here. The client was asked with the item of this id.
    Runs { request: Option<String>, result: Option<Result<String, ToolError>> },
}

impl McpItem {
    /// Returns the item of a call that the model begins.
    pub fn begun(tool: &HostedTool, call_id: &str) -> McpItem {
        McpItem {
            call_id: call_id.to_owned(),
            server: tool.server.label().to_owned(),
            name: tool.name.clone(),
            arguments: String::new(),
            is_whole: false,
            state: if tool.asks { McpState::Asks } else { McpState::Runs { request: None, result: None } },
        }
    }

    /// Returns the item of a call that the client has approved.
    pub fn approved(call: &ApprovedCall) -> McpItem {
        McpItem {
            arguments: call.arguments.clone(),
            is_whole: true,
            state: McpState::Runs { request: Some(call.request.clone()), result: None },
            ..McpItem::begun(&call.tool, &call.call_id)
        }
    }

    /// Ends a call whose arguments cannot be read. The client is not asked: it does not run.
    pub fn break_off(&mut self) {
        if !self.is_whole {
            self.state = McpState::Runs { request: None, result: None };
        }
    }

    /// Reports whether this asks the client.
    pub fn asks(&self) -> bool {
        matches!(self.state, McpState::Asks)
    }

    /// Ends the call.
    pub fn end(&mut self, ended: &Result<String, ToolError>) {
        if let McpState::Runs { result, .. } = &mut self.state {
            *result = Some(ended.clone());
        }
    }

    pub fn to_json(&self, id: &str, status: &str) -> Object {
        let mut item = object! { "id" => id };
        let (request, result) = match &self.state {
            McpState::Asks => {
                item.insert("type", "mcp_approval_request".into());
                self.insert_call(&mut item);
                return item;
            }
            McpState::Runs { request, result } => (request, result),
        };
        item.insert("type", "mcp_call".into());
        item.insert("status", status.into());
        self.insert_call(&mut item);
        let output = result.as_ref().and_then(|result| result.as_ref().ok());
        item.insert("output", output.map_or(Json::Null, |text| text.as_str().into()));
        let error = result.as_ref().and_then(|result| result.as_ref().err());
        item.insert("error", error.map_or(Json::Null, error_to_json));
        item.insert("approval_request_id", request.as_deref().map_or(Json::Null, Json::from));
        item
    }

    fn insert_call(&self, item: &mut Object) {
        item.insert("server_label", self.server.as_str().into());
        item.insert("name", self.name.as_str().into());
        item.insert("arguments", self.arguments.as_str().into());
        // OpenAI's item has no id of the call, which the model's turn has.
        item.insert("call_id", self.call_id.as_str().into());
    }
}

/// Returns an error in one of the shapes that the types of OpenAI's package have.
fn error_to_json(error: &ToolError) -> Json {
    let code = match error.code {
        "mcp_tool" => {
            let content: Json = object! { "type" => "text", "text" => error.message.as_str() }.into();
            return object! { "type" => "mcp_tool_execution_error", "content" => vec![content] }.into();
        }
        // Source: the codes of the protocol and of its SDKs.
        CLOSED => -32000,
        LATE => -32001,
        "unknown_tool" => -32601,
        "arguments" => -32602,
        _ => -32603,
    };
    object! { "type" => "mcp_protocol_error", "code" => code, "message" => error.message.as_str() }.into()
}

/// Returns what the model read of the result of an item that is sent back.
pub fn result_text(item: &Object, path: &str) -> Result<String, Fault> {
    if let Some(output) = text(item, path, "output")? {
        return Ok(output.to_owned());
    }
    let field = format!("{path}.error");
    let message = match get(item, "error") {
        None => "it was not run".to_owned(),
        Some(Json::String(message)) => message.clone(),
        Some(error) => {
            let error = error.as_object().ok_or_else(|| wrong(&field, "a text or an object", error))?;
            match get(error, "content") {
                None => needed_text(error, &field, "message")?.to_owned(),
                Some(content) => {
                    let field = format!("{field}.content");
                    let part = |part: &Json| Ok(needed_text(object(part, &field)?, &field, "text")?.to_owned());
                    list(content, &field)?.iter().map(part).collect::<Result<Vec<String>, Fault>>()?.join("\n")
                }
            }
        }
    };
    Ok(ToolResult::failed("mcp", &message).text)
}
