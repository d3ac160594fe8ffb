use rolecall::conversation::json::Object;
use rolecall::conversation::{Json, object};

use super::field::{flag, get, list, needed_text, object, refuse_others, text, wrong};
use super::mcp_context::{McpContext, digest_of};
use super::mcp_offer::{MCP, McpOffer};
use crate::containers::ContainerChoice;
use crate::turn::hosted_calls::HostedTool;
use crate::{Fault, FaultCode};

/// The tools of a request, and which of them may be called.
#[derive(Debug)]
pub struct Tools {
    /// The tools in the shape of chat completions.
    pub chat: Vec<Json>,
    /// The choice in the shape of chat completions.
    pub chat_choice: Option<Json>,
    /// The tools as the answer repeats them.
    pub shown: Vec<Json>,
    /// Where code runs, if the request asks for a container, with the index of that tool.
    pub container: Option<(usize, ContainerChoice)>,
    /// The tools of MCP servers that may be called.
    pub hosted: Vec<HostedTool>,
    /// The lists of MCP servers' tools.
    pub lists: Vec<McpList>,
    /// The choice as the answer repeats it.
    pub shown_choice: Json,
}

/// The tools of an MCP server that a request offers.
#[derive(Clone, Debug)]
pub struct McpList {
    pub server: String,
    pub tools: Vec<Json>,
    pub digest: String,
}

/// Reads the fields `tools` and `tool_choice`.
pub fn read(tools: Option<&Json>, choice: Option<&Json>, context: &McpContext) -> Result<Tools, Fault> {
    let tools = match tools {
        None => &[],
        Some(tools) => list(tools, "tools")?,
    };
    let read = |(index, tool)| OfferedTool::read(tool, &format!("tools[{index}]"), context);
    let offered = tools.iter().enumerate().map(read).collect::<Result<Vec<OfferedTool<'_>>, Fault>>()?;
    check_names(&offered)?;
    let choice = Choice::read(choice, &offered)?;
    let is_allowed = |name: Option<&str>| match &choice {
        Choice::Allowed { names, .. } => name.is_some_and(|own| names.iter().any(|name| name == own)),
        _ => true,
    };
    let offers = || {
        offered.iter().filter_map(|tool| match tool {
            OfferedTool::Mcp(offer) => Some(offer),
            _ => None,
        })
    };
    let chat = offered.iter().flat_map(OfferedTool::to_chat);
    let list = |offer: &McpOffer| {
        let tools = offer.listed();
        McpList { server: offer.label().to_owned(), digest: digest_of(&tools), tools }
    };
    Ok(Tools {
        chat: chat.filter(|(name, _)| is_allowed(*name)).map(|(_, tool)| tool).collect(),
        hosted: offers().flat_map(McpOffer::hosted).filter(|tool| is_allowed(Some(&tool.function))).collect(),
        lists: offers().map(list).collect(),
        chat_choice: choice.to_chat(),
        shown: offered.iter().map(OfferedTool::to_json).collect(),
        container: offered.iter().enumerate().find_map(|(index, tool)| match tool {
            OfferedTool::Interpreter(container) => Some((index, container.clone()?)),
            OfferedTool::Function(_) | OfferedTool::Mcp(_) => None,
        }),
        shown_choice: choice.to_json(),
    })
}

