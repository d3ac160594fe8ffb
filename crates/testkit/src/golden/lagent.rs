//! lagent's own messages: an agent's steps of language and tools, which together are one assistant message.

use rolecall::json::{Layout, Object};
use rolecall::{Bos, Conversation, Error, Json, Options, RuleMode, Split, json, object, render};

use super::{Context, refusal, runs, text};
use crate::Verdict;

pub(super) fn run(row: &Object, expected: &Object, context: &Context) -> Verdict {
    let Some(format) = context.registry.get("lagent:internlm2") else {
        return Verdict::Failed { expected: "a format".into(), found: "there is none".into() };
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
        // A step of a tool that the protocol does not know has no shape to be sent in.
        return refusal(expected, Err(Error::UnknownFormat { name: "a tool".into(), near: None }));
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
        .and_then(|conversation| Ok(render(&conversation, format, &asked)?));
    refusal(
        expected,
        prompt.map(|prompt| {
            let found = runs::of_reference(prompt.text(), &format.controls, None, Split::Published);
            let wanted = expected.get("segments").cloned().unwrap_or(Json::Null);
            Verdict::compare(text(expected, "prompt"), prompt.text())
                .and(|| Verdict::compare(&runs::written(&wanted), &runs::written(&found)))
        }),
    )
}

/// Messages as OpenAI has them; none, if a step names a tool that is neither a plugin nor the interpreter.
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
