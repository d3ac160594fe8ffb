use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rmcp::model::{CallToolRequestParams, CallToolResult, ContentBlock, ResourceContents, Tool};
use rmcp::service::{ClientInitializeError, NotificationContext, RunningService};
use rmcp::transport::streamable_http_client::{StreamableHttpClientTransportConfig, StreamableHttpError};
use rmcp::transport::{DynamicTransportError, StreamableHttpClientTransport};
use rmcp::{ClientHandler, RoleClient, ServiceError, ServiceExt};
use rolecall::conversation::{Json, json, object};
use tokio::time::timeout;

use super::mcp_process::McpProcess;
use super::tools_file::RESERVED;
use super::{Callable, ToolError};
use crate::runtime::{run, wait};
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
    Url { url: String, token_variable: Option<String> },
}

/// A server that is connected. The connection lives as long as this or one of its tools.
#[derive(Clone, Debug)]
pub struct McpConnection {
    server: Mcp,
    service: Arc<Service>,
    /// Its program, if it is one. It ends after the service, which closes its standard input.
    process: Option<Arc<McpProcess>>,
}

type Service = RunningService<RoleClient, ListWatch>;

/// A tool of a server that is connected.
#[derive(Clone, Debug)]
pub struct McpTool {
    name: String,
    tool: Tool,
    definition: Json,
    connection: McpConnection,
}

/// Notes that a server says that its list of tools has changed.
#[derive(Clone, Debug, Default)]
struct ListWatch(Arc<AtomicBool>);

impl ClientHandler for ListWatch {
    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The most bytes of a result that the model reads.
const MOST_TEXT: usize = 64 << 10;

impl Mcp {
    /// Returns the server that is a program. It speaks on its standard input and output.
    pub fn program(name: String, argv: Vec<String>, folder: PathBuf, timeout: Duration) -> Mcp {
        Mcp { name, place: Place::Sandboxed { argv, folder }, timeout }
    }

