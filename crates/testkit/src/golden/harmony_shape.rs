//! Reads harmony's own JSON as an input shape, and compares the conversation by value with the one
//! that the row gives in OpenAI's shape.
//!
//! By value means: developer and system are one role, text in parts is the text that they join to,
//! no content is empty content, and the arguments of a call are the object that they spell.

use rolecall::Reading;
use rolecall::answer::Completion;
use rolecall::conversation::json::{self, Layout, Object};
use rolecall::conversation::{Arguments, Call, Conversation, Json, Message, Tool, object};
use rolecall::dataset::{Sample, Shape, read};
use rolecall::parse::ParsedCall;
use rolecall::request::Error;

use super::harmony::{ids_at, written};
use super::parity::same_ids;
use super::{Context, text};
use crate::Verdict;

/// Checks the conversation of a row: it is read as `chat` says, and nothing of it is lost.
pub(super) fn run(row: &Object) -> Verdict {
    let Some(Json::Object(conversation)) = row.get("conversation") else {
        return Verdict::cannot_run("the row has no `conversation`");
    };
    let messages = conversation.get("messages").and_then(Json::as_array).unwrap_or_default();
    let text = written(&Json::Object(conversation.clone()));
    // A conversation of nothing but text is the same in both shapes.
    let is_marked = messages.iter().filter_map(Json::as_object).any(|message| {
        let parts = message.get("content").and_then(Json::as_array).unwrap_or_default();
        let is_typed = |part: &Json| part.as_object().is_some_and(|part| super::text(part, "type") != "text");
        parts.iter().any(is_typed) || message.get("channel").is_some() || message.get("recipient").is_some()
    });
    let sample = match read(&text, None) {
        Ok((shape, _)) if is_marked != (shape == Shape::Harmony) => {
            return failed(if is_marked { "harmony's shape" } else { "OpenAI's shape" }, shape.name());
        }
        Ok((_, samples)) => samples.into_iter().next(),
        Err(error) => return refusal(&error, messages),
    };
    let by_name = read(&text, Some(Shape::Harmony)).map(|(_, samples)| samples.into_iter().next());
    let (Some(sample), Ok(Some(by_name))) = (sample, by_name) else {
        return failed("one sample, by its keys and by the shape's name", "none");
    };
    let found = values(&sample.request.conversation);
    if found != values(&by_name.request.conversation) {
        return failed(&found.to_string(), &values(&by_name.request.conversation).to_string());
    }
    if let Some(lost) = lost(messages, &sample) {
        return failed(&format!("the text {lost:?} somewhere"), &found);
    }
    match row.get("chat").and_then(Json::as_object).map(request) {
        None => Verdict::Passed,
        Some(Ok(chat)) => Verdict::compare(&values(&chat), &found),
        Some(Err(why)) => Verdict::cannot_run(why),
    }
}

/// Compares the ids of the conversation with harmony's, for every template that the row marks as
/// equal. Returns `None` if there is none: rendering as harmony does comes with a later version.
pub(super) fn ids(row: &Object, context: &mut Context) -> Option<Verdict> {
    let (Some(Json::Object(templates)), Some(conversation)) = (row.get("templates"), row.get("conversation")) else {
        return None;
    };
    let mut verdict = None;
    for (key, is_open) in [("completion_ids", true), ("training_ids", false)] {
        let is_same = |agreement: &Json| agreement.as_object().is_some_and(|agreement| text(agreement, key) == "same");
        let same: Vec<Json> =
            templates.iter().filter(|(_, agreement)| is_same(agreement)).map(|(name, _)| Json::from(name)).collect();
        if same.is_empty() {
            continue;
        }
        let Some(wanted) = row.get("expected").and_then(Json::as_object).and_then(|expected| ids_at(expected, key))
        else {
            return Some(Verdict::cannot_run(format!("the row has no `{key}`")));
        };
        let request = match read(&written(conversation), None) {
            Ok((_, samples)) => samples.into_iter().next().map(|sample| sample.request),
            Err(error) => return Some(failed("a conversation", &error.to_string())),
        };
        let request = request.map(|request| request_of(&request.conversation, is_open)).unwrap_or_default();
        let through = object! { "templates" => same, "tokenizer" => "gptoss" };
        let found = same_ids(&through, &request, &wanted, |_| false, context);
        verdict = Some(verdict.unwrap_or(Verdict::Passed).and(|| found));
    }
    verdict
}

