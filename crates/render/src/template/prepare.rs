//! The variables that transformers passes to a template: plain JSON, reasoning under all its names,
//! and `None` for missing values.

mod joined;
mod places;
mod trace;

use std::any::Any;
use std::borrow::Cow;
use std::cell::Cell;
use std::ops::Range;
use std::sync::LazyLock;

use rolecall_conversation::json::Object;
use rolecall_conversation::{Conversation, Json, REASONING, Tool, object};
use rolecall_jinja::{Context, InputEntry, InputNode, InputValue, Tag};

use super::adapt::ReplacementValues;
use super::messages::Messages;
use super::{ChatTemplate, Forms, TemplateOptions};
use crate::Origin;
use crate::origin::Origins;

pub(super) use joined::PieceOfJoined;
pub(super) use trace::Trace;

use joined::JoinedText;

/// The variables of a template and the origins of their tags. Texts are borrowed from the
/// conversation.
pub(super) struct Inputs<'a> {
    variables: Vec<(&'a str, u32)>,
    /// All values: the messages, the values inside them, and then the rest. The items of a list or
    /// dict are adjacent.
    values: Vec<Value<'a>>,
    /// The number of messages at hand, which come first in `values`.
    messages: u32,
    /// The messages themselves.
    pub said_by: Messages<'a>,
    /// The index in `values` of the variable `messages`, after which all other variables follow.
    list: u32,
    /// The index in `values` of the variable `add_generation_prompt`.
    switch: u32,
    /// A message that was read but is not at hand.
    needs: Cell<Option<usize>>,
    /// The end of the messages and the values inside them.
    said: u32,
    tools: Range<u32>,
    documents: Range<u32>,
    /// The original names of message fields that have an additional name, in ascending order of
    /// their values.
    aliases: Vec<(u32, &'static str)>,
    /// The spellings inside values that were parsed from JSON text, in ascending order.
    spelled: Vec<(u32, &'a [String])>,
    /// The contents whose text became a part, in ascending order. The place of all in them is that of the content.
    wrapped: Vec<u32>,
    joined: Vec<JoinedText>,
    /// Whether the template should end with a generation prompt.
    pub generates: bool,
}

/// The engine's reference to a value: its index, which fits into 32 bits.
#[derive(Clone, Copy)]
struct Handle(u32);

struct Value<'a> {
    handle: Handle,
    /// The index of the value whose origin this one has. Inside a message, this is the value's own
    /// index.
    tag: u32,
    /// What the run did with the value, for the account.
    traces: Cell<u8>,
    /// The list or dict that contains the value.
    parent: u32,
    /// The key of the value, if it is in a dict.
    key: &'a str,
    shape: Shape<'a>,
}

/// The run read the value.
const READ: u8 = 1;

/// All of the text is in the output.
const WHOLE: u8 = 2;

/// The text is in the output as a JSON string.
const QUOTED: u8 = 4;

/// A key of the dict is in the output.
const KEYED: u8 = 8;

/// The output has a piece that is not known to be all of the text.
const PART: u8 = 16;

/// A key of the dict is in the output as Python prints it, in single quotes.
const PYTHON: u8 = 32;

/// A key of the dict is in the output as JSON has it, in double quotes.
const JSON: u8 = 64;

#[derive(Clone, Copy)]
enum Shape<'a> {
    Null,
    Bool(bool),
    Number(&'a str),
    Text(&'a str),
    List(Children),
    Dict(Children),
    /// The list of all messages, of which some are not at hand.
    Messages,
    /// A list whose items have not become values yet.
    ClosedList(&'a [Json]),
    /// A dict whose entries have not become values yet.
    ClosedDict(&'a Object),
}

#[derive(Clone, Copy)]
struct Children {
    first: u32,
    count: u32,
}

/// The tags for the values inside another value.
#[derive(Clone, Copy)]
enum TagRule {
    Each,
    AsTheirParent,
}

/// The tag for values that belong to the template itself.
const OWN: u32 = u32::MAX;

static CODE_INTERPRETER: LazyLock<Object> = LazyLock::new(|| object! { "type" => "code_interpreter" });

impl<'a> Inputs<'a> {
    pub fn new(
        conversation: &'a Conversation,
        template: &'a ChatTemplate,
        options: &'a TemplateOptions,
        adapted: &'a ReplacementValues,
    ) -> Inputs<'a> {
        Inputs::with_messages(Messages::all(&conversation.messages), conversation, template, options, adapted)
    }

    /// Creates the inputs for some messages and everything else in a conversation.
    pub fn with_messages(
        said_by: Messages<'a>,
        conversation: &'a Conversation,
        template: &'a ChatTemplate,
        options: &'a TemplateOptions,
        adapted: &'a ReplacementValues,
    ) -> Inputs<'a> {
        let count = said_by.at_hand();
        let nulls = (template.keeps_nulls(options.nulls, said_by, adapted), options.forms == Forms::AsWanted);
        let mut inputs = Inputs {
            variables: Vec::with_capacity(8),
            values: Vec::with_capacity(count * 6 + 40),
            messages: count as u32,
            said_by,
            list: 0,
            switch: 0,
            needs: Cell::new(None),
            said: 0,
            tools: 0..0,
            documents: 0..0,
            aliases: Vec::new(),
            spelled: Vec::new(),
            wrapped: Vec::new(),
            joined: Vec::new(),
            generates: false,
        };
        let messages = inputs.push_all(said_by.iter().map(|(_, message)| Shape::ClosedDict(message.as_object())));
        for (number, (index, message)) in said_by.iter().enumerate() {
            inputs.open_message(number, index, message.as_object(), adapted, nulls);
        }
        inputs.open(messages.end, TagRule::Each);
        inputs.said = inputs.next();
        for spelled in adapted.spelled() {
            let message = said_by.number(spelled.message);
            let arguments = message.and_then(|message| inputs.arguments(message, spelled.call));
            inputs.spelled.extend(arguments.map(|at| (at, &*spelled.spellings)));
        }
        for index in adapted.wrapped() {
            let message = said_by.number(*index);
            let content = message.and_then(|message| inputs.entry_of(inputs.values.get(message)?, "content"));
            inputs.wrapped.extend(content.map(|content| content.handle.0));
        }
        adapted.joined().iter().for_each(|index| inputs.add_joined(*index));
        let rest = inputs.next();
        inputs.spelled.sort_by_key(|(at, _)| *at);
        inputs.list = rest;
        match said_by.is_complete() {
            true => inputs.set_list("messages", Some(messages)),
            false => inputs.set("messages", Shape::Messages),
        }
        let tools = conversation.tools.as_ref();
        inputs.tools = inputs.push_all(tools.into_iter().flatten().enumerate().map(|(index, tool)| match tool {
            Tool::Function { object, .. } => Shape::ClosedDict(adapted.tool(index).unwrap_or(object)),
            Tool::CodeInterpreter => Shape::ClosedDict(&CODE_INTERPRETER),
            // Such a conversation is refused before.
            Tool::Text(text) => Shape::Text(text),
        }));
        inputs.set_list("tools", tools.map(|_| inputs.tools.clone()));
        let documents = conversation.documents.as_ref();
        inputs.documents = inputs.push_all(documents.into_iter().flatten().map(Shape::of));
        inputs.set_list("documents", documents.map(|_| inputs.documents.clone()));
        let last = said_by.count.checked_sub(1).and_then(|last| said_by.message(last));
        let usual = last.is_none_or(|last| last.role_as_spelled() != "assistant");
        let generates = conversation.add_generation_prompt.unwrap_or(usual) && !conversation.continue_final_message;
        inputs.generates = generates;
        inputs.switch = inputs.next();
        inputs.set("add_generation_prompt", Shape::Bool(generates));
        for (name, token) in &template.tokens {
            inputs.set(name, Shape::Text(token));
        }
        for (name, value) in conversation.template_kwargs.iter().chain(options.kwargs.iter()) {
            let at = inputs.next();
            inputs.push(at, OWN, name, Shape::of(value));
            inputs.variables.push((name, at));
        }
        inputs.open(rest, TagRule::AsTheirParent);
        inputs
    }

    pub fn context(&self) -> Context<'_> {
        let mut context = Context::reading(self);
        for (name, at) in &self.variables {
            context.set(name, &self.values[*at as usize].handle);
        }
        context
    }

    /// Returns the origin of a tag, or `None` if it belongs to the template itself. Origins are
    /// built on demand, since few tags are looked up.
    pub fn origin(&self, tag: Tag) -> Option<Origin> {
        let at = u32::try_from(self.root(tag).0).ok().filter(|at| *at != OWN)?;
        let value = self.values.get(at as usize)?;
        Some(if at < self.messages {
            Origin::Message { message: self.said_by.index(at as usize), field: Cow::Borrowed("") }
        } else if at < self.said {
            let mut path = String::new();
            let message = self.write_path(at, &mut path);
            Origin::Message { message, field: Cow::Owned(path) }
        } else if self.tools.contains(&at) {
            Origin::Tool { tool: (at - self.tools.start) as usize }
        } else if self.documents.contains(&at) {
            Origin::Document { document: (at - self.documents.start) as usize }
        } else {
            Origin::Option { name: value.key.to_owned() }
        })
    }

    /// Returns the tag whose origin a value has: its own in a message, and that of the whole tool,
    /// document or switch.
    #[inline]
    pub fn root(&self, tag: Tag) -> Tag {
        match self.values.get(tag.0 as usize) {
            Some(value) => Tag(u64::from(value.tag)),
            None => tag,
        }
    }

    /// Adds the origin of a tag to the origins of a prompt. Returns its number there, and the
    /// message if it belongs to one.
    pub fn add_origin(&self, tag: Tag, origins: &mut Origins) -> Option<(usize, Option<usize>)> {
        let at = u32::try_from(tag.0).ok()?;
        if (self.messages..self.said).contains(&at) {
            let Value { parent, key, .. } = self.values[at as usize];
            let message = self.said_by.index(parent as usize);
            let (number, message) = match key {
                "content" if parent < self.messages => (origins.add_content(message), message),
                "role" if parent < self.messages => (origins.add_role(message), message),
                _ => origins.add_field(|path| self.write_path(at, path)),
            };
            return Some((number, Some(message)));
        }
        let origin = self.origin(tag)?;
        let message = origin.message();
        Some((origins.add(origin), message))
    }

    /// Returns the message if the tag is that of a loop item that is a message.
    pub fn message_of(&self, tag: Tag) -> Option<usize> {
        (tag.0 < u64::from(self.messages)).then(|| self.said_by.index(tag.0 as usize))
    }

    /// Returns the index of the next value.
    fn next(&self) -> u32 {
        self.values.len() as u32
    }

    fn push(&mut self, tag: u32, parent: u32, key: &'a str, shape: Shape<'a>) {
        let handle = Handle(self.next());
        self.values.push(Value { handle, tag, traces: Cell::new(0), parent, key, shape });
    }

    /// Adds values, each with a separate origin.
    fn push_all(&mut self, shapes: impl Iterator<Item = Shape<'a>>) -> Range<u32> {
        let first = self.next();
        for shape in shapes {
            self.push(self.next(), OWN, "", shape);
        }
        first..self.next()
    }

    fn set(&mut self, name: &'a str, shape: Shape<'a>) {
        self.variables.push((name, self.next()));
        self.push(OWN, OWN, name, shape);
    }

    fn set_list(&mut self, name: &'a str, items: Option<Range<u32>>) {
        let list = |items: Range<u32>| Shape::List(Children { first: items.start, count: items.end - items.start });
        self.set(name, items.map_or(Shape::Null, list));
    }

    fn open_message(
        &mut self,
        number: usize,
        index: usize,
        object: &'a Object,
        adapted: &'a ReplacementValues,
        (keeps_nulls, is_adapted): (bool, bool),
    ) {
        let message = number as u32;
        let first = self.next();
        // Some templates ask only whether a key is there, and need a null content.
        let passes = |key: &str, json: &Json| !json.is_null() || keeps_nulls && (key == "content" || !is_adapted);
        let reasoning = Reasoning::of(object, keeps_nulls);
        if let Some(reasoning) = &reasoning {
            self.push_reasoning(message, "thinking", reasoning.thinking());
        }
        let mut has_reasoning_content = false;
        let is_changed = adapted.of_message(index).next().is_some();
        for (key, mut json) in object.iter() {
            if is_changed {
                match adapted.of_message(index).find(|(name, _)| *name == key) {
                    None => {}
                    Some((_, Some(replacement))) => json = replacement,
                    Some((_, None)) => continue,
                }
            }
            if !passes(key, json) {
                continue;
            }
            match &reasoning {
                Some(_) if key == "thinking" => {}
                Some(reasoning) if key == "reasoning_content" => {
                    has_reasoning_content = true;
                    self.push_reasoning(message, "reasoning_content", (reasoning.name, reasoning.said));
                }
                _ => self.push(self.next(), message, key, Shape::of(json)),
            }
        }
        let new = adapted.of_message(index).filter(|(key, _)| object.get(key).is_none());
        for (key, json) in new.filter_map(|(key, json)| Some((key, json?))).filter(|(key, json)| passes(key, json)) {
            self.push(self.next(), message, key, Shape::of(json));
        }
        if let Some(reasoning) = reasoning.filter(|_| !has_reasoning_content) {
            self.push_reasoning(message, "reasoning_content", (reasoning.name, reasoning.said));
        }
        self.values[number].shape = Shape::Dict(Children { first, count: self.next() - first });
    }

    /// Adds reasoning to a message under one of its names. The message itself may use a different
    /// name.
    fn push_reasoning(&mut self, message: u32, key: &'static str, (name, json): (&'static str, &'a Json)) {
        if name != key {
            self.aliases.push((self.next(), name));
        }
        self.push(self.next(), message, key, Shape::of(json));
    }

    /// Converts the contents of lists and dicts to values, recursively, from this index on.
    fn open(&mut self, from: u32, tagged: TagRule) {
        let mut at = from as usize;
        while at < self.values.len() {
            let Value { handle, tag, shape, .. } = self.values[at];
            let first = self.next();
            let tag_of = |number: u32| match tagged {
                TagRule::Each => number,
                TagRule::AsTheirParent => tag,
            };
            match shape {
                Shape::ClosedList(items) => {
                    for item in items {
                        self.push(tag_of(self.next()), handle.0, "", Shape::of(item));
                    }
                    self.values[at].shape = Shape::List(Children { first, count: self.next() - first });
                }
                Shape::ClosedDict(object) => {
                    for (key, value) in object.iter() {
                        self.push(tag_of(self.next()), handle.0, key, Shape::of(value));
                    }
                    self.values[at].shape = Shape::Dict(Children { first, count: self.next() - first });
                }
                _ => {}
            }
            at += 1;
        }
    }

    /// Returns the arguments of a message's call.
    fn arguments(&self, message: usize, call: usize) -> Option<u32> {
        let calls = self.entry_of(self.values.get(message)?, "tool_calls")?;
        let Shape::List(calls) = calls.shape else { return None };
        let call = self.children(calls).get(call)?;
        // `{"name": .., "arguments": ..}` may also come without a wrapper.
        let function = self.entry_of(call, "function").unwrap_or(call);
        self.entry_of(function, "arguments").map(|arguments| arguments.handle.0)
    }

    #[inline]
    fn entry_of(&self, dict: &Value<'a>, key: &str) -> Option<&Value<'a>> {
        match dict.shape {
            Shape::Dict(entries) => self.children(entries).iter().find(|value| value.key == key),
            _ => None,
        }
    }

    #[inline]
    fn find(&self, node: &dyn Any) -> Option<&Value<'a>> {
        self.values.get(node.downcast_ref::<Handle>()?.0 as usize)
    }

    #[inline]
    fn children(&self, children: Children) -> &[Value<'a>] {
        &self.values[children.first as usize..][..children.count as usize]
    }

    #[inline]
    fn item_of(&self, list: &dyn Any, index: usize) -> Option<&Value<'a>> {
        match self.find(list)?.shape {
            Shape::List(items) => self.children(items).get(index),
            Shape::Messages => self.message(index),
            _ => None,
        }
    }

    /// Returns a message, of which some are not at hand.
    #[cold]
    fn message(&self, index: usize) -> Option<&Value<'a>> {
        if index >= self.said_by.count {
            return None;
        }
        match self.said_by.number(index) {
            Some(number) => self.values.get(number),
            None => {
                // The rendering goes on with wrong values, and its result is not used.
                self.needs.set(Some(self.needs.get().unwrap_or(index)));
                None
            }
        }
    }

    #[inline]
    fn value_of(&self, dict: &dyn Any, key: &str) -> Option<&Value<'a>> {
        self.entry_of(self.find(dict)?, key)
    }
}

