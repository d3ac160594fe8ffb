use rolecall::conversation::json::Object;
use rolecall::conversation::{Json, object};

use super::block::{self, Block, RequestSpot};
use super::tools;
use crate::{Fault, FaultCode};

/// The messages of a request in the shape of chat completions.
#[derive(Default)]
pub struct History {
    pub messages: Vec<Json>,
    pub sources: Sources,
    /// Whether the model goes on with the last message.
    pub goes_on: bool,
}

/// The indexes that the messages have in the client's request. The system prompt has none.
#[derive(Default)]
pub struct Sources(Vec<Option<usize>>);

impl Sources {
    /// Returns a fault with the message and the field as the client's request has them.
    pub fn placed(&self, fault: Fault) -> Fault {
        let index = fault.message_index.and_then(|index| usize::try_from(index).ok());
        let source = index.and_then(|index| self.0.get(index));
        let message_index = source.copied().flatten().and_then(|index| u32::try_from(index).ok());
        let param = match (&fault.param, source) {
            (_, Some(None)) => Some("system".into()),
            (Some(param), _) => Some(own_name(param).into()),
            (None, _) => None,
        };
        Fault { message_index, param, ..fault }
    }
}

/// Returns the name of a field of chat completions in this API.
fn own_name(field: &str) -> String {
    if field == "stop" {
        return "stop_sequences".to_owned();
    }
    if field.starts_with("response_format") {
        return "output_config.format".to_owned();
    }
    field.replace(".function.parameters", ".input_schema").replace(".function", "")
}

impl History {
    pub fn add_system(&mut self, system: &Json) -> Result<(), Fault> {
        let text = block::text_of(system, &RequestSpot { field: "system".to_owned(), message: None })?;
        self.push(object! { "role" => "system", "content" => text }, None);
        Ok(())
    }

    /// Adds all messages.
    pub fn add(&mut self, messages: &[Json], offered: &[Json]) -> Result<(), Fault> {
        for (index, message) in messages.iter().enumerate() {
            let spot = |field: &str| RequestSpot { field: field.to_owned(), message: Some(index) };
            let wrong = || spot("messages").fault(FaultCode::WrongType, "expected a message with `role` and `content`");
            let message = message.as_object().ok_or_else(wrong)?;
            if let Some((key, _)) = message.iter().find(|(key, _)| !matches!(*key, "role" | "content")) {
                return Err(spot(key).unsupported(key));
            }
            let content = message.get("content").ok_or_else(wrong)?;
            let content_spot = spot("content");
            match message.get("role").and_then(Json::as_str) {
                Some("user") => self.add_user(block::read(content, &content_spot)?, &content_spot)?,
                Some("assistant") => {
                    let said = said(&block::read(content, &content_spot)?, &content_spot, offered)?;
                    self.push(said, Some(index));
                    self.goes_on = index + 1 == messages.len();
                }
                Some("system") => {
                    let text = block::text_of(content, &content_spot)?;
                    self.push(object! { "role" => "system", "content" => text }, Some(index));
                }
                _ => {
                    let why = "expected \"user\", \"assistant\" or \"system\"";
                    return Err(spot("role").fault(FaultCode::WrongValue, why));
                }
            }
        }
        Ok(())
    }

    /// Adds the messages that a user's message is: results of tools, and the texts between them.
    fn add_user(&mut self, blocks: Vec<Block<'_>>, spot: &RequestSpot) -> Result<(), Fault> {
        let is_empty = blocks.is_empty();
        let mut open: Option<String> = is_empty.then(String::new);
        for (index, block) in blocks.into_iter().enumerate() {
            match block {
                Block::Text(text) => open.get_or_insert_default().push_str(text),
                Block::Result { id, text } => {
                    self.push_user(&mut open, spot);
                    let result = object! { "role" => "tool", "tool_call_id" => id, "content" => text };
                    self.push(result, spot.message);
                }
                Block::Thinking(_) | Block::Use { .. } => {
                    let spot = spot.within(&format!("[{index}].type"));
                    return Err(spot.fault(FaultCode::WrongValue, "a user's message has no such block"));
                }
            }
        }
        self.push_user(&mut open, spot);
        Ok(())
    }

    fn push_user(&mut self, open: &mut Option<String>, spot: &RequestSpot) {
        if let Some(text) = open.take() {
            self.push(object! { "role" => "user", "content" => text }, spot.message);
        }
    }

    fn push(&mut self, message: Object, source: Option<usize>) {
        self.messages.push(message.into());
        self.sources.0.push(source);
    }
}

/// Returns a message of the model, in the spelling in which its own replies are kept.
fn said(blocks: &[Block<'_>], spot: &RequestSpot, offered: &[Json]) -> Result<Object, Fault> {
    let (mut text, mut reasoning, mut calls) = (String::new(), None::<String>, Vec::new());
    for (index, block) in blocks.iter().enumerate() {
        match block {
            Block::Text(more) => text.push_str(more),
            Block::Thinking(more) => reasoning.get_or_insert_default().push_str(more),
            Block::Use { id, name, input } => calls.push(call(id, name, input, offered).into()),
            Block::Result { .. } => {
                let spot = spot.within(&format!("[{index}].type"));
                return Err(spot.fault(FaultCode::WrongValue, "an assistant's message has no such block"));
            }
        }
    }
    let mut message = object! { "role" => "assistant", "content" => text };
    if let Some(reasoning) = reasoning.filter(|reasoning| !reasoning.is_empty()) {
        message.insert("reasoning_content", reasoning.into());
    }
    if !calls.is_empty() {
        message.insert("tool_calls", Json::Array(calls));
    }
    Ok(message)
}

/// Returns a call of the model. Code for the interpreter has the name of a tool, unless the client offers a function
/// of that name.
fn call(id: &str, name: &str, input: &Object, offered: &[Json]) -> Object {
    let is_offered = || offered.iter().any(|tool| tools::name_of(tool) == Some(name));
    if let (true, 1, Some(code)) = (tools::is_interpreter(name), input.len(), input.get("code").and_then(Json::as_str))
        && !is_offered()
    {
        let input = object! { "input" => code };
        return object! { "id" => id, "type" => "code_interpreter", "code_interpreter" => input };
    }
    // The template writes them in its own spelling.
    let function = object! { "name" => name, "arguments" => input.clone() };
    object! { "id" => id, "type" => "function", "function" => function }
}
