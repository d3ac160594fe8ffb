//! The forms of messages and tools that a model's templates write.

use std::sync::OnceLock;

use rolecall::conversation::json::Object;
use rolecall::conversation::{Json, Message, Part, Role, Tool, object};
use rolecall::{Model, Prompt, Request};

use crate::Fault;
use crate::call_forms::CallForms;
use crate::content_forms::ContentForms;

/// Knows which forms the templates of a model write. Each is found out when the first message of it comes.
#[derive(Debug, Default)]
pub struct Forms {
    contents: ContentForms,
    calls: CallForms,
    renames_developers: OnceLock<bool>,
    fills_tools: OnceLock<bool>,
}

impl Forms {
    /// Returns the messages in forms that the model's templates write, with the same meaning. `before` are those
    /// before them, as far as they are known.
    pub fn written<'a>(
        &self,
        model: &Model,
        has_tools: bool,
        before: impl Iterator<Item = &'a Message>,
        mut messages: Vec<Message>,
    ) -> Result<Vec<Message>, Fault> {
        let has_template = model.templates().is_some();
        messages.iter().enumerate().try_for_each(|(index, message)| refuse_media(index, message, has_template))?;
        if !has_template {
            return Ok(messages);
        }
        for message in messages.iter_mut().filter(|message| message.as_object().iter().any(is_idle)) {
            *message = without_idle(message);
        }
        if messages.iter().any(is_developer) && *self.renames_developers.get_or_init(|| must_rename(model)) {
            for message in messages.iter_mut().filter(|message| is_developer(message)) {
                *message = with(message, "role", Role::System.name().into());
            }
        }
        self.contents.write(model, has_tools, &mut messages)?;
        self.calls.write(has_tools, &|| self.contents.trial(model, has_tools), before, &mut messages);
        Ok(messages)
    }

    /// Reports whether the model's templates write replies as sessions have them.
    pub fn writes_replies(&self, model: &Model, has_tools: bool) -> bool {
        model.templates().is_none() || self.contents.writes_replies(model, has_tools)
    }

    /// Returns a short conversation that the model's templates write.
    pub fn short(&self, model: &Model) -> Vec<Message> {
        let user = self.contents.trial(model, true).user;
        Message::from_object(user).into_iter().collect()
    }

    /// Returns the tools with the descriptions and parameters that they lack, if the template cannot write a
    /// tool without. It never writes `strict`, on which no model was trained, nor `cache_control`.
    pub fn written_tools(&self, model: &Model, tools: Vec<Tool>) -> Vec<Tool> {
        let tools: Vec<Tool> = tools.into_iter().map(unlabelled).collect();
        let lacks = |tool: &Tool| {
            tool.function().is_some_and(|function| !(has(function, "description") && has(function, "parameters")))
        };
        let fills = model.templates().is_some()
            && tools.iter().any(lacks)
            && *self.fills_tools.get_or_init(|| must_fill_tools(model));
        if !fills {
            return tools;
        }
        tools.into_iter().map(|tool| changed(tool, fill)).collect()
    }
}

fn has(function: &Object, key: &str) -> bool {
    function.get(key).is_some_and(|value| !value.is_null())
}

/// Adds what a tool lacks. Source of the parameters: OpenAI's API reference, "Omitting `parameters` defines a
/// function with an empty parameter list".
fn fill(function: &mut Object) {
    if !has(function, "description") {
        function.insert("description", "".into());
    }
    if !has(function, "parameters") {
        function.insert("parameters", object! { "type" => "object", "properties" => Object::new() }.into());
    }
}

/// Returns a tool without what is not for the model.
fn unlabelled(tool: Tool) -> Tool {
    let tool = changed(tool, |function| {
        function.remove("strict");
        function.remove("cache_control");
    });
    match tool {
        Tool::Function { mut object, wrapped } => {
            object.remove("cache_control");
            Tool::Function { object, wrapped }
        }
        tool @ Tool::CodeInterpreter => tool,
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
        Tool::CodeInterpreter => Tool::CodeInterpreter,
    }
}

/// Reports whether the template fails with a tool that has only a name.
fn must_fill_tools(model: &Model) -> bool {
    let named = || object! { "name" => "f" };
    let mut whole = named();
    fill(&mut whole);
    let is_written = |function: Object| {
        let tool = object! { "type" => "function", "function" => function };
        let user = object! { "role" => "user", "content" => "a" };
        prompt_of_body(model, object! { "messages" => vec![Json::from(user)], "tools" => vec![Json::from(tool)] })
            .is_some()
    };
    !is_written(named()) && is_written(whole)
}

/// Refuses what an engine that gets ids cannot see, whatever a template writes for it. Some formats have a
/// place for the name of a file, and templates have none.
fn refuse_media(index: usize, message: &Message, has_template: bool) -> Result<(), Fault> {
    let is_media = |part: &Part<'_>| match part {
        Part::Text(_) => false,
        Part::File(_) => has_template,
        Part::Image(_) | Part::Audio(_) | Part::Video(_) => true,
    };
    let Some((at, part)) = message.parts().enumerate().find(|(_, part)| is_media(part)) else { return Ok(()) };
    let kind = part.kind();
    let message = format!("messages[{index}]: the gateway does not support {kind} parts");
    let help = Some("send text only".into());
    let fault = Fault::at(&format!("content[{at}]"), "unsupported_parameter", message);
    Err(Fault { message_index: u32::try_from(index).ok(), help, ..fault })
}

