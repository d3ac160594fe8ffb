//! Tools that a model cannot be offered.

use rolecall::conversation::{Message, Place, Tool};
use rolecall::grammar::ToolChoice;
use rolecall::parse::ParseOptions;
use rolecall::{Model, Request};

use super::value_types::check_tool;
use crate::{Fault, FaultCode};

/// Refuses tools of a kind with which the template fails, and tools whose calls could not be read. `request` has no
/// messages, and `choice` says which tools the model may call.
pub fn check_tools(model: &Model, request: &Request, messages: &[Message], choice: &ToolChoice) -> Result<(), Fault> {
    let Some(tools) = &request.conversation.tools else { return Ok(()) };
    if let (Some(index), true) =
        (tools.iter().position(|tool| matches!(tool, Tool::CodeInterpreter)), model.templates().is_some())
    {
        let functions = tools.iter().filter(|tool| !matches!(tool, Tool::CodeInterpreter)).cloned().collect();
        if !has_prompt(model, request, tools.clone()) && has_prompt(model, request, functions) {
            let help = Some("leave it out, or serve the model with a format that has it".into());
            return Err(Fault { help, ..Fault::unsupported(&format!("tools[{index}].type")) });
        }
    }
    tools.iter().enumerate().try_for_each(|(index, tool)| check_tool(index, tool))?;
    let may_call = !tools.is_empty() && *choice != ToolChoice::None;
    // Tools that the template does not write are refused as such.
    let context = || model.reply_context_after(request, "", ParseOptions::default());
    if may_call && !context()?.reads_calls() && are_written(model, request, messages) {
        let message = "tools: it is not known how the model writes calls, so its calls would be plain text";
        let help = Some("serve the model with a format that has calls, or set `tool_choice` to \"none\"".into());
        return Err(Fault { help, ..Fault::at("tools", FaultCode::UnsupportedParameter, message) });
    }
    Ok(())
}

/// Reports whether the prompt has the tools, as far as that is known.
fn are_written(model: &Model, request: &Request, messages: &[Message]) -> bool {
    let mut request = request.clone();
    request.conversation.messages = messages.to_vec();
    let is_of_tools = |place: &Place| place.message.is_none() && place.field.starts_with("tools");
    let prompt = model.prompt(request);
    prompt.map_or(true, |prompt| !prompt.prompt().dropped().iter().any(|dropped| is_of_tools(&dropped.place)))
}

/// Reports whether there is a prompt of tools and a short conversation.
fn has_prompt(model: &Model, request: &Request, tools: Vec<Tool>) -> bool {
    let mut request = request.clone();
    request.conversation.tools = Some(tools);
    request.conversation.messages = vec![Message::user("a")];
    model.prompt(request).is_ok()
}
