use std::collections::VecDeque;
use std::sync::Arc;

use rolecall::conversation::{Message, object};
use rolecall::parse::ParsedCall;
use rolecall::{Model, Reading};
use rolecall_interpreter::Stop;
use rolecall_interpreter::agent::{ToolError, ToolResult};
use tokio::task::JoinHandle;

use crate::clock::random;
use crate::containers::{Container, Ran};
use crate::gateway::Gateway;
use crate::mcp_servers::McpServer;
use crate::request::chat_request::{ChatRequest, Past};
use crate::store::Owner;
use crate::{Fault, FaultCode};

/// What a request offers of MCP servers.
#[derive(Clone, Debug, Default)]
pub struct HostedTools {
    pub tools: Vec<HostedTool>,
    /// The calls that the client has approved. They run before the model replies.
    pub approved: Vec<ApprovedCall>,
}

/// A tool of an MCP server, as the model may call it.
#[derive(Clone, Debug)]
pub struct HostedTool {
    /// The name by which the model calls it.
    pub function: String,
    pub server: Arc<McpServer>,
    /// The name that the server gives it.
    pub name: String,
    /// Whether the client is asked before it is called.
    pub asks: bool,
}

/// A call that the client has approved.
#[derive(Clone, Debug)]
pub struct ApprovedCall {
    /// The index of the message that gets its result.
    pub message: usize,
    pub call_id: String,
    /// The id of the item that asked for it.
    pub request: String,
    pub tool: HostedTool,
    pub arguments: String,
    /// The place of the approval, if its answer is stored, so that it can be given again.
    pub path: Option<String>,
}

/// The calls of a request that run here: code, and tools of MCP servers.
pub struct HostedCalls {
    pub container: Option<Arc<Container>>,
    /// The name of the turn whose calls are run.
    pub name: String,
    /// The most ids of all replies together.
    pub most_ids: Option<u64>,
    tools: Vec<HostedTool>,
    stage: CallStage,
    /// The calls that are still to be run.
    calls: VecDeque<HostedCall>,
    running: Option<(String, JoinHandle<Result<HostedResult, Fault>>)>,
    results: Vec<Message>,
    rounds: usize,
    stop: Stop,
}

/// Whose calls are run.
enum CallStage {
    /// Those that the client has approved. Their results are for these messages.
    Approved(Vec<usize>),
    /// Those of a reply, which the model goes on after.
    Replied,
    /// Those of a reply whose other calls are the client's, so that the answer ends with it.
    Last,
    /// Those of a reply after which no id is left for another.
    Spent,
}

/// A call that runs here, with its id.
struct HostedCall {
    id: String,
    work: HostedWork,
}

enum HostedWork {
    Code(String),
    Tool(HostedTool, String),
    /// It is not run, for this reason.
    NotRun(ToolError),
}

/// What a call runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostedKind {
    Code,
    Tool,
}

/// What became of a call.
#[derive(Clone, Debug)]
pub enum HostedResult {
    Code(Ran),
    Tool(Result<String, ToolError>),
}

/// The results of calls, which the model replies to.
pub enum NextRound {
    /// The messages at these places get these contents.
    Approved(Vec<(usize, Message)>),
    /// The turn with this name goes on with these messages.
    Replied(String, Vec<Message>),
}

/// The most replies with calls that run here, for one request.
const MOST_ROUNDS: usize = 32;

impl HostedTools {
    /// Returns the tool that the model calls by a name.
    pub fn by_function(&self, name: &str) -> Option<&HostedTool> {
        self.tools.iter().find(|tool| tool.function == name)
    }

    /// Returns the approvals for stored answers: their places, and the ids of their requests.
    pub fn stored_approvals(&self) -> Vec<(&str, &str)> {
        self.approved.iter().filter_map(|call| Some((call.path.as_deref()?, call.request.as_str()))).collect()
    }
}

