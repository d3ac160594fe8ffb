//! What transformers hands to a template: plain JSON, reasoning under all its names, `None` for what is not there.

use std::any::Any;
use std::borrow::Cow;

use rolecall_conversation::json::Object;
use rolecall_conversation::{Conversation, Json, Tool};
use rolecall_jinja::{Context, InputEntry, InputValue, Tag};

use super::adapt::Adapted;
use super::{ChatTemplate, TemplateOptions};
use crate::Origin;

/// The variables of a template, and what their tags stand for. Texts are borrowed from the conversation.
pub(super) struct Inputs<'a> {
    variables: Vec<(&'a str, Handle)>,
    values: Vec<Value<'a>>,
    /// Origins by tag; what is not here is the template's own.
    origins: Vec<Origin>,
    /// How many messages there are: their own tags are the first ones.
    messages: u64,
}

/// The number of a value.
#[derive(Clone, Copy)]
struct Handle(usize);

struct Value<'a> {
    tag: Tag,
    shape: Shape<'a>,
}

enum Shape<'a> {
    Null,
    Bool(bool),
    Number(&'a str),
    Text(&'a str),
    List(Vec<Handle>),
    Dict(Vec<(&'a str, Handle)>),
}

/// The tag of what belongs to the template itself.
const OWN: Tag = Tag(u64::MAX);

/// The names under which a message's reasoning comes, the usual one first.
const REASONING: [&str; 3] = ["reasoning_content", "thinking", "reasoning"];

impl<'a> Inputs<'a> {
    pub fn new(
        conversation: &'a Conversation,
        template: &'a ChatTemplate,
        options: &'a TemplateOptions,
        adapted: &'a Adapted,
    ) -> Inputs<'a> {
        let count = conversation.messages.len();
        let mut inputs = Inputs {
            variables: Vec::with_capacity(8),
            values: Vec::with_capacity(count * 4 + 32),
            origins: Vec::with_capacity(count * 3 + 16),
            messages: count as u64,
        };
        inputs.origins.extend((0..count).map(|message| Origin::Message { message, field: Cow::Borrowed("") }));
        let messages = conversation.messages.iter().enumerate();
        let messages = messages.map(|(index, message)| inputs.message(index, message.as_object(), adapted)).collect();
        inputs.set_list("messages", Some(messages));
        let tools = conversation.tools.as_ref();
        let tools = tools.map(|tools| tools.iter().enumerate().map(|(at, tool)| inputs.tool(at, tool)).collect());
        inputs.set_list("tools", tools);
        let documents = conversation.documents.as_ref();
        let documents = documents.map(|documents| {
            let each = documents.iter().enumerate().map(|(document, json)| {
                let tag = inputs.tag(Origin::Document { document });
                inputs.value(json, tag)
            });
            each.collect()
        });
        inputs.set_list("documents", documents);
        let usual = conversation.messages.last().is_none_or(|last| last.role_as_spelled() != "assistant");
        let generates = conversation.add_generation_prompt.unwrap_or(usual) && !conversation.continue_final_message;
        inputs.set("add_generation_prompt", Shape::Bool(generates));
        for (name, token) in &template.tokens {
            inputs.set(name, Shape::Text(token));
        }
        for (name, value) in conversation.template_kwargs.iter().chain(options.kwargs.iter()) {
            let tag = inputs.tag(Origin::Option { name: name.to_owned() });
            let handle = inputs.value(value, tag);
            inputs.variables.push((name, handle));
        }
        inputs
    }

    pub fn context(&self) -> Context<'_> {
        let mut context = Context::reading(self);
        for (name, handle) in &self.variables {
            context.set(name, handle);
        }
        context
    }

    /// What a tag stands for; none, if that is the template's own.
    pub fn origin(&self, tag: Tag) -> Option<&Origin> {
        self.origins.get(usize::try_from(tag.0).ok()?)
    }

    /// The message whose item a loop went through.
    pub fn message_of(&self, tag: Tag) -> Option<usize> {
        (tag.0 < self.messages).then_some(tag.0 as usize)
    }

    fn tag(&mut self, origin: Origin) -> Tag {
        self.origins.push(origin);
        Tag(self.origins.len() as u64 - 1)
    }

    fn push(&mut self, tag: Tag, shape: Shape<'a>) -> Handle {
        self.values.push(Value { tag, shape });
        Handle(self.values.len() - 1)
    }

    fn set(&mut self, name: &'a str, shape: Shape<'a>) {
        let handle = self.push(OWN, shape);
        self.variables.push((name, handle));
    }

    fn set_list(&mut self, name: &'a str, items: Option<Vec<Handle>>) {
        self.set(name, items.map_or(Shape::Null, Shape::List));
    }

    fn message(&mut self, index: usize, object: &'a Object, adapted: &'a Adapted) -> Handle {
        let mut entries: Vec<(&'a str, Handle)> = Vec::with_capacity(object.len() + 2);
        for (key, json) in object.iter() {
            let json = adapted.value_of(index, key).unwrap_or(json);
            let handle = self.field(index, key, json);
            // Of a key that comes twice the last counts, at the first one's place.
            match entries.iter_mut().find(|(known, _)| *known == key) {
                Some(entry) => entry.1 = handle,
                None => entries.push((key, handle)),
            }
        }
        self.name_reasoning(index, object, &mut entries);
        self.push(Tag(index as u64), Shape::Dict(entries))
    }

    /// transformers: `{"thinking": r, **message, "reasoning_content": r}`
    fn name_reasoning(&mut self, index: usize, object: &'a Object, entries: &mut Vec<(&'a str, Handle)>) {
        let said = |name: &&'static str| object.get(name).filter(|value| !value.is_null()).map(|value| (*name, value));
        let Some((name, reasoning)) = REASONING.iter().find_map(said) else { return };
        let thinking = match entries.iter().position(|(key, _)| *key == "thinking") {
            Some(at) => entries.remove(at).1,
            None => self.field(index, name, reasoning),
        };
        entries.insert(0, ("thinking", thinking));
        let reasoning = self.field(index, name, reasoning);
        match entries.iter_mut().find(|(key, _)| *key == "reasoning_content") {
            Some(entry) => entry.1 = reasoning,
            None => entries.push(("reasoning_content", reasoning)),
        }
    }

    fn field(&mut self, message: usize, key: &'a str, json: &'a Json) -> Handle {
        match json {
            Json::String(text) => {
                let field = match key {
                    "content" => Cow::Borrowed("content"),
                    "role" => Cow::Borrowed("role"),
                    other => Cow::Owned(other.to_owned()),
                };
                let tag = self.tag(Origin::Message { message, field });
                self.push(tag, Shape::Text(text))
            }
            other => self.nested(message, key, other),
        }
    }

    /// A value inside a message, by the path to it.
    fn nested(&mut self, message: usize, path: &str, json: &'a Json) -> Handle {
        let tag = self.tag(Origin::Message { message, field: Cow::Owned(path.to_owned()) });
        match json {
            Json::Object(object) => {
                let each =
                    object.iter().map(|(key, value)| (key, self.nested(message, &format!("{path}.{key}"), value)));
                let entries = each.collect();
                self.push(tag, Shape::Dict(entries))
            }
            Json::Array(items) => {
                let each = items.iter().enumerate();
                let items = each.map(|(at, item)| self.nested(message, &format!("{path}[{at}]"), item)).collect();
                self.push(tag, Shape::List(items))
            }
            scalar => self.value(scalar, tag),
        }
    }

    fn tool(&mut self, at: usize, tool: &'a Tool) -> Handle {
        let tag = self.tag(Origin::Tool { tool: at });
        match tool {
            Tool::Function { object, .. } => self.object(object, tag),
            Tool::CodeInterpreter => {
                let kind = self.push(tag, Shape::Text("code_interpreter"));
                self.push(tag, Shape::Dict(vec![("type", kind)]))
            }
        }
    }

    /// A value all of whose texts have one origin.
    fn value(&mut self, json: &'a Json, tag: Tag) -> Handle {
        let shape = match json {
            Json::Null => Shape::Null,
            Json::Bool(value) => Shape::Bool(*value),
            Json::Number(number) => Shape::Number(number.spelling()),
            Json::String(text) => Shape::Text(text),
            Json::Array(items) => Shape::List(items.iter().map(|item| self.value(item, tag)).collect()),
            Json::Object(object) => return self.object(object, tag),
        };
        self.push(tag, shape)
    }

    fn object(&mut self, object: &'a Object, tag: Tag) -> Handle {
        let entries = object.iter().map(|(key, value)| (key, self.value(value, tag))).collect();
        self.push(tag, Shape::Dict(entries))
    }

    fn find(&self, node: &dyn Any) -> Option<&Value<'a>> {
        self.values.get(node.downcast_ref::<Handle>()?.0)
    }
}

