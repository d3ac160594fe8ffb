use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{CallToolRequestParams, ContentBlock, Tool};
use rmcp::service::RunningService;
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{RoleClient, ServiceExt};
use rolecall::conversation::{Json, json, object};
use tokio::time::timeout;

use super::tools_file::RESERVED;
use super::{Callable, ToolError};
use crate::runtime::wait;
use crate::{Error, Stop, plain};

/// A server of the [Model Context Protocol](https://modelcontextprotocol.io): a program, or an address.
///
/// A program runs with all that this process may do. It is one that its user chose, not one that a model chose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mcp {
    name: String,
    place: Place,
    timeout: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Sandboxed { argv: Vec<String>, folder: PathBuf },
    Url(String),
}

/// A tool of a server that is connected. The connection lives as long as one of its tools.
#[derive(Debug)]
pub struct McpTool {
    name: String,
    tool: Tool,
    definition: Json,
    service: Arc<RunningService<RoleClient, ()>>,
    timeout: Duration,
}

/// The most bytes of a result that the model reads.
const MOST_TEXT: usize = 64 << 10;

impl Mcp {
    /// Returns the server that is a program. It speaks on its standard input and output.
    pub fn program(name: String, argv: Vec<String>, folder: PathBuf, timeout: Duration) -> Mcp {
        Mcp { name, place: Place::Sandboxed { argv, folder }, timeout }
    }

    /// Returns the server at an address, `http://..`, which it answers by streamable HTTP.
    pub fn at(name: String, url: String, timeout: Duration) -> Mcp {
        Mcp { name, place: Place::Url(url), timeout }
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Connects, and returns the server's tools. Each is named after the server, too: `files.read`.
    pub fn connect(&self) -> Result<Vec<Arc<McpTool>>, Error> {
        let own = self.clone();
        wait(async move {
            let failed = |why: String| Error::Tools { name: own.name.clone(), why };
            let late = || failed(format!("it did not answer within {} s", own.timeout.as_secs_f32()));
            let connected = timeout(own.timeout, own.open()).await.map_err(|_| late())?;
            let service = Arc::new(connected.map_err(failed)?);
            let tools = timeout(own.timeout, service.list_all_tools()).await.map_err(|_| late())?;
            let tools = tools.map_err(|error| failed(error.to_string()))?;
            tools.into_iter().map(|tool| own.tool(tool, &service).map_err(failed)).collect()
        })
    }

    async fn open(&self) -> Result<RunningService<RoleClient, ()>, String> {
        match &self.place {
            Place::Sandboxed { argv, folder } => {
                let mut command = tokio::process::Command::new(&argv[0]);
                command.args(&argv[1..]).current_dir(folder).kill_on_drop(true);
                let transport = TokioChildProcess::new(command).map_err(|error| error.to_string())?;
                ().serve(transport).await.map_err(|error| error.to_string())
            }
            Place::Url(url) => {
                let transport = StreamableHttpClientTransport::from_uri(url.as_str());
                ().serve(transport).await.map_err(|error| error.to_string())
            }
        }
    }

    fn tool(&self, tool: Tool, service: &Arc<RunningService<RoleClient, ()>>) -> Result<Arc<McpTool>, String> {
        let schema = serde_json::to_string(&*tool.input_schema).map_err(|error| error.to_string())?;
        let schema = json::parse(&schema).map_err(|error| error.to_string())?;
        // Models write names of letters, digits, `_` and `-`.
        let name = format!("{}_{}", self.name, tool.name)
            .replace(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-', "_");
        if RESERVED.contains(&name.as_str()) {
            return Err(format!("its tool `{}` would have the name `{name}`, which means something else", tool.name));
        }
        let mut function = object! { "name" => name.as_str() };
        if let Some(description) = &tool.description {
            function.insert("description", description.as_ref().into());
        }
        function.insert("parameters", schema);
        let definition = object! { "type" => "function", "function" => function }.into();
        Ok(Arc::new(McpTool { name, tool, definition, service: Arc::clone(service), timeout: self.timeout }))
    }
}

impl Callable for McpTool {
    fn name(&self) -> &str {
        &self.name
    }

    fn definition(&self) -> Json {
        self.definition.clone()
    }

    fn call(&self, arguments: &str, stop: &Stop) -> Result<String, ToolError> {
        let failed = |code: &'static str, message: String| ToolError { code, message };
        let arguments = serde_json::from_str(arguments).map_err(|error| failed("arguments", error.to_string()))?;
        let request = CallToolRequestParams::new(self.tool.name.clone()).with_arguments(arguments);
        let (service, stop, limit) = (Arc::clone(&self.service), stop.clone(), self.timeout);
        let answer = wait(async move {
            Ok(tokio::select! {
                answer = timeout(limit, service.call_tool(request)) => match answer {
                    Ok(answer) => answer.map_err(|error| failed("mcp", error.to_string())),
                    Err(_) => Err(failed("mcp_timeout", format!("it took longer than {} s", limit.as_secs_f32()))),
                },
                () = stop.stopped() => Err(failed("stopped", "the user stopped it".into())),
            })
        });
        let answer = answer.map_err(|error| failed(error.code(), error.to_string()))??;
        let mut text: Vec<String> = Vec::new();
        for block in &answer.content {
            text.push(match block {
                ContentBlock::Text(block) => plain(&block.text),
                ContentBlock::Image(image) => format!("[a picture of the type {}]", plain(&image.mime_type)),
                _ => "[a part that is no text]".into(),
            });
        }
        if let (true, Some(value)) = (text.is_empty(), &answer.structured_content) {
            text.push(value.to_string());
        }
        let text = cut(text.join("\n"));
        match answer.is_error {
            Some(true) => Err(failed("mcp_tool", text)),
            _ => Ok(text),
        }
    }
}

fn cut(mut text: String) -> String {
    if text.len() > MOST_TEXT {
        let end = (0..=MOST_TEXT).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        let rest = text.len() - end;
        text.truncate(end);
        text.push_str(&format!("\n[{rest} more bytes were cut; at most {MOST_TEXT} are kept]"));
    }
    text
}
