//! Conversations for chat templates, with a placeholder in place of each text.

use fastrand::Rng;
use rolecall::conversation::json;
use rolecall::conversation::json::{Layout, Object};
use rolecall::conversation::{Json, object};
use rolecall::template::{Capability, IdForm, Support, TemplateAnalysis};

use super::Marks;
use super::attack::attack;
use super::draft::{Words, placeholder};
use super::twin::{honest_beside, twin_beside};
use crate::generate;

/// What a template accepts, so that most of what it is given is rendered.
#[derive(Clone, Debug)]
pub struct Habits {
    takes: Vec<Capability>,
    ids: Option<IdForm>,
    switches: Vec<String>,
}

impl Habits {
    pub fn of(analysis: &TemplateAnalysis) -> Habits {
        let takes = |capability: &Capability| *analysis.support(*capability) == Support::Yes;
        Habits {
            takes: Capability::ALL.into_iter().filter(takes).collect(),
            ids: analysis.calls.ids,
            switches: analysis.switches.iter().map(|switch| switch.name.clone()).collect(),
        }
    }
}

/// The texts of a conversation under construction.
pub struct Texts<'a> {
    marks: &'a Marks,
    rng: Rng,
    pub words: Vec<Words>,
}

impl<'a> Texts<'a> {
    pub fn new(marks: &'a Marks, rng: Rng) -> Texts<'a> {
        Texts { marks, rng, words: Vec::new() }
    }

    /// Adds a text.
    pub fn text(&mut self) -> String {
        self.add(String::new(), String::new())
    }

    /// Adds a unique text: a key, an id, or a name that is used twice. The number is not part of a
    /// marker.
    pub fn name(&mut self) -> String {
        let number = self.words.len();
        match self.rng.bool() {
            true => self.add(format!("{number}\u{b7}"), String::new()),
            false => self.add(String::new(), format!("\u{b7}{number}")),
        }
    }

    fn add(&mut self, before: String, behind: String) -> String {
        let others = self.words.iter().map(|words| (words.hostile.as_str(), words.twin.as_str()));
        let (hostile, twin) = match self.rng.u8(..5) {
            0 => {
                let text = honest_beside(others, &self.marks.plain, &mut self.rng);
                (text.clone(), text)
            }
            _ => {
                let text = attack(self.marks, &mut self.rng);
                let twin = twin_beside(&text, others, &self.marks.plain, &mut self.rng);
                (text, twin)
            }
        };
        self.words.push(Words { before, hostile, twin, behind });
        placeholder(self.words.len() - 1)
    }
}

impl Habits {
    /// Reports whether a request sets one of the template's switches to a text.
    pub fn is_switched_by(&self, request: &Json) -> bool {
        let switches = request.as_object().and_then(|request| request.get("chat_template_kwargs"));
        let switches = switches.and_then(Json::as_object);
        switches.is_some_and(|given| {
            given
                .iter()
                .any(|(name, value)| value.as_str().is_some() && self.switches.iter().any(|known| known == name))
        })
    }
}

/// Makes a request for a template. A higher `simplicity` leaves out more that a template could
/// refuse.
pub fn talk(habits: &Habits, simplicity: u32, rng: &mut Rng, texts: &mut Texts<'_>) -> Json {
    let mut talk = Talk { habits, simplicity, rng, texts, messages: Vec::new() };
    let mut request = Object::new();
    talk.offer(&mut request);
    talk.speak();
    let messages = std::mem::take(&mut talk.messages);
    let open = messages.last().is_some_and(|last| last.get("role").and_then(Json::as_str) == Some("assistant"));
    request.insert("messages", Json::Array(messages.into_iter().map(Json::Object).collect()));
    talk.close(&mut request, open);
    Json::Object(request)
}

struct Talk<'a, 'b> {
    habits: &'a Habits,
    simplicity: u32,
    rng: &'a mut Rng,
    texts: &'a mut Texts<'b>,
    messages: Vec<Object>,
}

impl Talk<'_, '_> {
    /// Adds the turns.
    fn speak(&mut self) {
        let odd = self.simplicity == 0 && self.one_in(16);
        if self.takes(Capability::System) && self.rng.bool() {
            let role = if self.one_in(16) && self.simplicity == 0 { "developer" } else { "system" };
            self.say(role);
        }
        let rounds = if self.simplicity > 1 { 1 } else { self.rng.usize(1..3) };
        for round in 1..=rounds {
            self.say("user");
            if odd {
                self.odd_turn();
            }
            let calls = self.simplicity < 2 && self.takes(Capability::ToolCalls) && self.one_in(2);
            if round == rounds && !calls && !self.one_in(3) {
                return;
            }
            if calls {
                self.call();
                if self.one_in(2) {
                    continue;
                }
            }
            self.answer();
        }
    }