/// Checks that harmony's messages of a reply are read as the reply itself is, and that the reply in
/// OpenAI's shape can be given back.
pub(super) fn is_read_back(messages: &[Object], reading: &Reading) -> Result<(), String> {
    let list: Vec<Json> = messages.iter().cloned().map(Json::Object).collect();
    match read(&written(&Json::Array(list.clone())), Some(Shape::Harmony)) {
        Ok((_, samples)) => {
            let said = samples.iter().flat_map(|sample| &sample.request.conversation.messages);
            let all = Said::of(said);
            if all != Said::of_reading(reading) {
                return Err(format!("the same from harmony's messages: {all:?}"));
            }
        }
        Err(error) if refusal(&error, &list) == Verdict::Passed => return Ok(()),
        Err(error) => return Err(format!("harmony's messages, which are refused: {error}")),
    }
    let completion = written(&Completion::default().of_reading(reading));
    let message = json::parse(&completion).ok().and_then(|completion| {
        let choice = completion.as_object()?.get("choices")?.as_array()?.first()?.as_object()?.get("message")?;
        Some(choice.clone())
    });
    let user = Json::Object(object! { "role" => "user", "content" => "Go on." });
    let list = Json::Array(vec![message.ok_or("a message in the completion")?, user]);
    let (_, samples) = read(&written(&list), None).map_err(|error| format!("the reply as a message: {error}"))?;
    let given = samples.first().map(|sample| Said::of(&sample.request.conversation.messages[..1]));
    match given.as_ref() == Some(&Said::of_reading(reading)) {
        true => Ok(()),
        false => Err(format!("the same after the reply was given back: {given:?}")),
    }
}

/// What the model says in total.
#[derive(Debug, Default, PartialEq)]
struct Said {
    content: String,
    reasoning: String,
    calls: Vec<(String, String)>,
}

impl Said {
    fn of<'a>(messages: impl IntoIterator<Item = &'a Message>) -> Said {
        let mut said = Said::default();
        for message in messages {
            said.content.push_str(&message.text().unwrap_or_default());
            said.reasoning.push_str(message.reasoning_content().unwrap_or_default());
            said.calls.extend(message.calls().map(|call| match call {
                Call::Function { name, arguments, .. } => (name.to_owned(), spelled(arguments)),
                Call::CodeInterpreter { code, .. } => (String::new(), code.to_owned()),
            }));
        }
        said
    }

    fn of_reading(reading: &Reading) -> Said {
        let calls = reading.calls.iter().map(|call| match call {
            ParsedCall::Function { name, arguments, .. } => (name.clone(), spelled(Arguments::Text(arguments))),
            ParsedCall::Code { code, .. } => (String::new(), code.clone()),
        });
        Said {
            content: reading.content.clone(),
            reasoning: reading.reasoning.clone().unwrap_or_default(),
            calls: calls.collect(),
        }
    }
}

/// Accepts a refusal of what cannot be a call, or of a channel that harmony does not have.
fn refusal(error: &Error, messages: &[Json]) -> Verdict {
    let messages = || messages.iter().filter_map(Json::as_object);
    let body = |message: &Object| -> String {
        let parts = message.get("content").and_then(Json::as_array).unwrap_or_default();
        parts.iter().filter_map(Json::as_object).map(|part| text(part, "text")).collect()
    };
    let is_right = match error.code() {
        "bad_arguments" => messages().any(|message| {
            !text(message, "recipient").is_empty() && !matches!(json::parse(&body(message)), Ok(Json::Object(_)))
        }),
        "unknown_type" => messages()
            .map(|message| text(message, "channel"))
            .any(|channel| !["", "analysis", "commentary", "final"].contains(&channel)),
        _ => false,
    };
    match is_right && error.place().is_some_and(|place| place.field.starts_with("messages[")) {
        true => Verdict::Passed,
        false => failed("a conversation", &format!("a refusal: {error}")),
    }
}