impl HostedCalls {
    /// Returns what runs the calls of a request, if any may run here. Opens its container.
    pub async fn begin(gateway: &Gateway, owner: Owner, wanted: &ChatRequest) -> Result<Option<HostedCalls>, Fault> {
        let container = open_container(gateway, owner, wanted).await?;
        let HostedTools { tools, approved } = wanted.hosted.clone();
        if container.is_none() && tools.is_empty() && approved.is_empty() {
            return Ok(None);
        }
        let stage = match approved.is_empty() {
            true => CallStage::Replied,
            false => CallStage::Approved(approved.iter().map(|call| call.message).collect()),
        };
        let call =
            |call: ApprovedCall| HostedCall { id: call.call_id, work: HostedWork::Tool(call.tool, call.arguments) };
        Ok(Some(HostedCalls {
            container,
            name: String::new(),
            most_ids: wanted.sampling.max_tokens,
            tools,
            stage,
            calls: approved.into_iter().map(call).collect(),
            running: None,
            results: Vec::new(),
            rounds: 0,
            stop: Stop::default(),
        }))
    }

    /// Reports whether calls run before the first reply.
    pub fn comes_first(&self) -> bool {
        matches!(self.stage, CallStage::Approved(_))
    }

    /// Takes the calls of a reply, which may have been cut off. `used` are the ids of all replies. Returns false if none of
    /// them runs here: then the answer is there.
    pub fn take(&mut self, reading: &Reading, is_cut: bool, used: u64) -> bool {
        self.calls = reading.calls.iter().filter_map(|call| self.own(call, is_cut)).collect();
        let why = if is_cut {
            Some("the reply was cut off".to_owned())
        } else {
            let most = format!("at most {MOST_ROUNDS} replies with calls follow each other");
            (self.rounds == MOST_ROUNDS).then_some(most)
        };
        if let Some(why) = &why {
            // The client can run code itself. A call of a server has a result in any case.
            self.calls.retain(|call| matches!(call.work, HostedWork::Tool(..)));
            let error = ToolError { code: "not_run", message: format!("it was not run: {why}") };
            self.calls.iter_mut().for_each(|call| call.work = HostedWork::NotRun(error.clone()));
        }
        if self.calls.is_empty() {
            return false;
        }
        self.rounds += 1;
        let all_run = self.calls.len() == reading.calls.len() && why.is_none();
        let is_spent = self.most_ids.is_some_and(|most| used >= most);
        self.stage = match (all_run, is_spent) {
            (false, _) => CallStage::Last,
            (true, true) => CallStage::Spent,
            (true, false) => CallStage::Replied,
        };
        self.name = format!("round:{:016x}{:016x}", random(), random());
        true
    }

    /// Returns a call that runs here. One that was cut off does not. If the model itself ended a call that cannot be read, it is
    /// told so.
    fn own(&self, call: &ParsedCall, is_cut: bool) -> Option<HostedCall> {
        match call {
            ParsedCall::Code { id, code, whole: true } => {
                let work = HostedWork::Code(code.clone());
                self.container.as_ref().map(|_| HostedCall { id: id.clone(), work })
            }
            ParsedCall::Function { id, name, arguments, whole: true, .. } => {
                let tool = self.tools.iter().find(|tool| tool.function == *name && !tool.asks)?;
                Some(HostedCall { id: id.clone(), work: HostedWork::Tool(tool.clone(), arguments.clone()) })
            }
            ParsedCall::Function { id, name, whole: false, .. } if !is_cut => {
                self.tools.iter().find(|tool| tool.function == *name)?;
                let message = "it was not run: the arguments are not a JSON object".to_owned();
                let work = HostedWork::NotRun(ToolError { code: "arguments", message });
                Some(HostedCall { id: id.clone(), work })
            }
            _ => None,
        }
    }

    /// Reports whether the answer ends with the calls that were taken.
    pub fn ends_answer(&self) -> bool {
        matches!(self.stage, CallStage::Last | CallStage::Spent)
    }