    /// Adds a turn that most templates do not expect: an unknown role, or a role out of order.
    fn odd_turn(&mut self) {
        match self.rng.u8(..6) {
            0..=2 => {
                // An unknown role, unlike the role names that the template itself compares with.
                let role = self.texts.name();
                self.say(&role);
            }
            3 => self.say("user"),
            4 => self.say("system"),
            _ => {
                let role = ["function", "ipython", "observation", "environment", "model"][self.rng.usize(..5)];
                self.say(role);
            }
        }
    }

    fn say(&mut self, role: &str) {
        let mut message = object! { "role" => role, "content" => self.content() };
        if self.one_in(8) {
            message.insert("name", self.texts.name().into());
        }
        if self.one_in(24) {
            // A field that no template knows, or only one does.
            let key = ["channel", "recipient", "author", "citations", "prefix"][self.rng.usize(..5)];
            message.insert(key, self.texts.text().into());
        }
        self.messages.push(message);
    }

    fn answer(&mut self) {
        let mut message = object! { "role" => "assistant", "content" => self.content() };
        self.think(&mut message);
        self.messages.push(message);
    }

    fn think(&mut self, message: &mut Object) {
        if self.one_in(if self.takes(Capability::Reasoning) { 2 } else { 8 }) {
            let key = ["reasoning_content", "thinking", "reasoning"][self.rng.usize(..3)];
            message.insert(key, self.texts.text().into());
        }
    }

    /// Adds calls and their results.
    fn call(&mut self) {
        let most = if self.takes(Capability::ParallelToolCalls) { 2 } else { 1 };
        let mut calls = Vec::new();
        let mut called = Vec::new();
        for at in 0..self.rng.usize(1..=most) {
            let usual = !self.one_in(16);
            let id = match self.habits.ids {
                Some(IdForm::NineCharacters) if usual => format!("lookup00{at}"),
                Some(IdForm::FunctionAndNumber) if self.rng.bool() => format!("functions.look_up:{at}"),
                _ => self.texts.name(),
            };
            let name = self.texts.name();
            let arguments = self.arguments();
            let function = object! { "name" => name.as_str(), "arguments" => arguments };
            calls.push(Json::from(object! { "id" => id.as_str(), "type" => "function", "function" => function }));
            called.push((id, name));
        }
        let mut message = object! { "role" => "assistant" };
        match self.rng.u8(..6) {
            0 => {}
            1 => message.insert("content", Json::Null),
            2 | 3 => message.insert("content", "".into()),
            _ => message.insert("content", self.texts.text().into()),
        }
        self.think(&mut message);
        message.insert("tool_calls", Json::Array(calls));
        self.messages.push(message);
        if !self.takes(Capability::ToolResults) {
            return;
        }
        for (id, name) in called {
            let content = match self.rng.u8(..5) {
                0 => {
                    let answer = self.value(1);
                    json::write(&object! { "result" => answer }.into(), &Layout::default()).into()
                }
                _ => self.content(),
            };
            let mut result = object! { "role" => "tool", "content" => content };
            if !self.one_in(6) || self.habits.ids.is_some() {
                result.insert("tool_call_id", id.into());
            }
            if self.rng.bool() {
                result.insert("name", name.into());
            }
            self.messages.push(result);
        }
    }

    fn arguments(&mut self) -> Json {
        let arguments = self.dict(2);
        match self.rng.bool() {
            true => arguments,
            false => {
                let layout = if self.rng.bool() { Layout::compact() } else { Layout::default() };
                json::write(&arguments, &layout).into()
            }
        }
    }

    fn dict(&mut self, depth: usize) -> Json {
        let count = self.rng.usize(..3);
        Json::Object((0..count).map(|_| (self.texts.name(), self.value(depth))).collect())
    }

    fn value(&mut self, depth: usize) -> Json {
        match self.rng.u8(..if depth == 0 { 7 } else { 10 }) {
            0 => Json::Null,
            1 => Json::Bool(self.rng.bool()),
            2 => Json::Number(generate::number(self.rng)),
            3..=6 => self.texts.text().into(),
            7 | 8 => self.dict(depth - 1),
            _ => Json::Array((0..self.rng.usize(..3)).map(|_| self.value(depth - 1)).collect()),
        }
    }