impl<'a> Shape<'a> {
    #[inline]
    fn of(json: &'a Json) -> Shape<'a> {
        match json {
            Json::Null => Shape::Null,
            Json::Bool(value) => Shape::Bool(*value),
            Json::Number(number) => Shape::Number(number.spelling()),
            Json::String(text) => Shape::Text(text),
            Json::Array(items) => Shape::ClosedList(items),
            Json::Object(object) => Shape::ClosedDict(object),
        }
    }
}

impl Value<'_> {
    #[inline]
    fn tag(&self) -> Tag {
        // Each value has a tag of its own, so that the account knows which one was written.
        Tag(u64::from(if self.tag == OWN { OWN } else { self.handle.0 }))
    }

    #[inline]
    fn trace(&self, trace: u8) {
        self.traces.set(self.traces.get() | trace);
    }

    #[inline]
    fn look(&self) -> InputNode<'_> {
        self.trace(READ);
        let value = match self.shape {
            Shape::Null => InputValue::Null,
            Shape::Bool(value) => InputValue::Bool(value),
            Shape::Number(spelling) => InputValue::Number(spelling),
            Shape::Text(text) => InputValue::Str(text),
            Shape::List(_) | Shape::Messages | Shape::ClosedList(_) => InputValue::List,
            Shape::Dict(_) | Shape::ClosedDict(_) => InputValue::Dict,
        };
        InputNode { node: &self.handle, value, tag: self.tag() }
    }
}