    /// Returns the server at an address, `https://..` or `http://..`, which it answers by streamable HTTP. If it wants a
    /// bearer token, an environment variable has it.
    pub fn at(name: String, url: String, token_variable: Option<String>, timeout: Duration) -> Mcp {
        Mcp { name, place: Place::Url { url, token_variable }, timeout }
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Connects, and returns the server's tools. Each is named after the server, too: `files_read`.
    pub fn connect(&self) -> Result<Vec<Arc<McpTool>>, Error> {
        let own = self.clone();
        wait(async move { own.open().await?.list_tools().await })
    }

    /// Connects, for a caller that may not wait.
    pub async fn connect_async(&self) -> Result<McpConnection, Error> {
        let own = self.clone();
        run(async move { own.open().await }).await
    }

    /// Returns the name by which models call a tool of a server: they write letters, digits, `_` and `-`.
    pub fn function_name(server: &str, tool: &str) -> String {
        format!("{server}_{tool}").replace(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-', "_")
    }

    async fn open(&self) -> Result<McpConnection, Error> {
        let service = self.within_time(self.service()).await?;
        let (service, process) = service.map_err(|why| self.failed(why))?;
        Ok(McpConnection { server: self.clone(), service: Arc::new(service), process: process.map(Arc::new) })
    }

    async fn within_time<T>(&self, work: impl Future<Output = T>) -> Result<T, Error> {
        let late = |_| self.failed(format!("it did not answer within {} s", self.timeout.as_secs_f32()));
        timeout(self.timeout, work).await.map_err(late)
    }

    fn failed(&self, why: String) -> Error {
        Error::Tools { name: self.name.clone(), why }
    }

    async fn service(&self) -> Result<(Service, Option<McpProcess>), String> {
        let watch = ListWatch::default();
        match &self.place {
            Place::Sandboxed { argv, folder } => {
                let mut command = tokio::process::Command::new(&argv[0]);
                command.args(&argv[1..]).current_dir(folder);
                let (process, output, input) = McpProcess::start(command)?;
                let service = watch.serve((output, input)).await.map_err(ended)?;
                Ok((service, Some(process)))
            }
            Place::Url { url, token_variable } => {
                // Another part of the process may have installed one already.
                let _ = rustls::crypto::ring::default_provider().install_default();
                let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str());
                if let Some(variable) = token_variable {
                    let token = std::env::var(variable);
                    let token = token.map_err(|_| format!("the environment variable `{variable}` has no token"))?;
                    config = config.auth_header(token);
                }
                let transport = StreamableHttpClientTransport::from_config(config);
                Ok((watch.serve(transport).await.map_err(not_begun)?, None))
            }
        }
    }
}

/// Says why a connection to a program could not begin. One that has ended is seen where it is read or where it is written.
fn ended(error: ClientInitializeError) -> String {
    let has_ended = match &error {
        ClientInitializeError::ConnectionClosed(_) => true,
        ClientInitializeError::TransportError { error, .. } => error.error.is::<std::io::Error>(),
        _ => false,
    };
    if has_ended { "the program ended before it answered".to_owned() } else { not_begun(error) }
}

/// Says why a connection could not begin.
fn not_begun(error: ClientInitializeError) -> String {
    match error {
        ClientInitializeError::TransportError { error, .. } => of_transport(&error),
        error => error.to_string(),
    }
}

/// Says why an address was not reached, or what is wrong with its answer, without names of the SDK.
fn of_transport(error: &DynamicTransportError) -> String {
    let status = |status: u16| format!("it answered with the status {status}");
    match error.error.downcast_ref::<StreamableHttpError<reqwest::Error>>() {
        Some(StreamableHttpError::Client(error)) => {
            error.status().map_or_else(|| cause(error), |code| status(code.as_u16()))
        }
        Some(StreamableHttpError::HttpStatus(error)) => status(error.status),
        Some(StreamableHttpError::SessionExpired) => status(404),
        Some(StreamableHttpError::AuthRequired(_)) => status(401),
        Some(StreamableHttpError::InsufficientScope(_)) => status(403),
        Some(StreamableHttpError::TransportChannelClosed) => "the connection has ended".into(),
        Some(StreamableHttpError::UnexpectedContentType(kind)) => {
            let kind = kind.as_deref().map_or("no type".into(), |kind| format!("the type `{}`", plain(kind)));
            format!("its answer has {kind}, not that of JSON or of events")
        }
        Some(StreamableHttpError::UnexpectedServerResponse(said)) => {
            // The SDK has the status in a text alone.
            let code = said.strip_prefix("HTTP ").and_then(|rest| rest.get(..3)?.parse().ok());
            code.map_or_else(|| format!("its answer was not understood: {}", plain(said)), status)
        }
        Some(error) => plain(&error.to_string()),
        None => cause(&*error.error),
    }
}

/// Says why a request failed.
fn of_service(error: &ServiceError) -> String {
    match error {
        ServiceError::McpError(error) => plain(&error.message),
        ServiceError::TransportSend(error) => format!("the server cannot be used: {}", of_transport(error)),
        ServiceError::TransportClosed => "the server has ended".into(),
        ServiceError::UnexpectedResponse => "the server gave the answer to another question".into(),
        error => plain(&error.to_string()),
    }
}

fn code_of(error: &ServiceError) -> &'static str {
    match error {
        ServiceError::TransportClosed | ServiceError::TransportSend(_) => "mcp_closed",
        _ => "mcp",
    }
}

/// Returns what is at the bottom of an error: what is above it says where in the SDK it was seen.
fn cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut deepest = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
}

impl McpConnection {
    /// Asks for the server's tools.
    pub async fn list_tools(&self) -> Result<Vec<Arc<McpTool>>, Error> {
        let Mcp { name, .. } = &self.server;
        self.service.service().0.store(false, Ordering::Relaxed);
        let tools = self.server.within_time(self.service.list_all_tools()).await?;
        let tools = tools.map_err(|error| self.server.failed(of_service(&error)))?;
        let tool = |tool| self.tool(name, tool).map_err(|why| self.server.failed(why));
        tools.into_iter().map(tool).collect()
    }

    /// Ends the connection, and waits for the end of the server if it is a program.
    pub async fn close(&self) {
        self.service.cancellation_token().cancel();
        if let Some(process) = &self.process {
            process.end().await;
        }
    }

    /// Reports whether the server can be reached, as far as is known.
    pub fn is_open(&self) -> bool {
        !self.service.is_closed() && !self.service.is_transport_closed()
    }

    /// Reports whether the server says that its tools have changed since they were listed.
    pub fn has_changed(&self) -> bool {
        self.service.service().0.load(Ordering::Relaxed)
    }

