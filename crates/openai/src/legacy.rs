//! Conversion of OpenAI's first function calling to the current shape of tools.

use rolecall_conversation::json::Object;
use rolecall_conversation::{Json, object};

/// Converts `functions` to `tools`, and the `function_call` of each message to `tool_calls`, unless
/// the newer field exists.
pub(crate) fn modernize(request: &mut Object) {
    if request.get("tools").is_none_or(Json::is_null)
        && let Some(functions) = request.remove("functions")
    {
        request.insert("tools", functions);
    }
    let Some(Json::Array(messages)) = request.get_mut("messages") else { return };
    for message in messages {
        if let Json::Object(message) = message
            && message.get("tool_calls").is_none_or(Json::is_null)
            && let Some(Json::Object(call)) = message.get("function_call")
        {
            let call = object! { "type" => "function", "function" => call.clone() };
            message.insert("tool_calls", Json::Array(vec![call.into()]));
        }
    }
}
