//! What labels a request, and changes nothing.

use rolecall::conversation::json::Object;
use rolecall::conversation::{Json, Message, Tool};

use crate::{Fault, FaultCode};

/// The keys of a request that only label it.
pub const LABELS: [&str; 4] = ["metadata", "prompt_cache_key", "safety_identifier", "user"];

/// Checks the type of a label.
pub fn check_label(key: &str, value: &Json) -> Result<(), Fault> {
    let wrong = |code: FaultCode, wanted: &str| Err(Fault::at(key, code, format!("{key}: expected {wanted}")));
    match (key, value) {
        ("metadata", Json::Object(entries)) => {
            let (most, of_key, of_value) = MOST_METADATA;
            let fits = |(key, value): (&str, &Json)| {
                key.chars().count() <= of_key && value.as_str().is_some_and(|text| text.chars().count() <= of_value)
            };
            if entries.len() <= most && entries.iter().all(fits) {
                return Ok(());
            }
            let wanted = format!(
                "at most {most} texts of at most {of_value} characters, with keys of at most {of_key} characters"
            );
            wrong(FaultCode::WrongValue, &wanted)
        }
        ("metadata", _) => wrong(FaultCode::WrongType, "an object"),
        (_, Json::String(_)) => Ok(()),
        _ => wrong(FaultCode::WrongType, "a text"),
    }
}

/// The most entries of `metadata`, and the most characters of a key and of a value. Source: OpenAI's API
/// reference.
const MOST_METADATA: (usize, usize, usize) = (16, 64, 512);

/// Checks the marks of messages, their parts, and tools.
pub fn check_cache_marks(messages: &[Message], tools: &[Tool]) -> Result<(), Fault> {
    for (index, message) in messages.iter().enumerate() {
        let object = message.as_object();
        let at = |fault: Fault| Fault { message_index: u32::try_from(index).ok(), ..fault };
        check_cache_mark(object, "").map_err(at)?;
        let parts = object.get("content").and_then(Json::as_array).unwrap_or_default().iter().enumerate();
        for (part, object) in parts.filter_map(|(part, value)| Some((part, value.as_object()?))) {
            check_cache_mark(object, &format!("content[{part}]")).map_err(at)?;
        }
    }
    for (index, tool) in tools.iter().enumerate() {
        let Tool::Function { object, wrapped } = tool else { continue };
        check_cache_mark(object, &format!("tools[{index}]"))?;
        if let (true, Some(function)) = (*wrapped, tool.function()) {
            check_cache_mark(function, &format!("tools[{index}].function"))?;
        }
    }
    Ok(())
}

/// Checks the mark of something that Anthropic's API would cache, if there is one. `field` is what has it. Source: the
/// types in its Python SDK, which have no `scope`; its command-line client sends one.
pub fn check_cache_mark(object: &Object, field: &str) -> Result<(), Fault> {
    let is_mark = |mark: &Object| {
        mark.get("type").and_then(Json::as_str) == Some("ephemeral")
            && mark.iter().all(|(key, value)| match (key, value) {
                ("type", _) | (_, Json::Null) | ("scope", Json::String(_)) => true,
                ("ttl", value) => matches!(value.as_str(), Some("5m" | "1h")),
                _ => false,
            })
    };
    match object.get("cache_control") {
        None | Some(Json::Null) => Ok(()),
        Some(Json::Object(mark)) if is_mark(mark) => Ok(()),
        Some(_) => {
            let field = if field.is_empty() { "cache_control".to_owned() } else { format!("{field}.cache_control") };
            let wanted = "the `type` \"ephemeral\", and perhaps a `ttl` of \"5m\" or \"1h\"";
            Err(Fault::at(&field, FaultCode::WrongValue, format!("{field}: expected {wanted}")))
        }
    }
}

/// Returns tools without what is not for the model: `strict`, on which none was trained, and `cache_control`.
pub fn unlabelled(tools: Vec<Tool>) -> Vec<Tool> {
    tools.into_iter().map(unlabelled_tool).collect()
}

/// Returns a tool without what is not for the model.
fn unlabelled_tool(tool: Tool) -> Tool {
    let tool = changed(tool, |function| {
        function.remove("strict");
        function.remove("cache_control");
    });
    match tool {
        Tool::Function { mut object, wrapped } => {
            object.remove("cache_control");
            Tool::Function { object, wrapped }
        }
        tool @ (Tool::CodeInterpreter | Tool::Text(_)) => tool,
    }
}

/// Changes the function of a tool.
fn changed(tool: Tool, change: impl FnOnce(&mut Object)) -> Tool {
    match tool {
        Tool::Function { mut object, wrapped: false } => {
            change(&mut object);
            Tool::Function { object, wrapped: false }
        }
        Tool::Function { mut object, wrapped: true } => {
            if let Some(Json::Object(function)) = object.get_mut("function") {
                change(function);
            }
            Tool::Function { object, wrapped: true }
        }
        tool @ (Tool::CodeInterpreter | Tool::Text(_)) => tool,
    }
}
