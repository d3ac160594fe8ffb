use rolecall::conversation::json::Object;
use rolecall::conversation::{Json, object};

use super::block::RequestSpot;
use crate::request::labels::check_cache_mark;
use crate::{Fault, FaultCode};

/// Translates the tools that a request offers.
pub fn read(tools: &Json) -> Result<Vec<Json>, Fault> {
    let spot = RequestSpot { field: "tools".to_owned(), message: None };
    match tools {
        Json::Null => Ok(Vec::new()),
        Json::Array(list) => {
            let own = name_of_code(tools);
            let has_interpreter = list.iter().any(is_interpreter_tool);
            let each = list.iter().enumerate().map(|(index, tool)| {
                let spot = spot.within(&format!("[{index}]"));
                let read = tool_of(tool, &spot)?;
                // The model's calls of the two could not be told apart.
                match has_interpreter && name_of(&read) == Some(own) {
                    true => {
                        Err(spot.within(".name").fault(FaultCode::Conflict, "the tool that runs code has this name"))
                    }
                    false => Ok(read),
                }
            });
            each.collect()
        }
        _ => Err(spot.fault(FaultCode::WrongType, "expected a list of tools")),
    }
}

/// The tools that run code: the type under which a request offers one, and its name in calls. The first is the one of
/// chat completions, the second Anthropic's. Anthropic's later ones have commands, which no format has.
const INTERPRETERS: [(&str, &str); 2] =
    [("code_interpreter", "code_interpreter"), ("code_execution_20250522", "code_execution")];

/// Reports whether calls of a tool that runs code have a name.
pub fn is_interpreter(name: &str) -> bool {
    INTERPRETERS.iter().any(|(_, own)| *own == name)
}

fn is_interpreter_tool(tool: &Json) -> bool {
    let kind = tool.as_object().and_then(|tool| tool.get("type")?.as_str());
    kind.is_some_and(|kind| INTERPRETERS.iter().any(|(own, _)| *own == kind))
}

/// Returns the name that calls of code have in the answer to a request with these tools.
pub fn name_of_code(tools: &Json) -> &'static str {
    let kinds = tools.as_array().unwrap_or_default().iter().filter_map(|tool| tool.as_object()?.get("type")?.as_str());
    let offered = kinds.filter_map(|kind| INTERPRETERS.iter().find(|(own, _)| *own == kind)).next();
    offered.unwrap_or(&INTERPRETERS[0]).1
}

/// Reads a tool that runs code. The client runs what the model calls.
fn interpreter(tool: &Object, name: &str, spot: &RequestSpot) -> Result<Json, Fault> {
    for (key, value) in tool.iter().filter(|(_, value)| !value.is_null()) {
        let spot = spot.within(&format!(".{key}"));
        match (key, value) {
            ("type" | "cache_control", _) | ("strict" | "defer_loading", Json::Bool(false)) => {}
            ("name", own) if own.as_str() == Some(name) => {}
            ("name", _) => return Err(spot.fault(FaultCode::WrongValue, &format!("expected {name:?}"))),
            ("allowed_callers", Json::Array(callers)) if callers.iter().all(|by| by.as_str() == Some("direct")) => {}
            (key, _) => return Err(spot.unsupported(key)),
        }
    }
    Ok(object! { "type" => "code_interpreter" }.into())
}

fn tool_of(tool: &Json, spot: &RequestSpot) -> Result<Json, Fault> {
    let tool = tool.as_object().ok_or_else(|| spot.fault(FaultCode::WrongType, "expected a tool"))?;
    check_cache_mark(tool, &spot.field)?;
    match tool.get("type").filter(|kind| !kind.is_null()).map(|kind| kind.as_str().unwrap_or("type")) {
        None | Some("custom") => {}
        Some(kind) => match INTERPRETERS.iter().find(|(own, _)| *own == kind) {
            Some((_, name)) => return interpreter(tool, name, spot),
            // The tools that Anthropic itself runs, or that its models were trained on.
            None => return Err(spot.within(".type").unsupported(kind)),
        },
    }
    let mut function = Object::new();
    for (key, value) in tool.iter().filter(|(_, value)| !value.is_null()) {
        let spot = spot.within(&format!(".{key}"));
        match (key, value) {
            ("type" | "cache_control", _) | ("strict" | "defer_loading", Json::Bool(false)) => {}
            // Inputs are always streamed.
            ("eager_input_streaming", Json::Bool(_)) => {}
            ("input_examples", Json::Array(examples)) if examples.is_empty() => {}
            ("allowed_callers", Json::Array(callers)) if callers.iter().all(|by| by.as_str() == Some("direct")) => {}
            ("name" | "description", Json::String(_)) | ("strict", Json::Bool(true)) => {
                function.insert(key, value.clone());
            }
            ("input_schema", Json::Object(_)) => function.insert("parameters", value.clone()),
            ("name" | "description", _) => return Err(spot.fault(FaultCode::WrongType, "expected a text")),
            ("input_schema", _) => return Err(spot.fault(FaultCode::WrongType, "expected an object")),
            (key, _) => return Err(spot.unsupported(key)),
        }
    }
    for (own, key) in [("name", "name"), ("parameters", "input_schema")] {
        if function.get(own).is_none() {
            return Err(spot.within(&format!(".{key}")).fault(FaultCode::MissingField, "this field is needed"));
        }
    }
    Ok(object! { "type" => "function", "function" => function }.into())
}

/// Returns the name of a translated tool.
pub fn name_of(tool: &Json) -> Option<&str> {
    tool.as_object()?.get("function")?.as_object()?.get("name")?.as_str()
}

/// Translates which tools the model must use.
pub fn choose(choice: &Json, chat: &mut Object) -> Result<(), Fault> {
    let spot = RequestSpot { field: "tool_choice".to_owned(), message: None };
    let wrong =
        || spot.fault(FaultCode::WrongValue, "expected the type \"auto\", \"any\", \"none\", or \"tool\" with a name");
    let choice = choice.as_object().ok_or_else(wrong)?;
    if let Some(name) = choice.get("name").and_then(Json::as_str).filter(|name| is_interpreter(name)) {
        let offered = chat.get("tools").and_then(Json::as_array).unwrap_or_default();
        if !offered.iter().any(|tool| name_of(tool) == Some(name)) {
            let why = "a call of the tool that runs code cannot be required";
            return Err(spot.within(".name").fault(FaultCode::UnsupportedParameter, why));
        }
    }
    let own: Json = match (choice.get("type").and_then(Json::as_str), choice.get("name").and_then(Json::as_str)) {
        (Some("auto"), None) => "auto".into(),
        (Some("any"), None) => "required".into(),
        (Some("none"), None) => "none".into(),
        (Some("tool"), Some(name)) => object! { "type" => "function", "function" => object! { "name" => name } }.into(),
        _ => return Err(wrong()),
    };
    chat.insert("tool_choice", own);
    for (key, value) in choice.iter().filter(|(_, value)| !value.is_null()) {
        match (key, value) {
            ("type" | "name", _) => {}
            ("disable_parallel_tool_use", Json::Bool(is_single)) => {
                chat.insert("parallel_tool_calls", (!is_single).into());
            }
            (key, _) => return Err(spot.within(&format!(".{key}")).unsupported(key)),
        }
    }
    Ok(())
}
