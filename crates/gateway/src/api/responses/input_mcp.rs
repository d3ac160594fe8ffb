//! Input items of MCP servers: what an answer showed of them, and what the client says of calls that wait for its word.

use rolecall::conversation::json::Object;
use rolecall::conversation::{Json, object};
use rolecall_interpreter::agent::{Mcp, ToolResult};

use super::field::{flag, get, list, missing, needed_text, object, refuse_others, text};
use super::input::{InputReader, check_call};
use super::mcp_context::{ApprovalRequest, digest_of};
use super::mcp_item::result_text;
use crate::{Fault, FaultCode};

/// A call that the client has approved and that has no result yet.
#[derive(Clone, Debug)]
pub struct PendingCall {
    /// The index of the message that gets the result.
    pub message: usize,
    pub request: ApprovalRequest,
    /// The place of the approval.
    pub path: String,
}

/// The calls of which the client was asked.
#[derive(Debug, Default)]
pub struct Approvals(Vec<Approval>);

#[derive(Debug)]
struct Approval {
    request: ApprovalRequest,
    state: ApprovalState,
}

#[derive(Debug)]
enum ApprovalState {
    /// The client has not answered.
    Open,
    /// The message at this index gets the result. The path is that of the approval.
    Approved(usize, String),
    /// The result is there.
    Ended,
}

/// What stands in the place of a result until it is there. No model reads it.
const NO_RESULT_YET: &str = "..";

impl Approvals {
    pub fn of(asked: &[ApprovalRequest]) -> Approvals {
        let open = |request: &ApprovalRequest| Approval { request: request.clone(), state: ApprovalState::Open };
        Approvals(asked.iter().map(open).collect())
    }

    /// Refuses calls without an answer: the model could not go on.
    pub fn check_answered(&self) -> Result<(), Fault> {
        let Some(open) = self.0.iter().find(|own| matches!(own.state, ApprovalState::Open)) else { return Ok(()) };
        let id = &open.request.id;
        let message = format!("input: the approval request `{id}` has no response");
        let help =
            "send {\"type\": \"mcp_approval_response\", \"approval_request_id\": .., \"approve\": true or false}";
        Err(Fault { help: Some(help.into()), ..Fault::at("input", FaultCode::MissingField, message) })
    }

    /// Returns the approved calls without a result. `messages` are all of the input.
    pub fn finish(&self, messages: &[Json]) -> Result<Vec<PendingCall>, Fault> {
        self.check_answered()?;
        let mut pending = Vec::new();
        for Approval { request, state } in &self.0 {
            let ApprovalState::Approved(message, path) = state else { continue };
            let role =
                |message: &Json| message.as_object().and_then(|own| own.get("role")?.as_str()) == Some("assistant");
            if messages.iter().skip(message + 1).any(role) {
                let id = &request.id;
                let message = format!("{path}: the call of the approval request `{id}` has no result");
                let help = Some("send the item `mcp_call` of the answer, too".into());
                return Err(Fault { help, ..Fault::at(path, FaultCode::MissingField, message) });
            }
            pending.push(PendingCall { message: *message, request: request.clone(), path: path.clone() });
        }
        Ok(pending)
    }

    fn find(&mut self, id: &str) -> Option<&mut Approval> {
        self.0.iter_mut().find(|own| own.request.id == id)
    }
}

impl InputReader {
    /// Reads a list of tools. The server says which ones there are now.
    pub(super) fn read_mcp_list(
        &mut self,
        index: usize,
        path: &str,
        item: &Object,
        id: Option<&str>,
    ) -> Result<(), Fault> {
        refuse_others(item, path, &["type", "id", "server_label", "tools", "error"])?;
        let server = needed_text(item, path, "server_label")?;
        let field = format!("{path}.tools");
        let tools = list(get(item, "tools").ok_or_else(|| missing(&field))?, &field)?;
        let tool = |tool: &Json| {
            let tool = object(tool, &field)?;
            let key = |key: &str| tool.get(key).cloned().unwrap_or(Json::Null);
            needed_text(tool, &field, "name")?;
            // Clients may order the keys in another way, and leave out what is null.
            Ok(object! {
                "name" => key("name"), "description" => key("description"), "input_schema" => key("input_schema"),
                "annotations" => key("annotations"),
            }
            .into())
        };
        let tools = tools.iter().map(tool).collect::<Result<Vec<Json>, Fault>>()?;
        self.listed.insert(server, digest_of(&tools).into());
        let id = self.id_of("mcpl", index, id);
        self.items.push(
            object! { "id" => id, "type" => "mcp_list_tools", "server_label" => server, "tools" => tools }.into(),
        );
        Ok(())
    }

