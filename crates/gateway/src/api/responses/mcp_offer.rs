use std::sync::Arc;

use rolecall::conversation::json::Object;
use rolecall::conversation::{Json, object};
use rolecall_interpreter::agent::{Callable as _, McpTool};

use super::field::{get, list, needed_text, object, refuse_others, unsupported, wrong};
use super::mcp_context::McpContext;
use crate::mcp_servers::McpServer;
use crate::turn::hosted_calls::HostedTool;
use crate::{Fault, FaultCode};

/// The type of the tools of a server.
pub const MCP: &str = "mcp";

/// The tools of an MCP server that a request offers.
pub struct McpOffer {
    server: Arc<McpServer>,
    /// Those that are allowed, each with whether the client is asked before it is called.
    tools: Vec<(Arc<McpTool>, bool)>,
    /// The offer as the answer repeats it.
    shown: Json,
}

impl McpOffer {
    pub fn read(tool: &Object, path: &str, context: &McpContext) -> Result<McpOffer, Fault> {
        let labels: Vec<&str> = context.servers.iter().map(|server| server.label()).collect();
        let known = match labels.is_empty() {
            true => {
                "offer functions, and run their calls; the operator names servers with the setting `tools`".to_owned()
            }
            false => format!("name one of these as `server_label`: {}", labels.join(", ")),
        };
        let with_help = |fault| Fault { help: Some(known.as_str().into()), ..fault };
        let label = needed_text(tool, path, "server_label").map_err(with_help)?;
        // What a request names is never connected to.
        if let Some(key) = ["server_url", "connector_id", "tunnel_id"].into_iter().find(|key| get(tool, key).is_some())
        {
            let field = format!("{path}.{key}");
            let message = format!("{field}: the gateway uses only MCP servers that its operator named");
            return Err(Fault { message: message.into(), ..unsupported(&field, &format!("leave it out: {known}")) });
        }
        let server = context.servers.get(label).ok_or_else(|| {
            let field = format!("{path}.server_label");
            let message = format!("{field}: the gateway has no MCP server `{label}`");
            with_help(Fault::at(&field, FaultCode::UnknownMcpServer, message))
        })?;
        refuse_others(tool, path, &["type", "server_label", "allowed_tools", "require_approval"])?;
        let all = context.lists.get(label).ok_or_else(|| {
            let message = format!("{path}: the tools of the MCP server `{label}` are not known");
            Fault::at(path, FaultCode::McpServerFailed, message)
        })?;
        let names = |filter: Option<ToolFilter>| match filter {
            Some(filter) => filter.check(all, label).map(Some),
            None => Ok(None),
        };
        let field = format!("{path}.allowed_tools");
        let allowed = get(tool, "allowed_tools").map(|value| ToolFilter::read(value, &field)).transpose()?;
        let allowed = names(allowed)?;
        let approval = ApprovalRule::read(get(tool, "require_approval"), &format!("{path}.require_approval"))?;
        let (always, never) = match approval {
            ApprovalRule::All(asks) => (None, Some(if asks { ToolFilter::none() } else { ToolFilter::default() })),
            ApprovalRule::Some { always, never } => {
                (names(always)?, Some(names(never)?.unwrap_or_else(ToolFilter::none)))
            }
        };
        let fits = |filter: &Option<ToolFilter>, tool: &McpTool| filter.as_ref().is_some_and(|own| own.fits(tool));
        let tools = all.iter().filter(|tool| allowed.is_none() || fits(&allowed, tool));
        let tools = tools.map(|tool| (Arc::clone(tool), fits(&always, tool) || !fits(&never, tool)));
        let shown = |key: &str, usual: Json| get(tool, key).cloned().unwrap_or(usual);
        let shown = object! {
            "type" => MCP, "server_label" => label, "allowed_tools" => shown("allowed_tools", Json::Null),
            "require_approval" => shown("require_approval", "always".into()),
        };
        Ok(McpOffer { server: Arc::clone(server), tools: tools.collect(), shown: shown.into() })
    }

    pub fn label(&self) -> &str {
        self.server.label()
    }

    /// Returns the offer as the answer repeats it.
    pub fn to_json(&self) -> Json {
        self.shown.clone()
    }

    /// Returns the names by which the model calls the tools: all, or that of one by the server's own name.
    pub fn functions(&self, own_name: Option<&str>) -> Vec<&str> {
        let wanted = |tool: &&(Arc<McpTool>, bool)| own_name.is_none_or(|name| tool.0.own_name() == name);
        self.tools.iter().filter(wanted).map(|(tool, _)| tool.name()).collect()
    }