impl rolecall_jinja::Inputs for Inputs<'_> {
    fn value<'n>(&'n self, node: &'n dyn Any) -> InputValue<'n> {
        match self.find(node).map(|value| &value.shape) {
            None | Some(Shape::Null) => InputValue::Null,
            Some(Shape::Bool(value)) => InputValue::Bool(*value),
            Some(Shape::Number(spelling)) => InputValue::Number(spelling),
            Some(Shape::Text(text)) => InputValue::Str(text),
            Some(Shape::List(_)) => InputValue::List,
            Some(Shape::Dict(_)) => InputValue::Dict,
        }
    }

    fn tag(&self, node: &dyn Any) -> Tag {
        self.find(node).map_or(OWN, |value| value.tag)
    }

    fn len(&self, node: &dyn Any) -> usize {
        match self.find(node).map(|value| &value.shape) {
            Some(Shape::List(items)) => items.len(),
            Some(Shape::Dict(entries)) => entries.len(),
            _ => 0,
        }
    }

    fn item<'n>(&'n self, list: &'n dyn Any, index: usize) -> Option<&'n dyn Any> {
        match &self.find(list)?.shape {
            Shape::List(items) => items.get(index).map(|item| item as &dyn Any),
            _ => None,
        }
    }

    fn get<'n>(&'n self, dict: &'n dyn Any, key: &str) -> Option<&'n dyn Any> {
        match &self.find(dict)?.shape {
            Shape::Dict(entries) => entries.iter().find(|(known, _)| *known == key).map(|(_, value)| value as &dyn Any),
            _ => None,
        }
    }

    fn entry<'n>(&'n self, dict: &'n dyn Any, index: usize) -> Option<InputEntry<'n>> {
        let value = self.find(dict)?;
        match &value.shape {
            Shape::Dict(entries) => {
                entries.get(index).map(|(key, item)| InputEntry { key, key_tag: value.tag, value: item })
            }
            _ => None,
        }
    }
}
