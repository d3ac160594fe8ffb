//! The body of a request, translated into that of a chat completion.

use rolecall::conversation::json::Object;
use rolecall::conversation::{Json, object};

use super::field::{flag, get, list, missing, needed_text, object, refuse_others, text, unsupported, wrong};
use super::input::{self, Input};
use super::mcp_context::McpContext;
use super::tools::{self, Tools};
use crate::api::effort::Effort;
use crate::request::labels::check_label;
use crate::request::number;
use crate::request::sampling::SETTINGS;
use crate::{Fault, FaultCode};

/// A request as it was sent.
#[derive(Debug)]
pub struct Body {
    /// The request in the shape of chat completions, without instructions.
    pub chat: Object,
    pub input: Input,
    pub instructions: Option<String>,
    pub previous: Option<String>,
    pub is_stored: bool,
    pub tools: Tools,
    pub effort: Option<Effort>,
    pub format: Json,
    /// Fields that the answer repeats.
    pub labels: Object,
    pub most_ids: Option<u64>,
}

/// The fields that only label a request.
const LABELS: [&str; 3] = ["user", "safety_identifier", "prompt_cache_key"];

/// The fields that mean the same in chat completions, apart from settings.
const SAME: [&str; 7] = [
    "model",
    "stream",
    "parallel_tool_calls",
    "chat_template_kwargs",
    "on_rewrite",
    "calls_in_reasoning",
    "unclosed_reasoning",
];

/// The fields that are read here.
const OWN: [&str; 15] = [
    "input",
    "instructions",
    "previous_response_id",
    "store",
    "stream_options",
    "tools",
    "tool_choice",
    "text",
    "max_output_tokens",
    "reasoning",
    "metadata",
    "truncation",
    "service_tier",
    "include",
    "top_logprobs",
];

/// What `include` may ask for: how likely the tokens of the text were.
const LOGPROBS: &str = "message.output_text.logprobs";

/// Settings of chat completions that have another name here.
const RENAMED: [&str; 2] = ["max_tokens", "max_completion_tokens"];

/// The name of the level of reasoning.
pub const EFFORT: &str = "reasoning.effort";

impl Body {
    pub fn read(body: &Object, context: &McpContext) -> Result<Body, Fault> {
        refuse_unknown(body)?;
        let mut chat = Object::new();
        for key in SAME.into_iter().chain(SETTINGS).filter(|key| !RENAMED.contains(key)) {
            if let Some(value) = get(body, key) {
                chat.insert(key, value.clone());
            }
        }
        let most_ids = most_ids(body)?;
        if let Some(most) = most_ids {
            chat.insert("max_completion_tokens", i64::try_from(most).unwrap_or(i64::MAX).into());
        }
        let tools = tools::read(get(body, "tools"), get(body, "tool_choice"), context)?;
        if !tools.chat.is_empty() {
            chat.insert("tools", tools.chat.clone().into());
        }
        if let Some(choice) = &tools.chat_choice {
            chat.insert("tool_choice", choice.clone());
        }
        let (format, chat_format) = format(body)?;
        if let Some(format) = chat_format {
            chat.insert("response_format", format);
        }
        set_logprobs(body, &mut chat)?;
        let previous = text(body, "", "previous_response_id")?;
        let items = get(body, "input").ok_or_else(|| missing("input"))?;
        let mut input = input::read(items, previous, context)?;
        chat.insert("messages", std::mem::take(&mut input.messages).into());
        Ok(Body {
            chat,
            input,
            instructions: text(body, "", "instructions")?.map(str::to_owned),
            previous: previous.map(str::to_owned),
            is_stored: flag(body, "", "store")?.unwrap_or(true),
            tools,
            effort: effort(body)?,
            format,
            labels: labels(body)?,
            most_ids,
        })
    }
}

/// Refuses what the gateway does not have, by name.
fn refuse_unknown(body: &Object) -> Result<(), Fault> {
    let is_known = |key: &str| {
        let is_setting = SETTINGS.contains(&key) && !RENAMED.contains(&key);
        is_setting || [&OWN[..], &SAME, &LABELS].iter().any(|known| known.contains(&key))
    };
    for (key, value) in body.iter().filter(|(_, value)| !value.is_null()) {
        let is_off = match key {
            "background" => value.as_bool() == Some(false),
            "truncation" => value.as_str() == Some("disabled"),
            // There is one tier.
            "service_tier" => matches!(value.as_str(), Some("auto" | "default")),
            "max_tokens" | "max_completion_tokens" => return Err(unsupported(key, "use `max_output_tokens`")),
            "messages" => return Err(unsupported(key, "use `input`")),
            "response_format" => return Err(unsupported(key, "use `text.format`")),
            key => is_known(key),
        };
        if !is_off {
            return Err(refusal(key));
        }
    }
    if let Some(options) = get(body, "stream_options") {
        // Frames are not padded.
        refuse_others(object(options, "stream_options")?, "stream_options", &[])?;
    }
    Ok(())
}

