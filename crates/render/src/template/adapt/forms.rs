//! Contents, empty calls, results, roles and tools in the forms that a template writes, with the same meaning.

use std::collections::HashMap;

use rolecall_conversation::json::Object;
use rolecall_conversation::{Content, Conversation, Json, Message, Part, Role, Tool, object};

use super::super::ChatTemplate;
use super::super::analysis::{ContentForm, EmptyContent};
use super::super::messages::Messages;
use super::ReplacementValues;
use crate::account::FormKind;

/// Converts messages and tools. Returns the first message whose form depends on one that is not at hand.
pub(in crate::template) fn adapt_forms(
    messages: Messages<'_>,
    frame: &Conversation,
    template: &ChatTemplate,
    adapted: &mut ReplacementValues,
) -> Option<usize> {
    let tools = frame.tools.as_deref();
    // The text of a message that is continued stays.
    let continued = frame.continue_final_message.then(|| messages.count.saturating_sub(1));
    let has_tools = tools.is_some_and(|tools| !tools.is_empty());
    let (mut systems, mut unknown) = (SystemMessages::default(), None);
    for (index, message) in messages.iter() {
        let mut role = message.role_as_spelled();
        let renames = systems.renames(index, message, template);
        if renames.is_none() {
            unknown = unknown.or(Some(index));
        }
        if renames == Some(true) {
            role = Role::System.name();
            adapted.count(FormKind::Role, index, "role");
            adapted.replace(index, "role", Json::from(role));
        }
        let form = template.content_form(role, has_tools);
        // Most messages are a role and a text.
        let takes_text = !matches!(form, ContentForm::Parts | ContentForm::OnePart);
        if takes_text && message.is_plain() {
            continue;
        }
        let empty = empty_content(message).filter(|_| continued != Some(index));
        match empty.map(|given| (given, template.empty_content(given, has_tools))) {
            None => adapt_content(index, message, form, adapted),
            // An empty list is not the list of one empty text.
            Some((EmptyContent::Part, EmptyContent::Part)) if !has_no_parts(message) => {
                adapt_content(index, message, form, adapted);
            }
            Some((EmptyContent::Part, EmptyContent::Part)) => {
                replace_empty(index, template.empty_content(EmptyContent::Text, has_tools), adapted);
            }
            Some((given, wanted)) if wanted == given => {}
            Some((EmptyContent::Part, wanted)) => {
                adapted.join(index);
                replace_empty(index, wanted, adapted);
            }
            Some((_, wanted)) => replace_empty(index, wanted, adapted),
        }
        // Some templates ask only whether the key is there.
        let calls = message.as_object().get("tool_calls").and_then(Json::as_array);
        if calls.is_some_and(<[Json]>::is_empty) {
            adapted.remove(index, "tool_calls");
            // Without calls, it is a reply that says nothing.
            if matches!(message.content(), Content::None) {
                replace_empty(index, if takes_text { EmptyContent::Text } else { EmptyContent::Part }, adapted);
            }
        }
    }
    adapt_tools(tools, template, adapted);
    let has_nameless = messages.iter().any(|(_, message)| is_nameless_result(message));
    let names = has_nameless && template.names_results(has_tools);
    unknown.or(names.then(|| name_results(messages, adapted)).flatten())
}

/// Converts a content that is only text.
fn adapt_content(index: usize, message: &Message, form: ContentForm, adapted: &mut ReplacementValues) {
    match (form, message.content()) {
        (ContentForm::TextRather, Content::Parts(_)) if message.joined_text().is_none() => {}
        (ContentForm::Text | ContentForm::TextRather, Content::Parts(_)) => {
            adapted.join(index);
            adapted.replace(index, "content", Json::from(texts_of(message)));
        }
        (ContentForm::OnePart, Content::Parts(parts)) if parts.len() != 1 => {
            adapted.join(index);
            adapted.wrap(index, &texts_of(message));
        }
        (ContentForm::Parts | ContentForm::OnePart, Content::Text(text)) => {
            adapted.count(FormKind::TextAsPart, index, "content");
            adapted.wrap(index, text);
        }
        _ => {}
    }
}

/// The messages of the system and the developer so far.
#[derive(Default)]
struct SystemMessages {
    has_any: bool,
    /// Whether messages before the next one are not at hand.
    has_gap: bool,
    next: usize,
}

impl SystemMessages {
    /// Reports whether a message is the developer's and becomes the system's, or `None` if that depends on messages that
    /// are not at hand. Of two messages of the system, many templates write one.
    fn renames(&mut self, index: usize, message: &Message, template: &ChatTemplate) -> Option<bool> {
        self.has_gap |= index != self.next;
        self.next = index + 1;
        let has_another = self.has_any;
        self.has_any |= *message.role() == Role::System;
        if message.role_as_spelled() != "developer" || message.text().is_none() || !template.renames_developers() {
            return Some(false);
        }
        match (has_another, self.has_gap) {
            (false, false) => Some(true),
            (false, true) => template.writes_two_systems().then_some(true),
            (true, _) => Some(template.writes_two_systems()),
        }
    }
}

