use std::sync::Arc;
use std::time::Instant;

use futures_util::future::join_all;
use rolecall_interpreter::agent::{Mcp, McpConnection, McpTool, ToolError};
use rolecall_interpreter::{Error, Stop};
use tokio::sync::Mutex;

use crate::{Fault, FaultCode, OpenFault};

/// The MCP servers that the operator named. No request can name another.
#[derive(Clone, Debug, Default)]
pub struct McpServers(Arc<[Arc<McpServer>]>);

/// One of them. It is connected when a request first needs it, and again after it has ended.
#[derive(Debug)]
pub struct McpServer {
    declared: Mcp,
    state: Mutex<ServerState>,
}

#[derive(Debug, Default)]
struct ServerState {
    connected: Option<(McpConnection, ToolList)>,
    /// When and why it could not be connected last.
    failure: Option<(Instant, Error)>,
}

/// The tools of a server.
pub type ToolList = Arc<[Arc<McpTool>]>;

impl McpServers {
    pub fn new(declared: Vec<Mcp>) -> Result<McpServers, OpenFault> {
        for (at, one) in declared.iter().enumerate() {
            if declared[..at].iter().any(|other| other.name() == one.name()) {
                return Err(OpenFault::SameServer(one.name().to_owned()));
            }
        }
        let server = |declared| Arc::new(McpServer { declared, state: Mutex::default() });
        Ok(McpServers(declared.into_iter().map(server).collect()))
    }

    pub fn get(&self, label: &str) -> Option<&Arc<McpServer>> {
        self.0.iter().find(|server| server.label() == label)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<McpServer>> {
        self.0.iter()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Ends all connections, and waits for the ends of the servers that are programs.
    pub async fn close(&self) {
        join_all(self.iter().map(|server| server.close())).await;
    }
}

impl McpServer {
    pub fn label(&self) -> &str {
        self.declared.name()
    }

    /// Returns its tools. Those who ask at the same time wait for one connection, or for its error.
    pub async fn tools(&self) -> Result<ToolList, Error> {
        let asked = Instant::now();
        let mut state = self.state.lock().await;
        if let Some(tools) = state.current() {
            return Ok(tools);
        }
        if let Some((when, error)) = &state.failure
            && *when > asked
        {
            return Err(error.clone());
        }
        let listed = self.list(state.connected.take().map(|(connection, _)| connection)).await;
        match listed {
            Ok((connection, tools)) => {
                *state = ServerState { connected: Some((connection, Arc::clone(&tools))), failure: None };
                Ok(tools)
            }
            Err(error) => {
                state.failure = Some((Instant::now(), error.clone()));
                Err(error)
            }
        }
    }

    async fn list(&self, known: Option<McpConnection>) -> Result<(McpConnection, ToolList), Error> {
        let connection = match known.filter(McpConnection::is_open) {
            Some(connection) => connection,
            None => self.declared.connect_async().await?,
        };
        let tools = connection.list_tools().await?;
        Ok((connection, tools.into()))
    }

    /// Calls a tool by the server's own name for it. A call that was sent is never sent again.
    pub async fn call(&self, name: &str, arguments: &str, stop: &Stop) -> Result<String, ToolError> {
        let tools = tokio::select! {
            tools = self.tools() => tools,
            () = stop.stopped() => return Err(ToolError { code: "stopped", message: "the client left".into() }),
        };
        let tools = tools.map_err(|error| ToolError { code: CLOSED, message: error.to_string() })?;
        let Some(tool) = tools.iter().find(|tool| tool.own_name() == name) else {
            return Err(ToolError {
                code: "unknown_tool",
                message: format!("the server has no tool `{name}` any more"),
            });
        };
        let answer = tool.call_async(arguments, stop).await;
        if answer.as_ref().is_err_and(|error| [CLOSED, LATE].contains(&error.code)) {
            self.forget(&tools).await;
        }
        answer
    }

    /// Gives up the connection of a list, so that the next use makes another.
    async fn forget(&self, tools: &ToolList) {
        let mut state = self.state.lock().await;
        if state.connected.as_ref().is_some_and(|(_, known)| Arc::ptr_eq(known, tools)) {
            state.connected = None;
        }
    }

    async fn close(&self) {
        let known = self.state.lock().await.connected.take();
        if let Some((connection, _)) = known {
            connection.close().await;
        }
    }

    /// Returns the error for a request that needs the server.
    pub fn fault(&self, error: &Error, field: &str) -> Fault {
        let help = Some("ask the operator of the gateway; its log may have what the server wrote".into());
        Fault { help, ..Fault::at(field, FaultCode::McpServerFailed, error.to_string()) }
    }
}

impl ServerState {
    /// Returns the tools, if the connection and the list are still good.
    fn current(&self) -> Option<ToolList> {
        let (connection, tools) = self.connected.as_ref()?;
        (connection.is_open() && !connection.has_changed()).then(|| Arc::clone(tools))
    }
}

/// The code of a call whose server has ended.
pub const CLOSED: &str = "mcp_closed";

/// The code of a call that took too long.
pub const LATE: &str = "mcp_timeout";
