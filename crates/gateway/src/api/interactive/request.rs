use rolecall::conversation::json::{self, Object};
use rolecall::conversation::{Json, object};

use crate::request::flag::flag;
use crate::request::neutral::is_neutral;
use crate::request::number;
use crate::{Fault, FaultCode};

/// What a request asks for.
pub enum InteractiveRequest {
    /// The end of a conversation, by its name.
    End(String),
    /// The end of the replies in a conversation, by its name.
    Cancel(String),
    Reply {
        /// The request in the shape of chat completions.
        chat: Object,
        /// The name of the conversation.
        session: Option<String>,
        /// Whether it goes on after the answer.
        goes_on: bool,
    },
}

/// The keys that mean the same in chat completions. The last six are the gateway's own.
const SAME: [&str; 15] = [
    "stop",
    "stream",
    "top_p",
    "top_k",
    "temperature",
    "repetition_penalty",
    "min_p",
    "model",
    "seed",
    "chat_template_kwargs",
    "on_rewrite",
    "calls_in_reasoning",
    "unclosed_reasoning",
    "presence_penalty",
    "frequency_penalty",
];

impl InteractiveRequest {
    pub fn read(body: &str) -> Result<InteractiveRequest, Fault> {
        let value = json::parse_unique(body).map_err(rolecall::request::Error::from)?;
        let Json::Object(body) = value else {
            return Err(Fault::new(FaultCode::WrongType, "expected a JSON object"));
        };
        let session = session(&body)?;
        let goes_on = flag(&body, "interactive_mode", false)?;
        let is_cancel = flag(&body, "cancel", false)?;
        let most = body.get("request_output_len").filter(|most| !most.is_null());
        let prompt = body.get("prompt").unwrap_or(&Json::Null);
        let is_end = !goes_on && prompt.as_str() == Some("") && most.and_then(number::integer) == Some(0);
        let messages = match prompt {
            Json::String(text) => vec![Json::from(object! { "role" => "user", "content" => text.as_str() })],
            Json::Array(messages) => messages.clone(),
            _ => return Err(Fault::at("prompt", FaultCode::WrongType, "prompt: expected a text or messages")),
        };
        let mut chat = object! { "messages" => messages };
        if let Some(most) = most {
            chat.insert("max_tokens", most.clone());
        }
        for (key, value) in body.iter().filter(|(_, value)| !value.is_null()) {
            match key {
                "prompt" | "session_id" | "interactive_mode" | "request_output_len" | "cancel" => {}
                key if is_neutral(key, value)? => {}
                key if SAME.contains(&key) => chat.insert(key, value.clone()),
                key => return Err(Fault::unsupported(key)),
            }
        }
        match session {
            Some(session) if is_cancel => Ok(InteractiveRequest::Cancel(session)),
            None if is_cancel => Err(Fault::at(
                "session_id",
                FaultCode::MissingField,
                "session_id: `cancel` needs the number of a conversation",
            )),
            Some(session) if is_end => Ok(InteractiveRequest::End(session)),
            session => Ok(InteractiveRequest::Reply { chat, session, goes_on }),
        }
    }
}

/// Returns the name of a request's conversation. The number -1 means none.
fn session(body: &Object) -> Result<Option<String>, Fault> {
    let Some(value) = body.get("session_id").filter(|value| !value.is_null()) else { return Ok(None) };
    if number::integer(value) == Some(-1) {
        return Ok(None);
    }
    let wrong = || Fault::at("session_id", FaultCode::WrongValue, "session_id: expected a whole number from -1");
    number::count(value).map(|id| Some(format!("session:{id}"))).ok_or_else(wrong)
}

/// Returns a fault with the field as this API names it.
pub fn renamed(fault: Fault) -> Fault {
    match fault.param.as_deref() {
        Some("max_tokens") => Fault { param: Some("request_output_len".into()), ..fault },
        _ => fault,
    }
}
