//! The known keys of requests and messages, and the detection of misspelled ones.

use rolecall_conversation::json::Object;
use rolecall_conversation::spelling::near_miss;
use rolecall_conversation::{Json, Place, Problem};

use crate::Error;

/// The keys other than those of the conversation that rolecall reads.
pub(crate) const READ: [&str; 15] = [
    "id",
    "format",
    "options",
    "bos",
    "rules",
    "chat_template",
    "chat_template_name",
    "bos_token",
    "eos_token",
    "now",
    "output",
    "chunks",
    "finish_reason",
    "calls_in_reasoning",
    "unclosed_reasoning",
];

/// The keys that servers of this API read and that do not affect rendering.
pub(crate) const OF_API: [&str; 46] = [
    "audio",
    "best_of",
    "echo",
    "extra_body",
    "frequency_penalty",
    "function_call",
    "guided_choice",
    "guided_grammar",
    "guided_json",
    "guided_regex",
    "ignore_eos",
    "include_stop_str_in_output",
    "length_penalty",
    "logit_bias",
    "logprobs",
    "max_completion_tokens",
    "max_tokens",
    "metadata",
    "min_p",
    "min_tokens",
    "modalities",
    "model",
    "n",
    "parallel_tool_calls",
    "prediction",
    "presence_penalty",
    "prompt_cache_key",
    "reasoning_effort",
    "repetition_penalty",
    "response_format",
    "safety_identifier",
    "seed",
    "service_tier",
    "skip_special_tokens",
    "spaces_between_special_tokens",
    "stop",
    "stop_token_ids",
    "store",
    "stream",
    "stream_options",
    "temperature",
    "tool_choice",
    "top_k",
    "top_logprobs",
    "top_p",
    "user",
];

/// The keys of messages that OpenAI's API, inference engines, datasets and formats use.
const OF_MESSAGES: [&str; 23] = [
    "annotations",
    "audio",
    "content",
    "function_call",
    "id",
    "interpreter",
    "label",
    "loss",
    "metadata",
    "name",
    "observation",
    "plugin",
    "prefix",
    "reasoning",
    "reasoning_content",
    "refusal",
    "role",
    "thinking",
    "tool_call_id",
    "tool_calls",
    "tools",
    "train",
    "weight",
];

/// Reports whether a key of a message is known.
pub(crate) fn is_of_messages(key: &str) -> bool {
    OF_MESSAGES.contains(&key)
}

/// Rejects a call whose arguments are under another key, because it would have no arguments.
fn check_calls(index: usize, message: &Object) -> Result<(), Error> {
    let calls = message.get("tool_calls").and_then(Json::as_array).unwrap_or_default();
    for (at, call) in calls.iter().enumerate() {
        let Some(function) = call.as_object().and_then(|call| call.get("function")?.as_object()) else { continue };
        let other = ["parameters", "args", "input", "kwargs"].into_iter().find(|key| function.get(key).is_some());
        if let (None, Some(_)) = (function.get("arguments"), other) {
            let place = Place::message(index, format!("tool_calls[{at}].function.arguments"));
            return Err(rolecall_conversation::Error { place, problem: Problem::Missing }.into());
        }
    }
    Ok(())
}

/// Rejects messages with a misspelled key, and user messages whose content is under another key.
///
/// A key counts as misspelled if it is unknown and similar to a known key that the message does not
/// have.
pub(crate) fn check(messages: &[Json]) -> Result<(), Error> {
    for (index, message) in messages.iter().enumerate() {
        let Json::Object(message) = message else { continue };
        check_message(index, message)?;
    }
    Ok(())
}

fn check_message(index: usize, message: &Object) -> Result<(), Error> {
    // Most messages have only a role and content.
    if message.len() == 2 && message.get("role").is_some() && message.get("content").is_some() {
        return Ok(());
    }
    let others = || message.iter().map(|(key, _)| key).filter(|key| !OF_MESSAGES.contains(key));
    for key in others() {
        let missing = OF_MESSAGES.into_iter().filter(|known| message.get(known).is_none());
        if let Some(near) = near_miss(key, missing) {
            return Err(Error::MisspeltKey { key: key.to_owned(), near, message: Some(index) });
        }
    }
    check_calls(index, message)?;
    let is_users = message.get("role").and_then(Json::as_str) == Some("user");
    match others().next() {
        Some(key) if is_users && message.get("content").is_none() => {
            Err(Error::NoContent { message: index, key: key.to_owned() })
        }
        _ => Ok(()),
    }
}