    /// Reads a call that ran here, with its result.
    pub(super) fn read_mcp_call(
        &mut self,
        index: usize,
        path: &str,
        item: &Object,
        id: Option<&str>,
    ) -> Result<(), Fault> {
        refuse_others(
            item,
            path,
            &[
                "type",
                "id",
                "call_id",
                "server_label",
                "name",
                "arguments",
                "output",
                "error",
                "status",
                "approval_request_id",
            ],
        )?;
        let own = self.id_of("mcp", index, id);
        let mut request = read_request(item, path, &own)?;
        let content = result_text(item, path)?;
        // A call that failed because its arguments cannot be read has none that a message can have.
        if get(item, "output").is_none() && check_call(&to_call(&request), path).is_err() {
            "{}".clone_into(&mut request.arguments);
        }
        let result = |call_id: &str| object! { "role" => "tool", "tool_call_id" => call_id, "content" => content };
        let asked = text(item, path, "approval_request_id")?;
        let known = asked.and_then(|asked| self.approvals.find(asked));
        match known.map(|own| (own.request.call_id.clone(), std::mem::replace(&mut own.state, ApprovalState::Ended))) {
            Some((call_id, ApprovalState::Approved(message, _))) => {
                if let Some(place) = self.messages.get_mut(message) {
                    *place = result(&call_id).into();
                }
            }
            Some((call_id, ApprovalState::Open)) => self.push(index, result(&call_id)),
            Some((_, ApprovalState::Ended)) => {
                let field = format!("{path}.approval_request_id");
                let message = format!("{field}: the call of this approval request has a result already");
                return Err(Fault::at(&field, FaultCode::Conflict, message));
            }
            None => {
                let call = to_call(&request);
                check_call(&call, path)?;
                let result = result(&request.call_id);
                self.add_call(index, id, &own, call).results.push((index, result));
            }
        }
        self.show(item, own);
        Ok(())
    }

    /// Reads a call of which the client was asked.
    pub(super) fn read_mcp_request(
        &mut self,
        index: usize,
        path: &str,
        item: &Object,
        id: Option<&str>,
    ) -> Result<(), Fault> {
        refuse_others(item, path, &["type", "id", "call_id", "server_label", "name", "arguments"])?;
        let own = self.id_of("mcpr", index, id);
        let request = read_request(item, path, &own)?;
        let call = to_call(&request);
        check_call(&call, path)?;
        self.add_call(index, id, &own, call);
        self.approvals.0.push(Approval { request, state: ApprovalState::Open });
        self.show(item, own);
        Ok(())
    }

    /// Reads what the client says of a call.
    pub(super) fn read_mcp_response(
        &mut self,
        index: usize,
        path: &str,
        item: &Object,
        id: Option<&str>,
    ) -> Result<(), Fault> {
        refuse_others(item, path, &["type", "id", "approval_request_id", "approve", "reason"])?;
        let asked = needed_text(item, path, "approval_request_id")?;
        let is_approved = flag(item, path, "approve")?.ok_or_else(|| missing(&format!("{path}.approve")))?;
        let reason = text(item, path, "reason")?;
        let field = format!("{path}.approval_request_id");
        let approval = self.approvals.find(asked).filter(|own| matches!(own.state, ApprovalState::Open));
        let Some(approval) = approval else {
            let message = format!("{field}: there is no approval request `{asked}` that waits for a response");
            let help = "send it once, with the `previous_response_id` of the answer that asks, or after its items";
            return Err(Fault { help: Some(help.into()), ..Fault::at(&field, FaultCode::ItemNotFound, message) });
        };
        let call_id = approval.request.call_id.clone();
        let content = match is_approved {
            true => NO_RESULT_YET.to_owned(),
            false => {
                let reason = reason.map_or(String::new(), |reason| format!(": {reason}"));
                ToolResult::refused(&format!("the user did not approve it{reason}")).text
            }
        };
        self.push(index, object! { "role" => "tool", "tool_call_id" => call_id, "content" => content });
        let message = self.messages.len().saturating_sub(1);
        if let Some(approval) = self.approvals.find(asked) {
            approval.state = match is_approved {
                true => ApprovalState::Approved(message, field),
                false => ApprovalState::Ended,
            };
        }
        self.show(item, self.id_of("mcpa", index, id));
        Ok(())
    }

    /// Keeps an item as it is shown later: as it was sent, with an id.
    fn show(&mut self, item: &Object, id: String) {
        let mut shown = item.clone();
        shown.insert("id", id.into());
        self.items.push(shown.into());
    }
}

fn read_request(item: &Object, path: &str, id: &str) -> Result<ApprovalRequest, Fault> {
    let text_of = |key: &str| needed_text(item, path, key).map(str::to_owned);
    Ok(ApprovalRequest {
        id: id.to_owned(),
        // OpenAI's items have no other id.
        call_id: text(item, path, "call_id")?.unwrap_or(id).to_owned(),
        server: text_of("server_label")?,
        name: text_of("name")?,
        arguments: text_of("arguments")?,
    })
}

/// Returns the call as the model's turn has it.
fn to_call(request: &ApprovalRequest) -> Json {
    let name = Mcp::function_name(&request.server, &request.name);
    let function = object! { "name" => name, "arguments" => request.arguments.as_str() };
    object! { "id" => request.call_id.as_str(), "type" => "function", "function" => function }.into()
}