/// Reports whether a key of a message is there and says nothing, as clients write it that send all keys. Some templates
/// ask only whether it is there.
fn is_idle((key, value): (&str, &Json)) -> bool {
    match key {
        "role" | "content" => false,
        "tool_calls" => value.is_null() || value.as_array().is_some_and(<[Json]>::is_empty),
        _ => value.is_null(),
    }
}

/// Returns a message without the keys that say nothing.
fn without_idle(message: &Message) -> Message {
    let mut object = Object::new();
    let said = message.as_object().iter().filter(|entry| !is_idle(*entry));
    said.for_each(|(key, value)| object.insert(key, value.clone()));
    Message::from_object(object).unwrap_or_else(|_| message.clone())
}

/// Reports whether the role is OpenAI's newer name for `system`.
fn is_developer(message: &Message) -> bool {
    *message.role() == Role::System && role_of(message) == "developer"
}

/// Reports whether the template leaves the developer's message out, or refuses it.
fn must_rename(model: &Model) -> bool {
    let messages =
        |role: &str| vec![object! { "role" => role, "content" => "a" }, object! { "role" => "user", "content" => "b" }];
    let leaves_out = |prompt: &Prompt| prompt.dropped().iter().any(|dropped| dropped.place.message == Some(0));
    prompt_of(model, messages("developer")).is_none_or(|prompt| leaves_out(&prompt))
}

/// Returns the prompt of messages that a template is tried with.
fn prompt_of(model: &Model, messages: Vec<Object>) -> Option<Prompt> {
    let messages: Vec<Json> = messages.into_iter().map(Json::from).collect();
    prompt_of_body(model, object! { "messages" => messages })
}

/// A model that is tried with messages, with a tool or without.
pub struct Trial<'a> {
    pub model: &'a Model,
    pub has_tools: bool,
    /// A message of the user in a form that the templates write.
    pub user: Object,
}

impl Trial<'_> {
    /// Returns the prompt of messages.
    pub fn prompt(&self, messages: Vec<Object>) -> Option<Prompt> {
        if !self.has_tools {
            return prompt_of(self.model, messages);
        }
        let messages: Vec<Json> = messages.into_iter().map(Json::from).collect();
        let mut function = object! { "name" => "f" };
        fill(&mut function);
        let tool = object! { "type" => "function", "function" => function };
        prompt_of_body(self.model, object! { "messages" => messages, "tools" => vec![Json::from(tool)] })
    }
}

fn prompt_of_body(model: &Model, body: Object) -> Option<Prompt> {
    Some(model.prompt(Request::from_json(body.into()).ok()?).ok()?.into_prompt())
}

/// Returns the texts of a content's parts with a line break between them, if all of them are text. Engines join
/// them in the same way.
pub fn joined_text(message: &Message) -> Option<String> {
    let text_of = |part: Part<'_>| match part {
        Part::Text(text) => Some(text.to_owned()),
        _ => None,
    };
    message.parts().map(text_of).collect::<Option<Vec<String>>>().map(|texts| texts.join("\n"))
}

/// Returns the role as the message spells it.
pub fn role_of(message: &Message) -> &str {
    message.as_object().get("role").and_then(Json::as_str).unwrap_or_default()
}

/// Returns a text as a content in parts.
pub fn part(text: &str) -> Json {
    vec![Json::from(object! { "type" => "text", "text" => text })].into()
}

/// Returns a message with another value of a key.
pub fn with(message: &Message, key: &str, value: Json) -> Message {
    let mut object = message.as_object().clone();
    object.insert(key, value);
    Message::from_object(object).unwrap_or_else(|_| message.clone())
}

#[cfg(test)]
pub mod tests {
    use rolecall::conversation::{Message, json};

    use super::refuse_media;

    pub fn message(content: &str) -> Message {
        let text = format!(r#"{{"role": "user", "content": {content}, "name": "ann"}}"#);
        Message::from_object(json::parse(&text).unwrap().as_object().unwrap().clone()).unwrap()
    }

    #[test]
    fn what_no_engine_sees_is_refused() {
        let file = message(r#"[{"type": "text", "text": "a"}, {"type": "file", "file": {"path": "b"}}]"#);
        assert_eq!(refuse_media(0, &file, false), Ok(()));
        assert!(refuse_media(0, &file, true).is_err());
        for kind in ["image_url", "input_audio", "video_url"] {
            let media = message(&format!(r#"[{{"type": "text", "text": "a"}}, {{"type": "{kind}", "{kind}": {{}}}}]"#));
            let fault = refuse_media(3, &media, false).unwrap_err();
            assert_eq!((fault.param.as_deref(), fault.message_index), (Some("content[1]"), Some(3)), "{kind}");
        }
    }
}