/// The reasoning in a message.
struct Reasoning<'a> {
    /// The name of the field.
    name: &'static str,
    said: &'a Json,
    /// The message's field `thinking`, which may be null if nulls are kept.
    thinking: Option<&'a Json>,
}

impl<'a> Reasoning<'a> {
    #[inline]
    fn of(object: &'a Object, keeps_nulls: bool) -> Option<Reasoning<'a>> {
        // Most messages have only two keys, neither of which is one of these.
        let mut said = [None; REASONING.len()];
        for (key, json) in object.iter() {
            if let Some(at) = REASONING.iter().position(|name| *name == key) {
                said[at] = Some(json);
            }
        }
        let at = said.iter().position(|json| json.is_some_and(|json| !json.is_null()))?;
        let thinking = said[1].filter(|json| keeps_nulls || !json.is_null());
        Some(Reasoning { name: REASONING[at], said: said[at]?, thinking })
    }

    /// transformers: `{"thinking": r, **message, "reasoning_content": r}`
    fn thinking(&self) -> (&'static str, &'a Json) {
        self.thinking.map_or((self.name, self.said), |thinking| ("thinking", thinking))
    }
}

impl rolecall_jinja::Inputs for Inputs<'_> {
    fn value<'n>(&'n self, node: &'n dyn Any) -> InputValue<'n> {
        self.find(node).map_or(InputValue::Null, |value| value.look().value)
    }

