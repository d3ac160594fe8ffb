//! OpenAI's first function calling, brought into the shape of today's tools.

use rolecall_conversation::json::Object;
use rolecall_conversation::{Json, object};

/// `functions` becomes `tools`, and each message's `function_call` one of `tool_calls`, where the newer field is not there.
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
