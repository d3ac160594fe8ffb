use rolecall::conversation::json::{self, Object};
use rolecall::conversation::{Json, object};

use super::blocks::Blocks;
use super::history::{History, Sources};
use super::thinking::Thinking;
use super::tools;
use crate::api::effort::Effort;
use crate::gateway::Gateway;
use crate::request::labels::check_cache_mark;
use crate::{Fault, FaultCode};

/// A request in the shape of chat completions.
pub struct ConvertedRequest {
    pub chat: Object,
    /// Where its messages come from.
    pub sources: Sources,
    /// The blocks of its answer, none yet.
    pub blocks: Blocks,
    /// The fields that nothing enforces.
    pub wishes: Vec<&'static str>,
}

/// The keys that mean the same in chat completions. The last nine are the gateway's own.
const SAME: [&str; 15] = [
    "model",
    "max_tokens",
    "temperature",
    "top_p",
    "top_k",
    "stream",
    "chat_template_kwargs",
    "frequency_penalty",
    "logit_bias",
    "min_p",
    "on_rewrite",
    "calls_in_reasoning",
    "unclosed_reasoning",
    "presence_penalty",
    "seed",
];

/// Translates a request.
pub fn read(gateway: &Gateway, body: &str) -> Result<ConvertedRequest, Fault> {
    let value = json::parse_unique(body).map_err(rolecall::request::Error::from)?;
    let Json::Object(mut body) = value else {
        return Err(Fault::new(FaultCode::WrongType, "expected a JSON object"));
    };
    let mut history = History::default();
    if let Some(system) = body.remove("system").filter(|system| !system.is_null()) {
        history.add_system(&system)?;
    }
    let messages = body.remove("messages");
    let messages = messages.as_ref().and_then(Json::as_array);
    let messages = messages.filter(|messages| !messages.is_empty()).ok_or_else(|| {
        Fault::at("messages", FaultCode::WrongType, "messages: expected a list of at least one message")
    })?;
    let offered = body.remove("tools").unwrap_or(Json::Null);
    let name_of_code = tools::name_of_code(&offered);
    let offered = tools::read(&offered)?;
    history.add(messages, &offered)?;
    let mut chat = object! { "messages" => std::mem::take(&mut history.messages) };
    if history.goes_on {
        chat.insert("continue_final_message", true.into());
    }
    if !offered.is_empty() {
        chat.insert("tools", offered.into());
    }
    let (mut thinking, mut effort) = (Thinking::default(), None);
    for (key, value) in body.iter().filter(|(_, value)| !value.is_null()) {
        match key {
            "stop_sequences" => chat.insert("stop", stops(value)?),
            "tool_choice" => tools::choose(value, &mut chat)?,
            "thinking" => thinking = Thinking::read(value)?,
            "metadata" => check_labels(value)?,
            "context_management" => check_edits(value)?,
            "output_config" => effort = configure(value, &mut chat)?,
            "service_tier" if matches!(value.as_str(), Some("auto" | "standard_only")) => {}
            "speed" if value.as_str() == Some("standard") => {}
            "cache_control" => {}
            key if SAME.contains(&key) || key == "repetition_penalty" => chat.insert(key, value.clone()),
            key => return Err(Fault::unsupported(key)),
        }
    }
    check_cache_mark(&body, "")?;
    let blocks = Blocks::new(thinking.is_shown, name_of_code);
    let mut wishes: Vec<&str> = thinking.has_budget.then_some("thinking.budget_tokens").into_iter().collect();
    let served = gateway.model(chat.get("model"))?;
    thinking.apply(served, &mut chat)?;
    if let Some(effort) = effort {
        let has_switches = body.get("chat_template_kwargs").is_some();
        match effort.set(&served.model, EFFORT, &mut chat) {
            Ok(()) => {}
            // It is a wish, which Anthropic's clients send to any model.
            Err(fault) if fault.code == FaultCode::UnsupportedParameter => wishes.push(EFFORT),
            Err(fault) if fault.code == FaultCode::Conflict && !has_switches => {
                let message = format!("`{EFFORT}` and `thinking` say different things");
                return Err(Fault::at(EFFORT, FaultCode::Conflict, message));
            }
            Err(fault) => return Err(fault),
        }
    }
    Ok(ConvertedRequest { chat, sources: history.sources, blocks, wishes })
}

