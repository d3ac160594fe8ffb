//! Values of messages and tools that cannot mean what their keys say.

use rolecall::conversation::{Json, Message, REASONING, Role, Tool};

use crate::{Fault, FaultCode};

/// Refuses messages with two texts of reasoning, with reasoning that is no text, and with calls in two forms.
pub fn check_messages(messages: &[Message]) -> Result<(), Fault> {
    let at = |index: usize, fault: Fault| Fault { message_index: u32::try_from(index).ok(), ..fault };
    if let Some((index, key)) = messages.iter().enumerate().find_map(|(at, message)| Some((at, twofold(message)?))) {
        let message = format!("messages[{index}]: it has other reasoning under another key than `{key}`");
        return Err(at(index, Fault::at(key, FaultCode::Conflict, message)));
    }
    messages.iter().enumerate().try_for_each(|(index, message)| check_types(message).map_err(|fault| at(index, fault)))
}

/// Refuses reasoning that is no text, and a call in OpenAI's old form beside those in the new one.
fn check_types(message: &Message) -> Result<(), Fault> {
    let object = message.as_object();
    if *message.role() != Role::Assistant {
        return Ok(());
    }
    let is_text = |key: &&str| object.get(key).is_none_or(|value| value.is_null() || value.as_str().is_some());
    if let Some(key) = REASONING.iter().find(|key| !is_text(key)) {
        return Err(Fault::at(key, FaultCode::WrongType, format!("{key}: expected a text")));
    }
    match object.get("function_call") {
        Some(call) if !call.is_null() && message.calls().len() > 0 => {
            let message = "function_call: the message has `tool_calls`, too";
            Err(Fault::at("function_call", FaultCode::Conflict, message))
        }
        _ => Ok(()),
    }
}

/// Returns a key of reasoning of which a message has another value under another key. Templates read one of
/// them.
fn twofold(message: &Message) -> Option<&'static str> {
    let object = message.as_object();
    let mut given = REASONING.into_iter().filter_map(|key| Some((key, object.get(key)?.as_str()?)));
    let (first, text) = given.find(|(_, text)| !text.is_empty())?;
    given.any(|(_, other)| !other.is_empty() && other != text).then_some(first)
}

/// Refuses values of a tool that mean nothing: a template may write them, or leave them out.
pub fn check_tool(index: usize, tool: &Tool) -> Result<(), Fault> {
    let (Tool::Function { wrapped, .. }, Some(function)) = (tool, tool.function()) else { return Ok(()) };
    let is_wrong = |key: &str, is_right: fn(&Json) -> bool| {
        function.get(key).is_some_and(|value| !value.is_null() && !is_right(value))
    };
    let wrong = |key: &str, wanted: &str| {
        let field = if *wrapped { format!("tools[{index}].function.{key}") } else { format!("tools[{index}].{key}") };
        Err(Fault::at(&field, FaultCode::WrongType, format!("{field}: expected {wanted}")))
    };
    if is_wrong("parameters", |value| value.as_object().is_some()) {
        return wrong("parameters", "a schema, which is an object");
    }
    if is_wrong("description", |value| value.as_str().is_some()) {
        return wrong("description", "a text");
    }
    Ok(())
}
