//! The messages, tools and settings of a request, gathered from harmony's messages.

use std::collections::{HashMap, VecDeque};

use rolecall_conversation::json::Object;
use rolecall_conversation::{Json, object};
use rolecall_openai::Error;

use super::super::{Draft, FieldOrigin, Origins};

/// A request as far as it was read.
#[derive(Default)]
pub(super) struct GatheredMessages {
    messages: Vec<Json>,
    origins: Vec<Vec<FieldOrigin>>,
    /// The assistant's message that further messages of harmony's add to.
    turn: Option<AssistantTurn>,
    tools: Vec<Json>,
    /// The path of each tool.
    tool_paths: Vec<String>,
    /// The switches of the template, each with its path.
    switches: Vec<(&'static str, Json, String)>,
    /// The date of the conversation, with its path.
    date: Option<(String, String)>,
    /// What has no place in a request, by path.
    unread: Vec<(String, Json)>,
    /// The number of calls so far.
    calls: usize,
    /// The ids of the calls without a result, by name.
    unanswered: HashMap<String, VecDeque<String>>,
}

/// An assistant's message: reasoning, then text, then calls. Each may be missing.
#[derive(Default)]
struct AssistantTurn {
    reasoning: Option<String>,
    content: Option<String>,
    calls: Vec<Json>,
    others: Object,
    origins: Vec<FieldOrigin>,
}

/// What a message of the assistant's is.
pub(super) enum MessageKind {
    Reasoning,
    Content,
    Call(Call),
}

/// A call without its arguments.
pub(super) struct Call {
    pub name: String,
    pub recipient: String,
    pub is_code: bool,
}

impl GatheredMessages {
    /// Adds a message that is complete.
    pub(super) fn push(&mut self, message: Object, origins: Vec<FieldOrigin>) {
        self.close_turn();
        self.messages.push(Json::Object(message));
        self.origins.push(origins);
    }

    /// Forgets the calls without a result: the user speaks again.
    pub(super) fn begin_turn(&mut self) {
        self.unanswered.clear();
    }

    /// Returns the id of the first call of this name that has no result yet.
    pub(super) fn answer(&mut self, name: &str) -> Option<String> {
        self.unanswered.get_mut(name)?.pop_front()
    }

    /// Adds what the assistant says to its message. Begins another message where the order would
    /// change: a message has its reasoning before its text, and its text before its calls.
    pub(super) fn say(&mut self, said: MessageKind, text: String, text_path: String, path: &str, others: Object) {
        let continues = self.turn.as_ref().is_some_and(|turn| {
            turn.others == others
                && match said {
                    MessageKind::Reasoning | MessageKind::Content => turn.content.is_none() && turn.calls.is_empty(),
                    MessageKind::Call(_) => true,
                }
        });
        if !continues {
            self.close_turn();
        }
        let new =
            || AssistantTurn { others, origins: vec![FieldOrigin::whole(path.to_owned())], ..AssistantTurn::default() };
        let turn = self.turn.get_or_insert_with(new);
        match said {
            MessageKind::Reasoning => {
                // Parsing joins the reasoning of a reply in the same way.
                turn.reasoning.get_or_insert_default().push_str(&text);
                turn.origins.push(FieldOrigin::field("reasoning_content", text_path));
            }
            MessageKind::Content => {
                turn.content = Some(text);
                turn.origins.push(FieldOrigin::field("content", text_path));
            }
            MessageKind::Call(call) => {
                let id = format!("{}:{}", call.recipient, self.calls);
                self.calls += 1;
                if turn.calls.is_empty() {
                    turn.origins.push(FieldOrigin::field("tool_calls", path.to_owned()));
                }
                let field = format!("tool_calls[{}]", turn.calls.len());
                let (kind, key, inner, field_of_text) = match call.is_code {
                    true => ("code_interpreter", "code_interpreter", object! { "input" => text }, "input"),
                    false => {
                        let function = object! { "name" => call.name.as_str(), "arguments" => text };
                        ("function", "function", function, "arguments")
                    }
                };
                turn.origins.push(FieldOrigin::field(format!("{field}.{key}.{field_of_text}"), text_path));
                turn.origins.push(FieldOrigin::field(format!("{field}.{key}.name"), format!("{path}.recipient")));
                turn.origins.push(FieldOrigin::field(field, path.to_owned()));
                let mut made = object! { "id" => id.as_str(), "type" => kind };
                made.insert(key, Json::Object(inner));
                turn.calls.push(Json::Object(made));
                self.unanswered.entry(call.name).or_default().push_back(id);
            }
        }
    }

