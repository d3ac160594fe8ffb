//! A short example conversation that shows what the turns of a format look like.

use std::sync::Arc;

use rolecall_conversation::{Conversation, Role, json};
use rolecall_format::{Format, FormatPart};
use rolecall_render::{Options, Prompt, Writer};

use crate::Error;

/// Returns the richest of a few conversations that the format accepts, with its prompt, or why even
/// the plainest is refused.
pub fn example(format: &Arc<Format>) -> Result<(Conversation, Prompt), Error> {
    let writer = Writer::format(Arc::clone(format), Options::default());
    let mut last = None;
    for text in [WITH_TOOLS, WITH_SYSTEM] {
        let mut whole = read(text)?;
        if format.part == FormatPart::Reply {
            whole.messages.retain(|message| *message.role() == Role::Assistant);
            whole.tools = None;
        }
        let mut without_system = whole.clone();
        without_system.messages.retain(|message| *message.role() != Role::System);
        for conversation in [whole, without_system] {
            match writer.render(&conversation) {
                Ok(prompt) => return Ok((conversation, prompt)),
                Err(error) => last = Some(error),
            }
        }
    }
    Err(last.map_or_else(|| Error::UnknownFormat { name: format.name.clone(), near: None }, Error::from))
}

fn read(text: &str) -> Result<Conversation, Error> {
    let value = json::parse(text).map_err(rolecall_openai::Error::from)?;
    Ok(Conversation::from_json(value)?)
}

const WITH_TOOLS: &str = r#"{
  "tools": [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}],
  "messages": [
    {"role": "system", "content": "You are a helpful assistant."},
    {"role": "user", "content": "How warm is it in Paris?"},
    {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {"name": "get_weather", "arguments": {"city": "Paris"}}}]},
    {"role": "tool", "content": "22 degrees"},
    {"role": "assistant", "content": "It is 22 degrees in Paris."},
    {"role": "user", "content": "Thank you!"}
  ]}"#;

const WITH_SYSTEM: &str = r#"{"messages": [
    {"role": "system", "content": "You are a helpful assistant."},
    {"role": "user", "content": "Hello"},
    {"role": "assistant", "content": "Hello! How can I help?"},
    {"role": "user", "content": "Tell me a joke."}
  ]}"#;