fn has_no_parts(message: &Message) -> bool {
    matches!(message.content(), Content::Parts([]))
}

/// Returns the texts among the parts of a content. A template that writes no parts of text writes no others.
fn texts_of(message: &Message) -> String {
    let texts = message.parts().filter_map(|part| match part {
        Part::Text(text) => Some(text),
        _ => None,
    });
    texts.collect::<Vec<&str>>().join("\n")
}

/// Returns the content of a message with calls and no text. OpenAI's clients and servers write null then.
fn empty_content(message: &Message) -> Option<EmptyContent> {
    if message.calls().len() == 0 {
        return None;
    }
    let content = match message.content() {
        Content::None if message.as_object().get("content").is_some() => EmptyContent::Null,
        Content::None => EmptyContent::Missing,
        Content::Text("") => EmptyContent::Text,
        Content::Parts(_) if message.joined_text().is_some_and(|text| text.is_empty()) => EmptyContent::Part,
        Content::Text(_) | Content::Parts(_) => return None,
    };
    Some(content)
}

fn replace_empty(index: usize, wanted: EmptyContent, adapted: &mut ReplacementValues) {
    adapted.count(FormKind::EmptyContent, index, "content");
    match wanted {
        EmptyContent::Missing => adapted.remove(index, "content"),
        EmptyContent::Null => adapted.replace(index, "content", Json::Null),
        EmptyContent::Text => adapted.replace(index, "content", Json::from("")),
        EmptyContent::Part => adapted.wrap(index, ""),
    }
}

/// Reports whether a message is the result of a call, and only the call has its name. OpenAI's API has no
/// field for it.
fn is_nameless_result(message: &Message) -> bool {
    let object = message.as_object();
    *message.role() == Role::Tool && text_of(object, "tool_call_id").is_some() && text_of(object, "name").is_none()
}

/// Gives results the names of their calls. Returns the first one whose call is not at hand.
fn name_results(messages: Messages<'_>, adapted: &mut ReplacementValues) -> Option<usize> {
    let mut names: HashMap<&str, &str> = HashMap::new();
    let (mut unknown, mut next) = (None, 0);
    for (index, message) in messages.iter() {
        // An id may come again in the messages that are not at hand.
        if index != next {
            names.clear();
        }
        next = index + 1;
        let calls = message.as_object().get("tool_calls").and_then(Json::as_array).unwrap_or_default();
        names.extend(calls.iter().filter_map(|call| {
            let call = call.as_object()?;
            let function = call.get("function").and_then(Json::as_object).unwrap_or(call);
            Some((text_of(call, "id")?, text_of(function, "name")?))
        }));
        if is_nameless_result(message) {
            let name = text_of(message.as_object(), "tool_call_id").and_then(|id| names.get(id));
            match name {
                Some(name) => {
                    adapted.count(FormKind::ResultName, index, "name");
                    adapted.replace(index, "name", Json::from(*name));
                }
                None => unknown = unknown.or(Some(index)),
            }
        }
    }
    unknown
}

fn text_of<'o>(object: &'o Object, key: &str) -> Option<&'o str> {
    object.get(key).and_then(Json::as_str)
}

/// Adds the descriptions and parameters that tools lack, if the template cannot write a tool without. Source of the
/// parameters: OpenAI's API reference, "Omitting `parameters` defines a function with an empty parameter list".
fn adapt_tools(tools: Option<&[Tool]>, template: &ChatTemplate, adapted: &mut ReplacementValues) {
    let has = |function: &Object, key: &str| function.get(key).is_some_and(|value| !value.is_null());
    for (index, tool) in tools.into_iter().flatten().enumerate() {
        let (Tool::Function { object, wrapped }, Some(function)) = (tool, tool.function()) else { continue };
        let has_properties = |schema: &Json| schema.as_object().is_some_and(|schema| has(schema, "properties"));
        let lacks = [!has(function, "description"), !function.get("parameters").is_some_and(has_properties)];
        if lacks == [false; 2] || !template.fills_tools() {
            continue;
        }
        let mut function = function.clone();
        if lacks[0] {
            function.insert("description", Json::from(""));
        }
        if lacks[1] {
            let mut schema = object! { "type" => "object", "properties" => Object::new() };
            let given = function.get("parameters").and_then(Json::as_object);
            given.into_iter().flat_map(Object::iter).for_each(|(key, value)| schema.insert(key, value.clone()));
            function.insert("parameters", schema.into());
        }
        let mut whole = object.clone();
        match wrapped {
            true => whole.insert("function", Json::Object(function)),
            false => whole = function,
        }
        adapted.replace_tool(index, whole);
    }
}