fn stops(value: &Json) -> Result<Json, Fault> {
    let is_list = value.as_array().is_some_and(|texts| texts.iter().all(|text| text.as_str().is_some()));
    let wrong = || Fault::at("stop_sequences", FaultCode::WrongType, "stop_sequences: expected a list of texts");
    is_list.then(|| value.clone()).ok_or_else(wrong)
}

/// Checks what the server is to leave out of the conversation, which can only be nothing: the gateway keeps all of it.
fn check_edits(value: &Json) -> Result<(), Fault> {
    const FIELD: &str = "context_management";
    let wrong = || Fault::at(FIELD, FaultCode::WrongType, format!("{FIELD}: expected an object"));
    for (key, value) in value.as_object().ok_or_else(wrong)?.iter().filter(|(_, value)| !value.is_null()) {
        let edits = value.as_array().filter(|_| key == "edits");
        let edits = edits.ok_or_else(|| Fault::unsupported(&format!("{FIELD}.{key}")))?;
        let keeps_all = |edit: &Json| {
            let text = |key: &str| edit.as_object()?.get(key)?.as_str();
            text("type").is_some_and(|kind| kind.starts_with("clear_thinking_")) && text("keep") == Some("all")
        };
        if let Some(index) = edits.iter().position(|edit| !keeps_all(edit)) {
            return Err(Fault::unsupported(&format!("{FIELD}.edits[{index}]")));
        }
    }
    Ok(())
}

/// Checks the labels, of which Anthropic's API has one.
fn check_labels(value: &Json) -> Result<(), Fault> {
    let labels = value.as_object();
    let labels = labels.ok_or_else(|| Fault::at("metadata", FaultCode::WrongType, "metadata: expected an object"))?;
    for (key, value) in labels.iter() {
        match (key, value) {
            ("user_id", Json::Null | Json::String(_)) => {}
            ("user_id", _) => {
                return Err(Fault::at("metadata.user_id", FaultCode::WrongType, "metadata.user_id: expected a text"));
            }
            (key, _) => return Err(Fault::unsupported(&format!("metadata.{key}"))),
        }
    }
    Ok(())
}

/// The name of the level of reasoning.
const EFFORT: &str = "output_config.effort";

/// Reads what the answer must look like, and returns how much the model is to reason.
fn configure(config: &Json, chat: &mut Object) -> Result<Option<Effort>, Fault> {
    let wrong = || Fault::at("output_config", FaultCode::WrongType, "output_config: expected an object");
    let mut effort = None;
    for (key, value) in config.as_object().ok_or_else(wrong)?.iter().filter(|(_, value)| !value.is_null()) {
        let field = format!("output_config.{key}");
        match (key, value) {
            ("format", Json::Object(format)) => {
                let known = |key: &str| ["type", "schema"].contains(&key);
                let other = format.iter().find(|(key, value)| !known(key) && !value.is_null());
                if let Some((key, _)) = other {
                    return Err(Fault::unsupported(&format!("{field}.{key}")));
                }
                let is_schema = format.get("type").and_then(Json::as_str) == Some("json_schema");
                let schema = format.get("schema").filter(|_| is_schema);
                let schema = schema.ok_or_else(|| Fault::unsupported(&field))?;
                let schema = object! { "name" => "answer", "schema" => schema.clone(), "strict" => true };
                chat.insert("response_format", object! { "type" => "json_schema", "json_schema" => schema }.into());
            }
            ("effort", Json::String(level)) => effort = Some(Effort::read(level, EFFORT)?),
            _ => return Err(Fault::unsupported(&field)),
        }
    }
    Ok(effort)
}
