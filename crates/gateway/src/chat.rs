use std::sync::Arc;

use axum::http::HeaderValue;
use axum::response::Response;
use rolecall::Request;
use rolecall::answer::{Chunks, Completion};
use rolecall::conversation::Json;
use rolecall::conversation::json::Object;
use rolecall::grammar::ToolChoice;
use rolecall::model::offered_tools;

use crate::engine::{Ask, Kind};
use crate::gateway::{Gateway, Permit, Served, now, random};
use crate::reply::Reply;
use crate::sampling::{SETTINGS, Sampling};
use crate::turn::{Calls, Turn};
use crate::{Fault, number};

/// The keys of a request that only label it.
const LABELS: [&str; 2] = ["safety_identifier", "user"];

/// Answers `/v1/chat/completions`.
pub async fn chat(gateway: Arc<Gateway>, body: &str, permit: Permit) -> Result<Response, Fault> {
    let request = read(&gateway, body)?;
    let served = Arc::clone(gateway.model(request.other.get("model"))?);
    let mut asked = Asked::read(&request.other)?;
    if offered_tools(&request).is_empty() {
        if let ToolChoice::Required | ToolChoice::Named(_) = asked.calls.choice {
            return Err(Fault::at("tool_choice", "wrong_value", "tool_choice: the request offers no tools"));
        }
        // There is nothing to call.
        asked.calls = Calls::default();
    }
    let (sampling, applied) = Sampling::read(&request.other, &served.model.sampling())?;
    if !asked.calls.is_free() && served.engine.kind() != Kind::LlamaCpp {
        return Err(Fault { help: Some("use an engine of llama.cpp".into()), ..Fault::unsupported("tool_choice") });
    }
    let request = Request { other: Object::new(), ..request };
    let (mut turn, permit) = Turn::prepare(&served, request, asked.calls, gateway.limits.prompt_ids, permit).await?;
    let ids = std::mem::take(&mut turn.ids);
    let (prompt_ids, stop, holds_calls) = (ids.len(), sampling.stop.clone(), turn.holds_calls);
    let ask = Ask {
        ids,
        sampling,
        stop_ids: turn.stops.iter().map(|(id, _)| *id).collect(),
        gbnf: turn.gbnf.take(),
        model: served.engine_model.clone(),
    };
    let generating = served.engine.generate(&ask).await?;
    let reply = Reply::new(turn, prompt_ids, generating, stop, permit);
    let completion =
        Completion { id: format!("chatcmpl-{:016x}", random()), model: served.name.clone(), created: now() };
    let mut response = match asked.is_streamed {
        false => reply.whole(completion).await?,
        true => {
            let chunks = Chunks::new(completion).holding_calls(holds_calls);
            reply.streamed(chunks, asked.has_usage, gateway.limits.next_id).await?
        }
    };
    if let Ok(applied) = HeaderValue::from_str(&applied.join(", "))
        && !applied.is_empty()
    {
        response.headers_mut().insert("x-rolecall-defaults", applied);
    }
    Ok(response)
}

/// Answers `/v1/render`: what would be sent, with origins.
pub fn render(gateway: &Gateway, body: &str) -> Result<Json, Fault> {
    let request = read(gateway, body)?;
    let served: &Arc<Served> = gateway.model(request.other.get("model"))?;
    Asked::read(&request.other)?;
    Sampling::read(&request.other, &served.model.sampling())?;
    let request = Request { other: Object::new(), ..request };
    Ok(served.model.explain(request)?.to_json())
}

/// Reads a request. Settings that would change how the model speaks are not a client's to choose.
fn read(gateway: &Gateway, body: &str) -> Result<Request, Fault> {
    let request = Request::from_text(body)?;
    let count = request.conversation.messages.len();
    let most = gateway.limits.messages;
    if count > most {
        return Err(Fault::at(
            "messages",
            "too_many_messages",
            format!("{count} messages, and at most {most} are allowed"),
        ));
    }
    if request.id.is_some() || request.format.is_some() {
        return Err(Fault::unsupported(if request.id.is_some() { "id" } else { "format" }));
    }
    if request.conversation.add_generation_prompt == Some(false) && !request.conversation.continue_final_message {
        return Err(Fault::unsupported("add_generation_prompt"));
    }
    let is_own = |name: &&&str| request.conversation.template_kwargs.get(name).is_some();
    match OF_TEMPLATES.iter().find(is_own) {
        Some(name) => Err(Fault::unsupported(&format!("chat_template_kwargs.{name}"))),
        None => Ok(request),
    }
}

/// What a template reads that is not for a client to choose.
const OF_TEMPLATES: [&str; 6] = ["bos_token", "eos_token", "messages", "tools", "documents", "add_generation_prompt"];

/// What a request says about its answer.
#[derive(Debug, Default)]
struct Asked {
    is_streamed: bool,
    has_usage: bool,
    calls: Calls,
}

impl Asked {
    fn read(other: &Object) -> Result<Asked, Fault> {
        let mut asked = Asked::default();
        for (key, value) in other.iter().filter(|(_, value)| !value.is_null()) {
            let flag = |value: &Json| {
                value.as_bool().ok_or_else(|| Fault::at(key, "wrong_type", format!("{key}: expected true or false")))
            };
            match key {
                "model" => {}
                "stream" => asked.is_streamed = flag(value)?,
                "stream_options" => asked.has_usage = usage(value)?,
                "parallel_tool_calls" => asked.calls.at_most_one = !flag(value)?,
                "tool_choice" => asked.calls.choice = choice(value)?,
                // One answer, of text, that is not kept, and without probabilities.
                "n" if number::integer(value) == Some(1) => {}
                "logprobs" | "store" if value.as_bool() == Some(false) => {}
                "response_format" if is_text(value) => {}
                key if SETTINGS.contains(&key) || LABELS.contains(&key) => {}
                key => return Err(Fault::unsupported(key)),
            }
        }
        Ok(asked)
    }
}

fn usage(options: &Json) -> Result<bool, Fault> {
    let wrong =
        |field: &str| Fault::at(field, "wrong_value", format!("{field}: expected `include_usage`, true or false"));
    let options = options.as_object().ok_or_else(|| wrong("stream_options"))?;
    let mut has_usage = false;
    for (key, value) in options.iter() {
        match (key, value) {
            ("include_usage", Json::Bool(value)) => has_usage = *value,
            (key, _) => return Err(wrong(&format!("stream_options.{key}"))),
        }
    }
    Ok(has_usage)
}

fn is_text(format: &Json) -> bool {
    let format = format.as_object();
    format.is_some_and(|format| format.len() == 1 && format.get("type").and_then(Json::as_str) == Some("text"))
}

fn choice(value: &Json) -> Result<ToolChoice, Fault> {
    let named = |value: &Json| {
        let choice =
            value.as_object().filter(|choice| choice.get("type").and_then(Json::as_str) == Some("function"))?;
        Some(choice.get("function")?.as_object()?.get("name")?.as_str()?.to_owned())
    };
    match value.as_str() {
        Some("auto") => Ok(ToolChoice::Auto),
        Some("none") => Ok(ToolChoice::None),
        Some("required") => Ok(ToolChoice::Required),
        _ => named(value).map(ToolChoice::Named).ok_or_else(|| {
            let wrong = "tool_choice: expected \"auto\", \"none\", \"required\", or a function by its name";
            Fault::at("tool_choice", "wrong_value", wrong)
        }),
    }
}