/// Refuses tools that the model could not tell from each other.
fn check_names(offered: &[OfferedTool<'_>]) -> Result<(), Fault> {
    let mut known: Vec<&str> = Vec::new();
    for (index, tool) in offered.iter().enumerate() {
        let path = format!("tools[{index}]");
        if let OfferedTool::Mcp(offer) = tool
            && offered[..index]
                .iter()
                .any(|other| matches!(other, OfferedTool::Mcp(own) if own.label() == offer.label()))
        {
            let message = format!("{path}.server_label: the request offers the MCP server `{}` twice", offer.label());
            let help = Some("offer each server once, with all of its tools".into());
            let field = format!("{path}.server_label");
            return Err(Fault { help, ..Fault::at(&field, FaultCode::Conflict, message) });
        }
        let names = tool.names();
        let is_hosted = |name: &str| {
            offered.iter().any(|tool| matches!(tool, OfferedTool::Mcp(own) if own.functions(None).contains(&name)))
        };
        for name in names {
            if known.contains(&name) && is_hosted(name) {
                let message = format!("{path}: another tool has the name `{name}` for the model, too");
                let help = "rename the function, or leave the server's tool out with `allowed_tools`";
                return Err(Fault { help: Some(help.into()), ..Fault::at(&path, FaultCode::Conflict, message) });
            }
            known.push(name);
        }
    }
    Ok(())
}

/// The type of the code interpreter, in this API and in that of chat completions.
const INTERPRETER: &str = "code_interpreter";

/// A tool that the client offers.
enum OfferedTool<'a> {
    Function(Function<'a>),
    /// The code interpreter. Without a container, the client runs its calls.
    Interpreter(Option<ContainerChoice>),
    Mcp(McpOffer),
}

impl<'a> OfferedTool<'a> {
    fn read(tool: &'a Json, path: &str, context: &McpContext) -> Result<OfferedTool<'a>, Fault> {
        let tool = object(tool, path)?;
        match needed_text(tool, path, "type")? {
            "function" => Ok(OfferedTool::Function(Function::read(tool, path)?)),
            INTERPRETER => {
                refuse_others(tool, path, &["type", "container"])?;
                let container = get(tool, "container");
                let container = container.map(|container| read_container(container, &format!("{path}.container")));
                Ok(OfferedTool::Interpreter(container.transpose()?))
            }
            MCP => Ok(OfferedTool::Mcp(McpOffer::read(tool, path, context)?)),
            kind => {
                let path = format!("{path}.type");
                let message = format!("{path}: the gateway does not support tools of the type `{kind}`");
                let help = Some("use functions, `mcp`, or `code_interpreter` with a model that has it".into());
                Err(Fault { help, ..Fault::at(&path, FaultCode::UnsupportedTool, message) })
            }
        }
    }

    /// Returns the names by which the model calls it.
    fn names(&self) -> Vec<&str> {
        match self {
            OfferedTool::Function(function) => vec![function.name],
            OfferedTool::Interpreter(_) => Vec::new(),
            OfferedTool::Mcp(offer) => offer.functions(None),
        }
    }

    /// Returns the tools in the shape of chat completions, each with its name.
    fn to_chat(&self) -> Vec<(Option<&str>, Json)> {
        match self {
            OfferedTool::Function(function) => vec![(Some(function.name), function.to_chat())],
            OfferedTool::Interpreter(_) => vec![(None, object! { "type" => INTERPRETER }.into())],
            OfferedTool::Mcp(offer) => offer.to_chat().map(|(name, tool)| (Some(name), tool)).collect(),
        }
    }

    fn to_json(&self) -> Json {
        match self {
            OfferedTool::Function(function) => function.to_json(),
            OfferedTool::Mcp(offer) => offer.to_json(),
            OfferedTool::Interpreter(Some(ContainerChoice { id: Some(id), .. })) => {
                object! { "type" => INTERPRETER, "container" => id.as_str() }.into()
            }
            OfferedTool::Interpreter(_) => {
                object! { "type" => INTERPRETER, "container" => object! { "type" => "auto" } }.into()
            }
        }
    }
}

/// Reads where the code is to run: in a container with an id, or in any.
fn read_container(container: &Json, path: &str) -> Result<ContainerChoice, Fault> {
    let help = || Some("use {\"type\": \"auto\"} or the id of a container".into());
    if let Some(id) = container.as_str() {
        return Ok(ContainerChoice { id: Some(id.to_owned()), files: Vec::new(), path: path.to_owned() });
    }
    let Some(container) = container.as_object() else {
        return Err(Fault { help: help(), ..Fault::unsupported(path) });
    };
    let mut files = Vec::new();
    for (key, value) in container.iter() {
        let is_plain = match key {
            "type" => value.as_str() == Some("auto"),
            "file_ids" => {
                let ids = value.as_array().and_then(|ids| ids.iter().map(Json::as_str).collect::<Option<Vec<&str>>>());
                files = ids.iter().flatten().map(|id| (*id).to_owned()).collect();
                ids.is_some()
            }
            _ => value.is_null(),
        };
        if !is_plain {
            return Err(Fault { help: help(), ..Fault::unsupported(&format!("{path}.{key}")) });
        }
    }
    Ok(ContainerChoice { id: None, files, path: path.to_owned() })
}

/// A function that the client offers.
struct Function<'a> {
    name: &'a str,
    description: Option<&'a str>,
    parameters: Option<&'a Object>,
}

impl<'a> Function<'a> {
    fn read(tool: &'a Object, path: &str) -> Result<Function<'a>, Fault> {
        refuse_others(tool, path, &["type", "name", "description", "parameters", "strict"])?;
        flag(tool, path, "strict")?;
        let parameters_path = format!("{path}.parameters");
        let parameters = get(tool, "parameters").map(|parameters| object(parameters, &parameters_path)).transpose()?;
        let name = needed_text(tool, path, "name")?;
        Ok(Function { name, description: text(tool, path, "description")?, parameters })
    }

    fn fields(&self) -> Object {
        let mut function = object! { "name" => self.name };
        if let Some(description) = self.description {
            function.insert("description", description.into());
        }
        if let Some(parameters) = self.parameters {
            function.insert("parameters", parameters.clone().into());
        }
        function
    }

    /// Returns the tool in the shape of chat completions. Models were not trained on `strict`.
    fn to_chat(&self) -> Json {
        object! { "type" => "function", "function" => self.fields() }.into()
    }

    /// Returns the tool as the answer repeats it. The grammar of a call applies if one is required, not
    /// for each tool.
    fn to_json(&self) -> Json {
        let mut tool = object! { "type" => "function" };
        self.fields().iter().for_each(|(key, value)| tool.insert(key, value.clone()));
        if self.parameters.is_none() {
            tool.insert("parameters", Json::Null);
        }
        tool.insert("strict", false.into());
        tool.into()
    }
}

/// Which tools may be called.
enum Choice {
    Free,
    /// `none`, `auto` or `required`.
    Mode(String),
    /// A name, and the choice as the answer repeats it.
    Named(String, Json),
    Allowed {
        mode: String,
        names: Vec<String>,
        shown: Json,
    },
}

impl Choice {
    fn read(choice: Option<&Json>, offered: &[OfferedTool<'_>]) -> Result<Choice, Fault> {
        let Some(choice) = choice else { return Ok(Choice::Free) };
        let unknown = |path: &str, name: &str| {
            let message = format!("{path}: the request offers no tool `{name}`");
            Fault::at(path, FaultCode::WrongValue, message)
        };
        let known = |path: &str, name: &str| {
            let is_named = |tool: &OfferedTool<'_>| matches!(tool, OfferedTool::Function(own) if own.name == name);
            offered.iter().any(is_named).then(|| name.to_owned()).ok_or_else(|| unknown(path, name))
        };
        // One tool of an MCP server, or all of them.
        let of_server = |tool: &Object, path: &str| {
            refuse_others(tool, path, &["type", "server_label", "name"])?;
            let label = needed_text(tool, path, "server_label")?;
            let offer = offered.iter().find_map(|tool| match tool {
                OfferedTool::Mcp(offer) if offer.label() == label => Some(offer),
                _ => None,
            });
            let offer = offer.ok_or_else(|| unknown(&format!("{path}.server_label"), label))?;
            let name = text(tool, path, "name")?;
            let names: Vec<String> = offer.functions(name).into_iter().map(str::to_owned).collect();
            match name.filter(|_| names.is_empty()) {
                Some(name) => Err(unknown(&format!("{path}.name"), name)),
                None => Ok(names),
            }
        };
        if let Some(mode @ ("none" | "auto" | "required")) = choice.as_str() {
            return Ok(Choice::Mode(mode.to_owned()));
        }
        let expected = "\"none\", \"auto\", \"required\", a function, or allowed tools";
        let object_of_choice = choice.as_object().ok_or_else(|| match choice {
            Json::String(_) => {
                Fault::at("tool_choice", FaultCode::WrongValue, format!("tool_choice: expected {expected}"))
            }
            other => wrong("tool_choice", expected, other),
        })?;
        match needed_text(object_of_choice, "tool_choice", "type")? {
            "function" => {
                refuse_others(object_of_choice, "tool_choice", &["type", "name"])?;
                let name = needed_text(object_of_choice, "tool_choice", "name")?;
                Ok(Choice::Named(known("tool_choice.name", name)?, choice.clone()))
            }
            MCP => {
                let mut names = of_server(object_of_choice, "tool_choice")?;
                let mode = "required".to_owned();
                match (get(object_of_choice, "name"), names.pop()) {
                    (Some(_), Some(name)) => Ok(Choice::Named(name, choice.clone())),
                    (_, last) => {
                        names.extend(last);
                        Ok(Choice::Allowed { mode, names, shown: choice.clone() })
                    }
                }
            }
            "allowed_tools" => {
                refuse_others(object_of_choice, "tool_choice", &["type", "mode", "tools"])?;
                let mode = needed_text(object_of_choice, "tool_choice", "mode")?;
                if !matches!(mode, "auto" | "required") {
                    let message = "tool_choice.mode: expected \"auto\" or \"required\"";
                    return Err(Fault::at("tool_choice.mode", FaultCode::WrongValue, message));
                }
                let tools = get(object_of_choice, "tools").unwrap_or(&Json::Null);
                let read = |(index, tool): (usize, &Json)| {
                    let path = format!("tool_choice.tools[{index}]");
                    let tool = object(tool, &path)?;
                    if get(tool, "type").and_then(Json::as_str) == Some(MCP) {
                        return of_server(tool, &path);
                    }
                    refuse_others(tool, &path, &["type", "name"])?;
                    Ok(vec![known(&format!("{path}.name"), needed_text(tool, &path, "name")?)?])
                };
                let names = list(tools, "tool_choice.tools")?.iter().enumerate().map(read);
                let names = names.collect::<Result<Vec<Vec<String>>, Fault>>()?.concat();
                Ok(Choice::Allowed { mode: mode.to_owned(), names, shown: choice.clone() })
            }
            kind => {
                let message = format!("tool_choice.type: the gateway does not support `{kind}`");
                Err(Fault::at("tool_choice.type", FaultCode::UnsupportedTool, message))
            }
        }
    }

    fn to_chat(&self) -> Option<Json> {
        match self {
            Choice::Free => None,
            Choice::Mode(mode) | Choice::Allowed { mode, .. } => Some(mode.as_str().into()),
            Choice::Named(name, _) => {
                let function = object! { "name" => name.as_str() };
                Some(object! { "type" => "function", "function" => function }.into())
            }
        }
    }

    fn to_json(&self) -> Json {
        match self {
            Choice::Free => "auto".into(),
            Choice::Mode(mode) => mode.as_str().into(),
            Choice::Named(_, shown) | Choice::Allowed { shown, .. } => shown.clone(),
        }
    }
}
