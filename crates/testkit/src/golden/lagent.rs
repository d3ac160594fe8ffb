//! lagent's own messages: the language and tool steps of an agent, which together make one
//! assistant message.

use rolecall::conversation::json::{Layout, Object};
use rolecall::conversation::{Conversation, Json, json, object};
use rolecall::encode::Split;
use rolecall::format::Slot;
use rolecall::render::{Bos, Options, RuleMode, Writer};
use rolecall::{Error, Origin, Prompt, Segment};

use super::{Context, refusal, runs, text};
use crate::Verdict;

const NO_SHAPE: &str = "a step of a tool that the protocol does not know cannot be expressed as a message";

pub(super) fn run(row: &Object, expected: &Object, context: &Context) -> Verdict {
    let Some(format) = context.registry.get("lagent:internlm2") else {
        return Verdict::Failed { expected: "a format".into(), found: "none".into() };
    };
    let options = row.get("options").and_then(Json::as_object).cloned().unwrap_or_default();
    let mut choices = Vec::new();
    if let Some(Json::Object(prompts)) = options.get("prompts") {
        choices.extend(
            prompts.iter().map(|(name, prompt)| (name.to_owned(), prompt.as_str().unwrap_or_default().to_owned())),
        );
    }
    let asked = Options { bos: Bos::LeaveToTokenizer, rules: RuleMode::Reference, choices };
    let Some(messages) = steps_as_messages(row) else {
        return match expected.get("error") {
            Some(_) => Verdict::Excused(NO_SHAPE),
            None => Verdict::cannot_run("the row has a step of a tool that is neither a plugin nor the interpreter"),
        };
    };
    let mut tools = row.get("tools").and_then(Json::as_array).unwrap_or_default().to_vec();
    if options.get("interpreter").and_then(Json::as_bool) == Some(true) {
        tools.push(Json::Object(object! { "type" => "code_interpreter" }));
    }
    let mut request = object! { "messages" => messages };
    if !tools.is_empty() {
        request.insert("tools", Json::Array(tools));
    }
    let prompt = Conversation::from_json(request.into())
        .map_err(Error::from)
        .and_then(|conversation| Ok(Writer::format(format.clone(), asked.clone()).render(&conversation)?));
    refusal(
        expected,
        prompt.map(|prompt| {
            let found = runs::of_reference(prompt.text(), &format.controls, None, Split::Published);
            let wanted = expected.get("segments").cloned().unwrap_or(Json::Null);
            Verdict::compare(text(expected, "prompt"), prompt.text())
                .and(|| Verdict::compare(&runs::written(&wanted), &runs::written(&found)))
                .and(|| match expected.get("dialog") {
                    Some(wanted) => Verdict::compare(&named(wanted), &named(&dialog(&prompt))),
                    None => Verdict::Passed,
                })
        }),
    )
}

/// Returns the messages in OpenAI's shape, or `None` if a step names a tool that is neither a
/// plugin nor the interpreter.
fn steps_as_messages(row: &Object) -> Option<Vec<Json>> {
    let mut messages: Vec<Json> = Vec::new();
    let mut step: Option<Object> = None;
    for message in row.get("conversation").and_then(Json::as_array)?.iter().filter_map(Json::as_object) {
        let role = text(message, "role");
        if !matches!(role, "language" | "tool") {
            messages.extend(step.take().map(Json::Object));
            messages.push(Json::Object(message.clone()));
            continue;
        }
        let open = step.get_or_insert_with(|| object! { "role" => "assistant", "content" => "" });
        if role == "language" {
            let content = format!("{}{}", text(open, "content"), text(message, "content"));
            open.insert("content", Json::from(content));
            continue;
        }
        let content = message.get("content").cloned().unwrap_or(Json::Null);
        match (text(message, "name"), content) {
            ("plugin", Json::String(raw)) => open.insert("plugin", Json::String(raw)),
            ("plugin", Json::Object(call)) => push_call(open, function(&call)),
            ("interpreter", Json::String(code)) => push_call(open, code_call(&code)),
            ("interpreter", Json::Object(call)) => {
                let parameters = call.get("parameters").and_then(Json::as_object);
                push_call(open, code_call(parameters.map_or("", |parameters| text(parameters, "command"))));
            }
            _ => return None,
        }
    }
    messages.extend(step.map(Json::Object));
    Some(messages)
}

/// Writes messages with their keys sorted.
fn named(messages: &Json) -> String {
    let messages = messages.as_array().unwrap_or_default().iter().map(|message| {
        let mut keys: Vec<(String, Json)> = message
            .as_object()
            .map(|message| message.iter().map(|(key, value)| (key.to_owned(), value.clone())).collect())
            .unwrap_or_default();
        keys.sort_by(|a, b| a.0.cmp(&b.0));
        Json::Object(keys.into_iter().collect())
    });
    runs::written(&Json::Array(messages.collect()))
}

/// Returns the turns of a prompt as the messages that the protocol has before its meta template
/// writes them.
fn dialog(prompt: &Prompt) -> Json {
    let mut messages = Vec::new();
    for (at, turn) in prompt.turns().iter().enumerate() {
        let segments: Vec<_> = prompt.segments_in(prompt.turn_span(at)).collect();
        let is_control = |segment: &Segment<'_>| matches!(segment.origin, Origin::Control(_));
        let (Some(first), Some(end)) = (segments.first(), segments.iter().rposition(is_control)) else { continue };
        if !is_control(first) || turn.slot == Slot::Generate {
            continue;
        }
        let inside = &segments[1..end.max(1)];
        let whole: String = inside.iter().map(|segment| segment.text).collect();
        let (header, content) = whole.split_once('\n').unwrap_or((&whole, ""));
        let (role, name) = header.split_once(" name=").unwrap_or((header, ""));
        let mut message = object! { "role" => role };
        if !name.is_empty() {
            // A name that is a control token is written without its brackets.
            let bare = name.strip_prefix("<|").and_then(|name| name.strip_suffix("|>")).unwrap_or(name);
            message.insert("name", Json::from(bare));
        }
        message.insert("content", Json::from(content));
        messages.push(Json::Object(message));
    }
    Json::Array(messages)
}

fn push_call(message: &mut Object, call: Json) {
    if message.get("tool_calls").is_none() {
        message.insert("tool_calls", Json::Array(Vec::new()));
    }
    if let Some(Json::Array(calls)) = message.get_mut("tool_calls") {
        calls.push(call);
    }
}

fn function(call: &Object) -> Json {
    let arguments = json::write(call.get("parameters").unwrap_or(&Json::Null), &Layout::default());
    let function = object! { "name" => text(call, "name"), "arguments" => arguments };
    Json::Object(object! { "type" => "function", "function" => function })
}

fn code_call(code: &str) -> Json {
    let input = object! { "input" => code };
    Json::Object(object! { "type" => "code_interpreter", "code_interpreter" => input })
}