/// Returns the error for a field whose value the gateway does not have.
fn refusal(key: &str) -> Fault {
    match key {
        "truncation" => unsupported(key, "use \"disabled\""),
        "service_tier" => unsupported(key, "use \"auto\" or \"default\""),
        key => Fault::unsupported(key),
    }
}

/// Asks for log probabilities if they are included. Their number alone would have no effect.
fn set_logprobs(body: &Object, chat: &mut Object) -> Result<(), Fault> {
    let most = get(body, "top_logprobs");
    if has_logprobs(body)? {
        chat.insert("logprobs", true.into());
        chat.insert("top_logprobs", most.cloned().unwrap_or_else(|| 0.into()));
        return Ok(());
    }
    if most.is_some_and(|most| number::integer(most) != Some(0)) {
        let message = format!("top_logprobs: expected `include` to have \"{LOGPROBS}\"");
        return Err(Fault::at("top_logprobs", FaultCode::Conflict, message));
    }
    Ok(())
}

/// Reads what the answer is to include.
fn has_logprobs(body: &Object) -> Result<bool, Fault> {
    let Some(include) = get(body, "include") else { return Ok(false) };
    let include = list(include, "include")?;
    let mut has_logprobs = false;
    for (index, value) in include.iter().enumerate() {
        let path = format!("include[{index}]");
        match value.as_str() {
            Some(LOGPROBS) => has_logprobs = true,
            // They are there in any case.
            Some("code_interpreter_call.outputs") => {}
            Some("reasoning.encrypted_content") => {
                let help = "the reasoning is in the `content` of its item, and can be sent back as it is";
                return Err(unsupported(&path, help));
            }
            Some(_) => return Err(Fault::unsupported(&path)),
            None => return Err(wrong(&path, "a text", value)),
        }
    }
    Ok(has_logprobs)
}

fn most_ids(body: &Object) -> Result<Option<u64>, Fault> {
    let Some(value) = get(body, "max_output_tokens") else { return Ok(None) };
    let wrong = || {
        let message = "max_output_tokens: expected a whole number from 1";
        Fault::at("max_output_tokens", FaultCode::WrongValue, message)
    };
    number::count(value).filter(|count| *count > 0).map(Some).ok_or_else(wrong)
}

/// Returns `text.format`, and what it is in chat completions.
fn format(body: &Object) -> Result<(Json, Option<Json>), Fault> {
    let plain = || Json::from(object! { "type" => "text" });
    let Some(text_field) = get(body, "text") else { return Ok((plain(), None)) };
    let text_field = object(text_field, "text")?;
    // The usual verbosity is that of the model.
    let is_usual = text(text_field, "text", "verbosity").is_ok_and(|verbosity| verbosity == Some("medium"));
    refuse_others(text_field, "text", if is_usual { &["format", "verbosity"] } else { &["format"] })?;
    let Some(given) = get(text_field, "format") else { return Ok((plain(), None)) };
    let format = object(given, "text.format")?;
    let kind = needed_text(format, "text.format", "type")?;
    let chat = match kind {
        "text" | "json_object" => {
            refuse_others(format, "text.format", &["type"])?;
            object! { "type" => kind }
        }
        "json_schema" => {
            let keys = ["name", "description", "schema", "strict"];
            needed_text(format, "text.format", "name")?;
            get(format, "schema").ok_or_else(|| missing("text.format.schema"))?;
            refuse_others(format, "text.format", &["type", keys[0], keys[1], keys[2], keys[3]])?;
            let mut inner = Object::new();
            for key in keys {
                if let Some(value) = get(format, key) {
                    inner.insert(key, value.clone());
                }
            }
            object! { "type" => "json_schema", "json_schema" => inner }
        }
        _ => {
            let path = "text.format.type";
            let message = format!("{path}: expected \"text\", \"json_schema\" or \"json_object\"");
            return Err(Fault::at(path, FaultCode::WrongValue, message));
        }
    };
    Ok((given.clone(), Some(chat.into())))
}

fn effort(body: &Object) -> Result<Option<Effort>, Fault> {
    let Some(reasoning) = get(body, "reasoning") else { return Ok(None) };
    let reasoning = object(reasoning, "reasoning")?;
    refuse_others(reasoning, "reasoning", &["effort"])?;
    text(reasoning, "reasoning", "effort")?.map(|level| Effort::read(level, EFFORT)).transpose()
}

fn labels(body: &Object) -> Result<Object, Fault> {
    let mut labels = object! { "metadata" => Object::new() };
    for key in LABELS {
        if let Some(label) = text(body, "", key)? {
            labels.insert(key, label.into());
        }
    }
    if let Some(metadata) = get(body, "metadata") {
        check_label("metadata", metadata)?;
        labels.insert("metadata", metadata.clone());
    }
    Ok(labels)
}
