//! What is found out before a request is read: the tools of MCP servers, what the answer before left open, and which files
//! were uploaded.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use rolecall::conversation::json::{self, Layout, Object};
use rolecall::conversation::{Json, Message};
use sha2::{Digest, Sha256};

use super::input_file::{INPUT_FILE, UploadedFiles};
use super::mcp_offer::MCP;
use super::stored::name_of;
use crate::mcp_servers::{McpServers, ToolList};
use crate::store::Owner;
use crate::work::sized;
use crate::{Fault, Gateway};

/// What is known of MCP servers and files before a request is read.
#[derive(Clone, Debug, Default)]
pub struct McpContext {
    pub servers: McpServers,
    /// The tools of the servers that the request names.
    pub lists: BTreeMap<String, ToolList>,
    /// The lists that the conversation has, by their servers: digests.
    pub listed: Object,
    /// The ids of the calls of the answer before, in order.
    pub calls: Vec<String>,
    /// The results of calls of the answer before that ran here, and that the model has not read.
    pub results: Vec<Json>,
    /// The calls of the answer before that wait for the client's word.
    pub approvals: Vec<ApprovalRequest>,
    /// What its messages may attach.
    pub files: UploadedFiles,
}

/// A call of which the client is asked.
#[derive(Clone, Debug)]
pub struct ApprovalRequest {
    /// The id of its item.
    pub id: String,
    pub call_id: String,
    pub server: String,
    pub name: String,
    pub arguments: String,
}

/// The type of the result of a call that the client ran.
const OUTPUT: &str = "function_call_output";

/// The keys of a stored answer.
const LISTED: &str = "listed";
const RESULTS: &str = "results";

impl McpContext {
    /// Returns what is known without asking anybody.
    pub fn of(gateway: &Gateway) -> McpContext {
        McpContext { servers: gateway.servers.clone(), ..McpContext::default() }
    }

    /// Asks the servers that a request names for their tools, and looks the answer before up.
    pub async fn find(gateway: &Gateway, owner: Owner, body: &str) -> Result<McpContext, Fault> {
        let mut context = McpContext::of(gateway);
        let (has_servers, has_calls) = (!gateway.servers.is_empty(), gateway.containers.is_some());
        // Escaped, its keys may be spelled in another way.
        let says = |word: &str| body.contains(word) || body.contains("\\u");
        if says(INPUT_FILE) {
            context.files = UploadedFiles::of(gateway, owner);
        }
        // What the answer before left open, or in which order it called.
        let goes_on = (has_servers || has_calls || says(OUTPUT)) && says("previous_response_id");
        let asks_servers = has_servers && says(MCP);
        if !asks_servers && !goes_on {
            return Ok(context);
        }
        let text = body.to_owned();
        // Who reads it says what is wrong.
        let request = sized(body.len(), move || Ok(json::parse(&text).ok())).await?;
        let Some(Json::Object(request)) = request else { return Ok(context) };
        if let Some(previous) = request.get("previous_response_id").and_then(Json::as_str)
            && let Some(Json::Object(stored)) = gateway.sessions.response(owner, &name_of(previous)).await?
        {
            context.take_stored(stored);
        }
        let tools = request.get("tools").and_then(Json::as_array).unwrap_or_default();
        let named = tools.iter().enumerate().filter_map(|(index, tool)| {
            let tool = tool.as_object().filter(|tool| tool.get("type").and_then(Json::as_str) == Some(MCP))?;
            Some((index, gateway.servers.get(tool.get("server_label")?.as_str()?)?))
        });
        let lists = named.map(|(index, server)| async move {
            let field = format!("tools[{index}]");
            let tools = server.tools().await.map_err(|error| server.fault(&error, &field))?;
            Ok((server.label().to_owned(), tools))
        });
        context.lists = join_all(lists).await.into_iter().collect::<Result<_, Fault>>()?;
        Ok(context)
    }

    fn take_stored(&mut self, mut stored: Object) {
        if let Some(Json::Object(listed)) = stored.remove(LISTED) {
            self.listed = listed;
        }
        if let Some(Json::Array(results)) = stored.remove(RESULTS) {
            self.results = results;
        }
        let output = stored.get("response").and_then(|response| response.as_object()?.get("output")?.as_array());
        let output = output.unwrap_or_default();
        self.approvals = output.iter().filter_map(ApprovalRequest::of_item).collect();
        let id = |item: &Json| item.as_object()?.get("call_id")?.as_str().map(str::to_owned);
        self.calls = output.iter().filter_map(id).collect();
    }

    /// Adds what the next request needs to an answer that is stored.
    pub fn store_in(stored: &mut Object, listed: &Object, results: &[Message]) {
        if !listed.is_empty() {
            stored.insert(LISTED, listed.clone().into());
        }
        if !results.is_empty() {
            let results = results.iter().map(|result| result.as_object().clone().into());
            stored.insert(RESULTS, results.collect::<Vec<Json>>().into());
        }
    }
}

impl ApprovalRequest {
    fn of_item(item: &Json) -> Option<ApprovalRequest> {
        let item = item.as_object()?;
        let text = |key: &str| item.get(key).and_then(Json::as_str).map(str::to_owned);
        if text("type")? != "mcp_approval_request" {
            return None;
        }
        Some(ApprovalRequest {
            id: text("id")?,
            call_id: text("call_id")?,
            server: text("server_label")?,
            name: text("name")?,
            arguments: text("arguments")?,
        })
    }
}

/// Returns the digest of a list of tools.
pub fn digest_of(tools: &[Json]) -> String {
    let text = json::write(&tools.to_vec().into(), &Layout::compact());
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}
