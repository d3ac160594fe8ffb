use rolecall_conversation::json::Object;
use rolecall_conversation::{Error, Json, Message, object};
use rolecall_infer::LayoutWarning;
use rolecall_parse::{Event, Malformed, ParsedCall, Reading, Stop};

use super::fields::with_id;

/// Returns a parsed reply as
/// `{"id"?, "message": {"role", "content", "reasoning_content"?, "tool_calls"?}, "finish_reason", "malformed"}`.
///
/// The message can be added to those of a request as it is, if its calls are whole.
///
/// ```
/// use rolecall::{Event, Reading, Stop, answer};
/// use rolecall::conversation::json;
/// let mut reading = Reading::default();
/// reading.add(&Event::Content("Hello"));
/// reading.add(&Event::Stop(Stop::End));
/// let text = json::write(&answer::of_reading(None, &reading), &json::Layout::compact());
/// assert_eq!(text, r#"{"message":{"role":"assistant","content":"Hello"},"finish_reason":"stop","malformed":[]}"#);
/// ```
pub fn of_reading(id: Option<&Json>, reading: &Reading) -> Json {
    let mut answer = with_id(id);
    answer.insert("message", Json::Object(of_message(reading)));
    answer.insert("finish_reason", Json::from(finish_reason(reading)));
    answer.insert("malformed", Json::Array(reading.malformed.iter().map(of_malformed).collect()));
    Json::Object(answer)
}

/// Adds warnings about the layouts that parsed a reply, as `"warnings": [{"code", "part",
/// "message"}, ..]`. Nothing is added if there are none.
pub fn add_warnings(answer: &mut Json, warnings: &[LayoutWarning]) {
    let of = |warning: &LayoutWarning| {
        Json::Object(object! {
            "code" => warning.code(),
            "part" => warning.part.name(),
            "message" => warning.to_string(),
        })
    };
    if let (Json::Object(answer), false) = (answer, warnings.is_empty()) {
        answer.insert("warnings", Json::Array(warnings.iter().map(of).collect()));
    }
}

/// Converts a parsed reply to a message that can be rendered again.
///
/// The message has a role, and `tool_calls` if there are any. A tool call whose arguments are not a
/// JSON object, because the output was cut off, is an error.
pub fn to_message(reading: &Reading) -> Result<Message, Error> {
    Message::from_object(of_message(reading))
}

/// Returns the finish reason in OpenAI's terms: `tool_calls` if the model ended its turn after tool
/// calls, `abort` if the caller aborted.
pub fn finish_reason(reading: &Reading) -> &'static str {
    match reading.stop {
        Some(Stop::Length) => "length",
        Some(Stop::Abort) => "abort",
        Some(Stop::End) | None if reading.calls.is_empty() => "stop",
        Some(Stop::End) | None => "tool_calls",
    }
}

/// Returns an event as an object with a `type`.
///
/// The type is `content`, `reasoning`, `call_started`, `arguments`, `call_finished`,
/// `code_started`, `code`, `stop` or `malformed`.
///
/// ```
/// use rolecall::{Event, answer};
/// use rolecall::conversation::json;
/// let event = Event::CallStarted { index: 0, id: "call_1", name: "f" };
/// let text = json::write(&answer::of_event(&event), &json::Layout::compact());
/// assert_eq!(text, r#"{"type":"call_started","index":0,"id":"call_1","name":"f"}"#);
/// ```
pub fn of_event(event: &Event<'_>) -> Json {
    Json::Object(match *event {
        Event::Content(text) => object! { "type" => "content", "text" => text },
        Event::Reasoning(text) => object! { "type" => "reasoning", "text" => text },
        Event::CallStarted { index, id, name } => {
            object! { "type" => "call_started", "index" => index as i64, "id" => id, "name" => name }
        }
        Event::Arguments { index, text } => object! { "type" => "arguments", "index" => index as i64, "text" => text },
        Event::CallFinished { index, whole, id } => {
            let mut object = object! { "type" => "call_finished", "index" => index as i64, "whole" => whole };
            if let Some(id) = id {
                object.insert("id", Json::from(id));
            }
            object
        }
        Event::CodeStarted { index, id } => object! { "type" => "code_started", "index" => index as i64, "id" => id },
        Event::Code { index, text } => object! { "type" => "code", "index" => index as i64, "text" => text },
        Event::Stop(stop) => {
            let reason = match stop {
                Stop::End => "stop",
                Stop::Length => "length",
                Stop::Abort => "abort",
            };
            object! { "type" => "stop", "reason" => reason }
        }
        Event::Malformed(ref malformed) => {
            let mut object = object! { "type" => "malformed" };
            if let Json::Object(facts) = of_malformed(malformed) {
                facts.iter().for_each(|(key, value)| object.insert(key, value.clone()));
            }
            object
        }
        _ => unforeseen(event),
    })
}

/// Returns a placeholder for an event that this crate does not know. `fixtures/cli/parse` covers
/// today's events.
fn unforeseen(event: &Event<'_>) -> Object {
    debug_assert!(false, "{event:?}");
    object! { "type" => "unknown" }
}

/// Returns `{"span": [5, 9], "code", "message"}`. The span is in bytes of the output.
fn of_malformed(malformed: &Malformed) -> Json {
    let end = |at: u64| Json::from(i64::try_from(at).unwrap_or(i64::MAX));
    Json::Object(object! {
        "span" => Json::Array(vec![end(malformed.span.start), end(malformed.span.end)]),
        "code" => malformed.why.code(),
        "message" => malformed.why.to_string(),
    })
}

pub(super) fn of_message(reading: &Reading) -> Object {
    let mut message = object! { "role" => "assistant", "content" => reading.content.as_str() };
    if let Some(reasoning) = &reading.reasoning {
        message.insert("reasoning_content", Json::from(reasoning.as_str()));
    }
    // Some templates take an empty list for calls.
    if !reading.calls.is_empty() {
        message.insert("tool_calls", calls(reading));
    }
    message
}

fn calls(reading: &Reading) -> Json {
    Json::Array(reading.calls.iter().map(of_call).collect())
}

fn of_call(call: &ParsedCall) -> Json {
    Json::Object(match call {
        ParsedCall::Function { id, name, arguments, .. } => {
            let function = object! { "name" => name.as_str(), "arguments" => arguments.as_str() };
            object! { "id" => id.as_str(), "type" => "function", "function" => function }
        }
        ParsedCall::Code { id, code, .. } => {
            let input = object! { "input" => code.as_str() };
            object! { "id" => id.as_str(), "type" => "code_interpreter", "code_interpreter" => input }
        }
    })
}
