//! Keys of tools that the model's template does not read: a key with a typing error would leave a tool without its
//! parameters.

use rolecall::conversation::{Json, Message, Place, Tool};
use rolecall::grammar::ToolChoice;
use rolecall::parse::ParseOptions;
use rolecall::{Model, Request};

use crate::turn::sessions::chain::says_nothing;
use crate::{Fault, FaultCode};

/// The most other keys that are tried for a request.
const MOST_TRIED: usize = 32;

/// A key that is not one of OpenAI's API.
struct Other<'a> {
    /// Whether it is a key of the function, and not of what wraps it.
    is_of_function: bool,
    key: &'a str,
    /// The place of the first one.
    field: String,
}

/// Reports whether the prompt has the tools, as far as that is known.
fn are_written(model: &Model, request: &Request, messages: &[Message]) -> bool {
    let mut request = request.clone();
    request.conversation.messages = messages.to_vec();
    let is_of_tools = |place: &Place| place.message.is_none() && place.field.starts_with("tools");
    let prompt = model.prompt(request);
    prompt.map_or(true, |prompt| !prompt.prompt().dropped().iter().any(|dropped| is_of_tools(&dropped.place)))
}

/// Refuses tools that are texts, as in LMFlow's data sets: OpenAI's API has only objects.
pub fn refuse_texts(tools: &[Tool]) -> Result<(), Fault> {
    let Some(index) = tools.iter().position(|tool| matches!(tool, Tool::Text(_))) else { return Ok(()) };
    let field = format!("tools[{index}]");
    let message =
        format!("{field}: expected a tool such as {{\"type\": \"function\", \"function\": {{..}}}}, found a string");
    Err(Fault::at(&field, FaultCode::WrongType, message))
}

/// Refuses other keys of tools that say something and do not change the prompt, and tools of a kind with which the
/// template fails. `request` has no messages, and `choice` says which tools the model may call.
pub fn refuse_unread_of_tools(
    model: &Model,
    request: &Request,
    messages: &[Message],
    choice: &ToolChoice,
) -> Result<(), Fault> {
    let Some(tools) = &request.conversation.tools else { return Ok(()) };
    if let (Some(index), true) =
        (tools.iter().position(|tool| matches!(tool, Tool::CodeInterpreter)), model.templates().is_some())
    {
        let functions = tools.iter().filter(|tool| !matches!(tool, Tool::CodeInterpreter)).cloned().collect();
        if prompt(model, request, tools.clone()).is_none() && prompt(model, request, functions).is_some() {
            let help = Some("leave it out, or serve the model with a format that has it".into());
            return Err(Fault { help, ..Fault::unsupported(&format!("tools[{index}].type")) });
        }
    }
    tools.iter().enumerate().try_for_each(|(index, tool)| check_types(index, tool))?;
    let may_call = !tools.is_empty() && *choice != ToolChoice::None;
    // Tools that the template does not write are refused as such.
    let context = || model.reply_context_after(request, "", ParseOptions::default());
    if may_call && !context()?.reads_calls() && are_written(model, request, messages) {
        let message = "tools: it is not known how the model writes calls, so its calls would be plain text";
        let help = Some("serve the model with a format that has calls, or set `tool_choice` to \"none\"".into());
        return Err(Fault { help, ..Fault::at("tools", FaultCode::UnsupportedParameter, message) });
    }
    let others = others(tools);
    if others.is_empty() {
        return Ok(());
    }
    if let Some(other) = others.get(MOST_TRIED) {
        let message =
            format!("{}: the tools have more than {MOST_TRIED} keys that OpenAI's API does not have", other.field);
        return Err(Fault::at(&other.field, FaultCode::TooManyKeys, message));
    }
    let whole = prompt(model, request, tools.clone());
    for other in &others {
        let without = tools.iter().map(|tool| without(tool, other)).collect();
        // A template that fails without the key reads it.
        let is_read = whole.is_some() && prompt(model, request, without) != whole;
        if !is_read {
            return Err(Fault::unsupported(&other.field));
        }
    }
    Ok(())
}

/// Refuses values of a tool that mean nothing: a template may write them, or leave them out.
fn check_types(index: usize, tool: &Tool) -> Result<(), Fault> {
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

/// Returns the other keys, up to one more than are tried.
fn others(tools: &[Tool]) -> Vec<Other<'_>> {
    let mut others: Vec<Other<'_>> = Vec::new();
    for (index, tool) in tools.iter().enumerate() {
        let Tool::Function { object, wrapped } = tool else { continue };
        let wrapper = wrapped.then_some((object, false));
        let function = tool.function().map(|function| (function, true));
        for (object, is_of_function) in wrapper.into_iter().chain(function) {
            for (key, value) in object.iter() {
                let is_usual = match is_of_function {
                    true => ["name", "description", "parameters"].contains(&key) || !wrapped && key == "type",
                    false => ["type", "function"].contains(&key),
                };
                let says_more = !says_nothing(value) && value.as_bool() != Some(false);
                let is_known = |other: &Other<'_>| other.is_of_function == is_of_function && other.key == key;
                if is_usual || !says_more || others.iter().any(is_known) {
                    continue;
                }
                let within = if is_of_function && *wrapped { "function." } else { "" };
                others.push(Other { is_of_function, key, field: format!("tools[{index}].{within}{key}") });
                if others.len() > MOST_TRIED {
                    return others;
                }
            }
        }
    }
    others
}

fn without(tool: &Tool, other: &Other<'_>) -> Tool {
    let mut tool = tool.clone();
    if let Tool::Function { object, wrapped } = &mut tool {
        match (other.is_of_function && *wrapped, object.get_mut("function")) {
            (true, Some(Json::Object(function))) => drop(function.remove(other.key)),
            _ => drop(object.remove(other.key)),
        }
    }
    tool
}

/// Returns the prompt of tools and a short conversation, or `None` if the template refuses them.
fn prompt(model: &Model, request: &Request, tools: Vec<Tool>) -> Option<String> {
    let mut request = request.clone();
    request.conversation.tools = Some(tools);
    request.conversation.messages = vec![Message::user("a")];
    Some(model.prompt(request).ok()?.text().to_owned())
}