    fn tool(&self, server: &str, tool: Tool) -> Result<Arc<McpTool>, String> {
        let name = Mcp::function_name(server, &tool.name);
        if RESERVED.contains(&name.as_str()) {
            return Err(format!("its tool `{}` would have the name `{name}`, which means something else", tool.name));
        }
        let mut function = object! { "name" => name.as_str() };
        if let Some(description) = &tool.description {
            function.insert("description", description.as_ref().into());
        }
        function.insert("parameters", to_json(serde_json::to_string(&*tool.input_schema))?);
        let definition = object! { "type" => "function", "function" => function }.into();
        Ok(Arc::new(McpTool { name, tool, definition, connection: self.clone() }))
    }
}

impl McpTool {
    /// Returns the name that the server gives it.
    pub fn own_name(&self) -> &str {
        &self.tool.name
    }

    /// Returns the connection to its server.
    pub fn connection(&self) -> &McpConnection {
        &self.connection
    }

    /// Reports whether the server says that it changes nothing.
    pub fn is_read_only(&self) -> bool {
        self.tool.annotations.as_ref().and_then(|own| own.read_only_hint) == Some(true)
    }

    /// Returns what the server says of it, as an object: `name`, `description`, `input_schema` and `annotations`.
    pub fn listed(&self) -> Json {
        let annotations = self.tool.annotations.as_ref().and_then(|own| to_json(serde_json::to_string(own)).ok());
        let schema = self.definition.as_object().and_then(|own| own.get("function")?.as_object()?.get("parameters"));
        object! {
            "name" => self.own_name(),
            "description" => self.tool.description.as_deref().map_or(Json::Null, Json::from),
            "input_schema" => schema.cloned().unwrap_or(Json::Null),
            "annotations" => annotations.unwrap_or(Json::Null),
        }
        .into()
    }

    /// Calls it, for a caller that may not wait. A caller that leaves cancels the call.
    pub async fn call_async(&self, arguments: &str, stop: &Stop) -> Result<String, ToolError> {
        let limit = self.connection.server.timeout;
        let arguments = serde_json::from_str(arguments).map_err(|error| failed("arguments", error.to_string()))?;
        let request = CallToolRequestParams::new(self.tool.name.clone()).with_arguments(arguments);
        let answer = tokio::select! {
            answer = timeout(limit, self.connection.service.call_tool(request)) => match answer {
                Ok(Ok(answer)) => answer,
                Ok(Err(error)) => return Err(failed(code_of(&error), of_service(&error))),
                Err(_) => return Err(failed("mcp_timeout", format!("it took longer than {} s", limit.as_secs_f32()))),
            },
            () = stop.stopped() => return Err(failed("stopped", "the user stopped it".into())),
        };
        to_text(&answer)
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
        let (tool, arguments, stop) = (self.clone(), arguments.to_owned(), stop.clone());
        let answer = wait(async move { Ok(tool.call_async(&arguments, &stop).await) });
        answer.map_err(|error| failed(error.code(), error.to_string()))?
    }
}

fn failed(code: &'static str, message: String) -> ToolError {
    ToolError { code, message }
}

fn to_json(written: serde_json::Result<String>) -> Result<Json, String> {
    let text = written.map_err(|error| error.to_string())?;
    json::parse(&text).map_err(|error| error.to_string())
}

/// Returns what the model reads of a result.
fn to_text(answer: &CallToolResult) -> Result<String, ToolError> {
    let mut text: Vec<String> = Vec::new();
    for block in &answer.content {
        text.push(match block {
            ContentBlock::Text(block) => plain(&block.text),
            ContentBlock::Image(image) => format!("[a picture of the type {}]", plain(&image.mime_type)),
            ContentBlock::Audio(audio) => format!("[a sound of the type {}]", plain(&audio.mime_type)),
            ContentBlock::Resource(block) => match &block.resource {
                ResourceContents::TextResourceContents { uri, text, .. } => {
                    format!("[{}]\n{}", plain(uri), plain(text))
                }
                ResourceContents::BlobResourceContents { uri, .. } => format!("[{} is no text]", plain(uri)),
                _ => "[a part that is no text]".into(),
            },
            ContentBlock::ResourceLink(link) => {
                let name = link.title.as_ref().unwrap_or(&link.name);
                let about = link.description.as_ref().map_or(String::new(), |about| format!(": {}", plain(about)));
                format!("[{} is at {}{about}]", plain(name), plain(&link.uri))
            }
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

fn cut(mut text: String) -> String {
    if text.len() > MOST_TEXT {
        let end = (0..=MOST_TEXT).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        let rest = text.len() - end;
        text.truncate(end);
        text.push_str(&format!("\n[{rest} more bytes were cut; at most {MOST_TEXT} are kept]"));
    }
    text
}