    fn close_turn(&mut self) {
        let Some(turn) = self.turn.take() else { return };
        let mut message = object! { "role" => "assistant" };
        match turn.content {
            Some(content) => message.insert("content", Json::String(content)),
            None if !turn.calls.is_empty() => message.insert("content", Json::from("")),
            // A message that is only reasoning has no answer, which is not an empty answer. A null
            // would be written as a word by many templates.
            None => {}
        }
        if let Some(reasoning) = turn.reasoning {
            message.insert("reasoning_content", Json::String(reasoning));
        }
        if !turn.calls.is_empty() {
            message.insert("tool_calls", Json::Array(turn.calls));
        }
        for (key, value) in turn.others.iter() {
            message.insert(key, value.clone());
        }
        self.messages.push(Json::Object(message));
        self.origins.push(turn.origins);
    }

    pub(super) fn add_tool(&mut self, tool: Json, path: &str) {
        self.tools.push(tool);
        self.tool_paths.push(path.to_owned());
    }

    /// Sets a switch of the template.
    pub(super) fn set_switch(&mut self, name: &'static str, value: Json, path: String) -> Result<(), Error> {
        match self.switches.iter().find(|(known, ..)| *known == name) {
            Some((_, known, _)) if *known == value => {}
            Some((.., one)) => return Err(Error::TwoWays { one: one.clone(), other: path }),
            None => self.switches.push((name, value, path)),
        }
        Ok(())
    }

    /// Sets the date that the template writes.
    pub(super) fn set_date(&mut self, date: String, path: String) -> Result<(), Error> {
        match &self.date {
            Some((known, _)) if *known == date => {}
            Some((_, one)) => return Err(Error::TwoWays { one: one.clone(), other: path }),
            None => self.date = Some((date, path)),
        }
        Ok(())
    }

    /// Adds a value that has no place in a request. It is reported as an unknown key.
    pub(super) fn add_unread_at(&mut self, path: String, value: Json) {
        self.unread.push((path, value));
    }

    pub(super) fn add_unread_text(&mut self, path: String, text: Option<&str>) {
        if let Some(text) = text {
            self.add_unread_at(path, Json::from(text));
        }
    }

    /// Adds all keys of an object that have a value.
    pub(super) fn add_unread(&mut self, object: &Object, path: &str) {
        for (key, value) in object.iter().filter(|(_, value)| !value.is_null()) {
            self.add_unread_at(format!("{path}.{key}"), value.clone());
        }
    }

    /// Adds everything to the request.
    pub(super) fn finish(mut self, mut object: Object) -> Result<Draft, Error> {
        self.close_turn();
        let mut origins = Origins { messages: self.origins, ..Origins::default() };
        if let Some(path) = self.tool_paths.first() {
            if object.get("tools").is_some_and(|tools| !tools.is_null()) {
                return Err(Error::TwoWays { one: "tools".to_owned(), other: path.clone() });
            }
            object.insert("tools", Json::Array(self.tools));
            let each = self.tool_paths.into_iter().enumerate();
            origins.request.extend(each.map(|(at, path)| FieldOrigin::field(format!("tools[{at}]"), path)));
        }
        if let Some((date, path)) = self.date {
            if object.get("now").is_some_and(|now| !now.is_null()) {
                return Err(Error::TwoWays { one: "now".to_owned(), other: path });
            }
            object.insert("now", Json::String(date));
            origins.request.push(FieldOrigin::field("now", path));
        }
        if object.get("chat_template_kwargs").is_none_or(Json::is_null) && !self.switches.is_empty() {
            object.insert("chat_template_kwargs", Json::Object(Object::new()));
        }
        // If it is not an object, the request is refused later.
        if let Some(Json::Object(switches)) = object.get_mut("chat_template_kwargs") {
            for (name, value, path) in self.switches {
                let field = format!("chat_template_kwargs.{name}");
                match switches.get(name) {
                    Some(known) if *known == value => {}
                    Some(_) => return Err(Error::TwoWays { one: field, other: path }),
                    None => {
                        switches.insert(name, value);
                        origins.request.push(FieldOrigin::field(field, path));
                    }
                }
            }
        }
        object.insert("messages", Json::Array(self.messages));
        for (path, value) in self.unread {
            object.insert(path, value);
        }
        Ok(Draft { object, side: None, origins })
    }
}