    /// Reports whether the answer ends with them because no id is left for another reply.
    pub fn is_spent(&self) -> bool {
        matches!(self.stage, CallStage::Spent)
    }

    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Starts the next call, if there is one.
    pub fn start_next(&mut self, model: &Model) -> Option<HostedKind> {
        let HostedCall { id, work } = self.calls.pop_front()?;
        let kind = if matches!(work, HostedWork::Code(_)) { HostedKind::Code } else { HostedKind::Tool };
        let stop = self.stop.clone();
        let running = match (work, &self.container) {
            (HostedWork::Code(code), Some(container)) => {
                let code_result = model.format().map(|format| format.code_result.clone()).unwrap_or_default();
                let container = Arc::clone(container);
                tokio::task::spawn_blocking(move || container.run(&code, &stop, &code_result).map(HostedResult::Code))
            }
            (HostedWork::Code(_), None) => return None,
            (HostedWork::Tool(tool, arguments), _) => {
                tokio::spawn(
                    async move { Ok(HostedResult::Tool(tool.server.call(&tool.name, &arguments, &stop).await)) },
                )
            }
            (HostedWork::NotRun(error), _) => tokio::spawn(async { Ok(HostedResult::Tool(Err(error))) }),
        };
        self.running = Some((id, running));
        Some(kind)
    }

    /// Waits for the end of the call that runs. Nothing is lost if this is dropped while it waits.
    pub async fn ran(&mut self) -> Result<HostedResult, Fault> {
        let Some((id, running)) = &mut self.running else { return Err(broken(&"nothing runs")) };
        let ran = running.await.map_err(|error| broken(&error))??;
        let message = object! { "role" => "tool", "tool_call_id" => id.as_str(), "content" => ran.text() };
        self.results.push(Message::from_object(message).map_err(|error| broken(&error))?);
        self.running = None;
        Ok(ran)
    }

    /// Returns the results, once all calls have run, if the model replies to them.
    pub fn take_results(&mut self) -> Option<NextRound> {
        if self.results.is_empty() || self.ends_answer() {
            return None;
        }
        let results = std::mem::take(&mut self.results);
        match std::mem::replace(&mut self.stage, CallStage::Replied) {
            CallStage::Approved(places) => Some(NextRound::Approved(places.into_iter().zip(results).collect())),
            CallStage::Replied | CallStage::Last | CallStage::Spent => {
                Some(NextRound::Replied(self.name.clone(), results))
            }
        }
    }

    /// Returns the results that the answer ends with. The model reads them with those of the client.
    pub fn last_results(&self) -> &[Message] {
        &self.results
    }

    /// Stops the call that runs.
    pub fn stop(&self) {
        self.stop.stop();
    }

    /// Notes that the answer of these names has the container.
    pub fn remember(&self, gateway: &Gateway, owner: Owner, names: &[String]) {
        if let (Some(containers), Some(container)) = (&gateway.containers, &self.container) {
            names.iter().for_each(|name| containers.remember(owner, name, &container.id));
        }
    }
}

impl Drop for HostedCalls {
    /// A client that leaves ends what runs for it.
    fn drop(&mut self) {
        self.stop.stop();
    }
}

impl HostedResult {
    /// Returns what the model reads.
    fn text(&self) -> String {
        match self {
            HostedResult::Code(ran) => ran.text.clone(),
            HostedResult::Tool(Ok(text)) => text.clone(),
            HostedResult::Tool(Err(error)) => ToolResult::failed(error.code, &error.message).text,
        }
    }
}

/// Opens the container of a request, if it asks for one and there may be any.
async fn open_container(
    gateway: &Gateway,
    owner: Owner,
    wanted: &ChatRequest,
) -> Result<Option<Arc<Container>>, Fault> {
    let (Some(choice), Some(containers)) = (wanted.container.clone(), gateway.containers.clone()) else {
        return Ok(None);
    };
    let answer = match &wanted.past {
        Past::Known(name) => Some(name.clone()),
        _ => None,
    };
    let opened = tokio::task::spawn_blocking(move || containers.choose(owner, &choice, answer.as_deref())).await;
    opened.unwrap_or_else(|error| Err(broken(&error))).map(Some)
}

fn broken(error: &dyn std::fmt::Display) -> Fault {
    Fault::new(FaultCode::InterpreterFailed, format!("the call could not be run: {error}"))
}