    fn tag(&self, node: &dyn Any) -> Tag {
        self.find(node).map_or(Tag(u64::from(OWN)), Value::tag)
    }

    fn len(&self, node: &dyn Any) -> usize {
        match self.find(node).map(|value| value.shape) {
            Some(Shape::List(children) | Shape::Dict(children)) => children.count as usize,
            Some(Shape::Messages) => self.said_by.count,
            _ => 0,
        }
    }

    fn item<'n>(&'n self, list: &'n dyn Any, index: usize) -> Option<&'n dyn Any> {
        self.item_of(list, index).map(|item| &item.handle as &dyn Any)
    }

    fn get<'n>(&'n self, dict: &'n dyn Any, key: &str) -> Option<&'n dyn Any> {
        self.value_of(dict, key).map(|value| &value.handle as &dyn Any)
    }

    fn entry<'n>(&'n self, dict: &'n dyn Any, index: usize) -> Option<InputEntry<'n>> {
        let found = self.find(dict)?;
        let Shape::Dict(entries) = found.shape else { return None };
        let entry = self.children(entries).get(index)?;
        Some(InputEntry { key: entry.key, key_tag: found.tag(), value: &entry.handle })
    }

    fn spellings<'n>(&'n self, node: &'n dyn Any) -> Option<&'n [String]> {
        if self.spelled.is_empty() {
            return None;
        }
        let at = self.find(node)?.handle.0;
        let found = self.spelled.binary_search_by_key(&at, |(spelled, _)| *spelled).ok()?;
        Some(self.spelled[found].1)
    }

    // Finds a value only once for all questions about it.
    fn look<'n>(&'n self, node: &'n dyn Any) -> InputNode<'n> {
        match self.find(node) {
            Some(value) => value.look(),
            None => InputNode { node, value: InputValue::Null, tag: Tag(u64::from(OWN)) },
        }
    }

    fn look_at<'n>(&'n self, list: &'n dyn Any, index: usize) -> Option<InputNode<'n>> {
        self.item_of(list, index).map(Value::look)
    }

    fn look_entry<'n>(&'n self, dict: &'n dyn Any, index: usize) -> Option<(InputEntry<'n>, InputNode<'n>)> {
        let found = self.find(dict)?;
        let Shape::Dict(entries) = found.shape else { return None };
        let entry = self.children(entries).get(index)?;
        Some((InputEntry { key: entry.key, key_tag: found.tag(), value: &entry.handle }, entry.look()))
    }

    fn look_up<'n>(&'n self, dict: &'n dyn Any, key: &str, found: &mut Option<InputNode<'n>>) {
        *found = self.value_of(dict, key).map(Value::look);
    }
}