    /// Returns the tools in the shape of chat completions, each with its name.
    pub fn to_chat(&self) -> impl Iterator<Item = (&str, Json)> {
        self.tools.iter().map(|(tool, _)| (tool.name(), tool.definition()))
    }

    /// Returns the tools as the item of their list has them.
    pub fn listed(&self) -> Vec<Json> {
        self.tools.iter().map(|(tool, _)| tool.listed()).collect()
    }

    /// Returns the tools for who runs their calls.
    pub fn hosted(&self) -> impl Iterator<Item = HostedTool> {
        self.tools.iter().map(|(tool, asks)| HostedTool {
            function: tool.name().to_owned(),
            server: Arc::clone(&self.server),
            name: tool.own_name().to_owned(),
            asks: *asks,
        })
    }
}

/// Some of a server's tools. One without conditions means all.
#[derive(Debug, Default)]
struct ToolFilter {
    names: Option<Vec<String>>,
    is_read_only: Option<bool>,
    path: String,
}

impl ToolFilter {
    fn none() -> ToolFilter {
        ToolFilter { names: Some(Vec::new()), ..ToolFilter::default() }
    }

    /// Reads a list of names, or an object with `tool_names` and `read_only`.
    fn read(value: &Json, path: &str) -> Result<ToolFilter, Fault> {
        let names = |value: &Json, path: &str| {
            let name =
                |name: &Json| name.as_str().map(str::to_owned).ok_or_else(|| wrong(path, "a list of texts", name));
            list(value, path)?.iter().map(name).collect::<Result<Vec<String>, Fault>>()
        };
        let mut filter = ToolFilter { path: path.to_owned(), ..ToolFilter::default() };
        let Some(conditions) = value.as_object() else {
            filter.names = Some(names(value, path)?);
            return Ok(filter);
        };
        for (key, value) in conditions.iter().filter(|(_, value)| !value.is_null()) {
            let field = format!("{path}.{key}");
            match key {
                "tool_names" => filter.names = Some(names(value, &field)?),
                "read_only" => {
                    filter.is_read_only = Some(value.as_bool().ok_or_else(|| wrong(&field, "true or false", value))?);
                }
                _ => return Err(Fault::unsupported(&field)),
            }
        }
        Ok(filter)
    }

    /// Refuses names that the server does not have.
    fn check(self, all: &[Arc<McpTool>], server: &str) -> Result<ToolFilter, Fault> {
        let has = |name: &&String| all.iter().any(|tool| tool.own_name() == **name);
        let Some(unknown) = self.names.iter().flatten().find(|name| !has(name)) else { return Ok(self) };
        let message = format!("{}: the MCP server `{server}` has no tool `{unknown}`", self.path);
        let names: Vec<&str> = all.iter().map(|tool| tool.own_name()).collect();
        let help = Some(format!("its tools are: {}", names.join(", ")).into());
        Err(Fault { help, ..Fault::at(&self.path, FaultCode::WrongValue, message) })
    }

    fn fits(&self, tool: &McpTool) -> bool {
        self.names.as_ref().is_none_or(|names| names.iter().any(|name| name == tool.own_name()))
            && self.is_read_only.is_none_or(|is_read_only| tool.is_read_only() == is_read_only)
    }
}

/// Of which calls the client is asked.
enum ApprovalRule {
    All(bool),
    /// Of those that are not named at all, it is asked, too.
    Some {
        always: Option<ToolFilter>,
        never: Option<ToolFilter>,
    },
}

impl ApprovalRule {
    fn read(value: Option<&Json>, path: &str) -> Result<ApprovalRule, Fault> {
        let expected = "\"always\", \"never\", or an object with `always` and `never`";
        let help = || Some("leave it out to be asked before every call, or send \"never\"".into());
        let value = match value {
            None => return Ok(ApprovalRule::All(true)),
            Some(Json::String(word)) => match word.as_str() {
                "always" => return Ok(ApprovalRule::All(true)),
                "never" => return Ok(ApprovalRule::All(false)),
                _ => {
                    let message = format!("{path}: expected {expected}");
                    return Err(Fault { help: help(), ..Fault::at(path, FaultCode::WrongValue, message) });
                }
            },
            Some(value) => value,
        };
        let Some(conditions) = value.as_object() else {
            return Err(Fault { help: help(), ..wrong(path, expected, value) });
        };
        refuse_others(object(value, path)?, path, &["always", "never"])?;
        let filter =
            |key: &str| get(conditions, key).map(|value| ToolFilter::read(value, &format!("{path}.{key}"))).transpose();
        Ok(ApprovalRule::Some { always: filter("always")?, never: filter("never")? })
    }
}