    fn content(&mut self) -> Json {
        let parts = if self.takes(Capability::ContentParts) { 4 } else { 64 };
        if !self.one_in(parts) || self.simplicity > 1 {
            return self.texts.text().into();
        }
        let mut list = Vec::new();
        for _ in 0..self.rng.usize(1..3) {
            list.push(Json::from(object! { "type" => "text", "text" => self.texts.text() }));
        }
        if self.takes(Capability::Images) && self.one_in(3) {
            let image = match self.rng.bool() {
                true => object! { "type" => "image" },
                false => object! { "type" => "image_url", "image_url" => object! { "url" => self.texts.text() } },
            };
            list.insert(self.rng.usize(..=list.len()), image.into());
        }
        Json::Array(list)
    }

    fn offer(&mut self, request: &mut Object) {
        if self.simplicity < 2 && self.one_in(if self.takes(Capability::Tools) { 3 } else { 24 }) {
            let tools = (0..self.rng.usize(1..3)).map(|_| self.tool()).collect();
            request.insert("tools", Json::Array(tools));
        }
        if self.simplicity < 2 && self.one_in(if self.takes(Capability::Documents) { 3 } else { 24 }) {
            let mut document = object! { "title" => self.texts.text(), "text" => self.texts.text() };
            match self.rng.u8(..4) {
                0 => document.insert("doc_id", self.texts.name().into()),
                1 => document.insert("data", object! { "text" => self.texts.text() }.into()),
                2 => document.insert(self.texts.name(), self.texts.text().into()),
                _ => {}
            }
            request.insert("documents", Json::Array(vec![document.into()]));
        }
    }

    fn tool(&mut self) -> Json {
        let (first, second) = (self.texts.name(), self.texts.name());
        let mut properties = Object::new();
        let kind = match self.one_in(12) {
            true => self.texts.text(),
            false => ["string", "integer", "object", "array"][self.rng.usize(..4)].to_owned(),
        };
        let mut property = object! { "type" => kind.as_str(), "description" => self.texts.text() };
        match (kind.as_str(), self.rng.bool()) {
            ("object", true) => {
                let inner = object! { "type" => "string", "description" => self.texts.text() };
                let inner = [(self.texts.name(), Json::from(inner))].into_iter().collect::<Object>();
                property.insert("properties", inner.into());
            }
            ("array", true) => {
                let items = object! { "type" => "string", "description" => self.texts.text() };
                property.insert("items", items.into());
            }
            ("string", true) => {
                let values = vec![Json::from(self.texts.name()), Json::from(self.texts.name())];
                property.insert("enum", values.into());
            }
            _ => {}
        }
        properties.insert(first.as_str(), property.into());
        if self.rng.bool() {
            let other = object! { "type" => "string", "description" => self.texts.text() };
            properties.insert(second, other.into());
        }
        let mut parameters = object! { "type" => "object", "properties" => properties };
        if self.rng.bool() {
            parameters.insert("required", Json::Array(vec![first.into()]));
        }
        let mut function =
            object! { "name" => self.texts.name(), "description" => self.texts.text(), "parameters" => parameters };
        match self.rng.u8(..6) {
            0 => function.insert("strict", self.rng.bool().into()),
            1 => {
                let returns = object! { "type" => "string", "description" => self.texts.text() };
                function.insert("return", returns.into());
            }
            2 => function.insert(self.texts.name(), self.texts.text().into()),
            _ => {}
        }
        object! { "type" => "function", "function" => function }.into()
    }

    /// Sets the end of the prompt and the switches.
    fn close(&mut self, request: &mut Object, open: bool) {
        match self.rng.u8(..6) {
            0 => request.insert("add_generation_prompt", self.rng.bool().into()),
            1 if open => request.insert("continue_final_message", true.into()),
            _ => {}
        }
        // Names are numbered, so that none equals a word that the template compares its switches
        // with.
        let mut switches = Object::new();
        let known = &self.habits.switches;
        if !known.is_empty() && self.one_in(3) {
            let name = known[self.rng.usize(..known.len())].clone();
            let value = if self.rng.bool() { self.rng.bool().into() } else { self.texts.name().into() };
            switches.insert(name, value);
        }
        if self.one_in(8) {
            let key = self.texts.name();
            switches.insert(key, self.texts.name().into());
        }
        if self.one_in(24) {
            // A value from the caller, so the token is no longer the template's own.
            switches.insert("bos_token", self.texts.name().into());
        }
        if !switches.is_empty() {
            request.insert("chat_template_kwargs", switches.into());
        }
    }

    fn takes(&self, capability: Capability) -> bool {
        self.habits.takes.contains(&capability)
    }

    fn one_in(&mut self, count: u8) -> bool {
        self.rng.u8(..count) == 0
    }
}
