//! A short example conversation that shows what the turns of a format look like.

use rolecall::Prompt;
use rolecall::conversation::{Conversation, Role};
use rolecall::format::{Format, FormatPart};
use rolecall::render::{Options, render};
use rolecall_conversation::Error;

use crate::explain::{Explained, View, draw_terminal};
use crate::paint::Paint;

/// Draws an example of a format's turns, or returns why even the plainest conversation is refused.
pub fn draw_example(format: &Format, paint: Paint, width: Option<usize>) -> Result<String, rolecall::Error> {
    let (conversation, prompt) = fill_example(format)?;
    let explained = Explained {
        conversation: &conversation,
        format,
        prompt: &prompt,
        tokens: None,
        notes: &[],
        added: &[],
        loss: None,
    };
    let mut drawn = Vec::new();
    draw_terminal(&View::new(explained), paint, width, &mut drawn).expect("writing to memory does not fail");
    Ok(String::from_utf8_lossy(&drawn).into_owned())
}

/// Returns the richest of a few conversations that the format accepts, with its prompt, or why even
/// the plainest is refused.
pub fn fill_example(format: &Format) -> Result<(Conversation, Prompt), rolecall::Error> {
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
            match render(&conversation, format, &Options::default()) {
                Ok(prompt) => return Ok((conversation, prompt)),
                Err(error) => last = Some(error),
            }
        }
    }
    Err(last.map_or_else(
        || rolecall::Error::UnknownFormat { name: format.name.clone(), near: None },
        rolecall::Error::from,
    ))
}

fn read(text: &str) -> Result<Conversation, rolecall::Error> {
    let value = rolecall::conversation::json::parse(text).map_err(rolecall_openai::Error::from)?;
    Ok(Conversation::from_json(value).map_err(|error: Error| error)?)
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