/// Returns a text of harmony's messages that is nowhere in the request.
fn lost(messages: &[Json], sample: &Sample) -> Option<String> {
    let request = &sample.request;
    let mut kept = written(&Json::Object(request_of(&request.conversation, false)));
    kept.push_str(&written(&Json::Object(request.other.clone())));
    let mut texts = Vec::new();
    messages.iter().for_each(|message| collect(message, &mut texts));
    // The text stands in JSON, so it is compared as JSON spells it.
    texts.into_iter().find(|text| !kept.contains(written(&Json::from(text.as_str())).trim_matches('"')))
}

/// Collects what a person wrote: every string except the words of the shape itself.
fn collect(value: &Json, texts: &mut Vec<String>) {
    match value {
        Json::Array(items) => items.iter().for_each(|item| collect(item, texts)),
        Json::Object(object) => {
            for (key, value) in object.iter() {
                match (key, value.as_str()) {
                    ("role" | "type" | "channel" | "recipient" | "content_type" | "channel_config", _) => {}
                    ("knowledge_cutoff", Some("2024-06")) => {}
                    ("reasoning_effort", Some(effort)) => texts.push(effort.to_lowercase()),
                    ("name", Some(name)) => texts.push(name.trim_start_matches("functions.").to_owned()),
                    (_, Some(text)) => texts.push(text.to_owned()),
                    (_, None) => collect(value, texts),
                }
            }
        }
        _ => {}
    }
    // A namespace is named twice; templates know the name of this one.
    texts.retain(|text| text != "functions");
}

/// Makes a request of a conversation.
fn request_of(conversation: &Conversation, add_generation_prompt: bool) -> Object {
    let messages: Vec<Json> =
        conversation.messages.iter().map(|message| Json::Object(message.as_object().clone())).collect();
    let mut request = object! { "messages" => messages, "add_generation_prompt" => add_generation_prompt };
    if let Some(tools) = &conversation.tools {
        let tools = tools.iter().filter_map(Tool::wrapped);
        request.insert("tools", Json::Array(tools.collect()));
    }
    request.insert("chat_template_kwargs", Json::Object(conversation.template_kwargs.clone()));
    request
}

/// Reads the chat of a row.
fn request(chat: &Object) -> Result<Conversation, String> {
    super::read(super::harmony::request(chat)).map_err(|error| error.to_string())
}

/// Writes the values of a conversation, one line for each message, tool and switch.
fn values(conversation: &Conversation) -> String {
    let mut lines: Vec<String> = conversation.messages.iter().map(|message| written(&value_of(message))).collect();
    let tools = conversation.tools.iter().flatten().filter_map(Tool::wrapped);
    let tools = tools.map(|tool| format!("tool {}", written(&tool)));
    lines.extend(tools);
    // Only the effort has a place in the chat.
    let effort = conversation.template_kwargs.get("reasoning_effort").cloned().unwrap_or(Json::Null);
    lines.push(format!("effort {}", written(&effort)));
    lines.join("\n")
}

fn value_of(message: &Message) -> Json {
    let mut value = object! { "role" => message.role().name(), "content" => message.text().unwrap_or_default() };
    for (key, text) in [
        ("name", message.name()),
        ("tool_call_id", message.tool_call_id()),
        ("reasoning_content", message.reasoning_content()),
    ] {
        if let Some(text) = text {
            value.insert(key, Json::from(text));
        }
    }
    let calls = message.calls().map(|call| {
        Json::from(match call {
            Call::Function { id, name, arguments } => format!("{} {name} {}", id.unwrap_or("-"), spelled(arguments)),
            Call::CodeInterpreter { id, code } => format!("{} code {code}", id.unwrap_or("-")),
        })
    });
    value.insert("calls", Json::Array(calls.collect()));
    Json::Object(value)
}

/// Returns arguments as JSON, spelled in one way.
fn spelled(arguments: Arguments<'_>) -> String {
    json::write(&Json::Object(arguments.to_object().unwrap_or_default()), &Layout::compact())
}

fn failed(expected: &str, found: &str) -> Verdict {
    Verdict::Failed { expected: expected.to_owned(), found: found.to_owned() }
}
