use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use rolecall::conversation::json::{self, Layout, Object};
use rolecall::conversation::{Json, object};

use crate::fault_code::FaultCode;
use crate::turn::First;
use crate::turn::context::Excess;

/// An error as a client gets it, in the shape of OpenAI's API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The status of the answer.
    pub status: u16,
    /// A stable name for what is wrong.
    pub code: FaultCode,
    /// What is wrong, and where.
    pub message: Box<str>,
    /// The field of the request.
    pub param: Option<Box<str>>,
    /// The index of the message.
    pub message_index: Option<u32>,
    /// What to do about it.
    pub help: Option<Box<str>>,
    /// By how much the prompt is too long.
    pub(crate) excess: Option<Excess>,
    /// After how many seconds the client may try again.
    pub retry_after: Option<u32>,
}

impl Fault {
    /// Returns an error with the status of its code.
    pub fn new(code: FaultCode, message: impl Into<Box<str>>) -> Fault {
        let (status, message) = (code.status(), message.into());
        let (param, message_index, help, excess, retry_after) = (None, None, None, None, None);
        Fault { status, code, message, param, message_index, help, excess, retry_after }
    }

    /// Returns an error of a field of the request.
    pub fn at(field: &str, code: FaultCode, message: impl Into<Box<str>>) -> Fault {
        Fault { param: Some(field.into()), ..Fault::new(code, message) }
    }

    /// Returns the error for a setting that the gateway does not have.
    pub fn unsupported(field: &str) -> Fault {
        let message = format!("the gateway does not support `{field}`");
        Fault { help: Some("leave it out".into()), ..Fault::at(field, FaultCode::UnsupportedParameter, message) }
    }

    /// Returns the error for a client that counts its own messages.
    #[must_use]
    pub(crate) fn counted_from(self, first: First) -> Fault {
        let own = |index: u32| u32::try_from(first.own_index(usize::try_from(index).ok()?)?).ok();
        let own = self.message_index.and_then(own);
        // The text names it, too.
        let rest = self.message_index.and_then(|index| self.message.strip_prefix(&format!("message {index}")));
        let message = own.and_then(|own| Some(format!("message {own}{}", rest?)));
        let message = message.map_or_else(|| self.message.clone(), Into::into);
        Fault { message_index: own, message, ..self }
    }

    /// Returns the error as JSON.
    pub fn to_json(&self) -> Json {
        let kind = match self.status {
            401 | 403 => "authentication_error",
            404 => "not_found_error",
            // As OpenAI's API calls servers that are not its own.
            424 => "external_connector_error",
            429 => "rate_limit_error",
            400..500 => "invalid_request_error",
            _ => "server_error",
        };
        let text = |text: &Option<Box<str>>| text.as_deref().map_or(Json::Null, Json::from);
        let mut error: Object = object! {
            "message" => &*self.message, "type" => kind, "param" => text(&self.param), "code" => self.code.name(),
        };
        if let Some(index) = self.message_index {
            error.insert("message_index", i64::from(index).into());
        }
        if self.help.is_some() {
            error.insert("help", text(&self.help));
        }
        Json::Object(object! { "error" => error })
    }
}

impl From<rolecall::Error> for Fault {
    fn from(error: rolecall::Error) -> Fault {
        use rolecall::Error;
        use rolecall::template::CodeErrorKind;
        let status = match error {
            // What the gateway was started with.
            Error::Tokenizer { .. } | Error::NoTokenizer | Error::File(_) | Error::Format(_) | Error::NoFormat => 500,
            Error::Internal { .. } => 500,
            Error::Render(rolecall::render::Error::Code(ref error)) if error.kind == CodeErrorKind::Unavailable => 500,
            _ => 400,
        };
        let (param, message_index) = match error.place() {
            None if error.code() == "unknown_tool" => (Some("tool_choice".into()), None),
            Some(place) => {
                let field = Some(place.field).filter(|field| !field.is_empty());
                (field.map(Into::into), place.message.and_then(|index| u32::try_from(index).ok()))
            }
            None => (None, None),
        };
        let help = error.help().map(Into::into);
        Fault { status, param, message_index, help, ..Fault::new(FaultCode::Other(error.code()), error.to_string()) }
    }
}

impl From<rolecall::request::Error> for Fault {
    fn from(error: rolecall::request::Error) -> Fault {
        rolecall::Error::Request(error).into()
    }
}

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        self.into_response_as(of_openai, None)
    }
}

impl Fault {
    /// Returns the answer in the shape of an API, to a request with an id.
    pub(crate) fn into_response_as(self, shape: FaultShape, id: Option<&str>) -> Response {
        let mut response = answer(&shape(&self, id));
        *response.status_mut() = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        response.extensions_mut().insert(self.code);
        if self.status == 401 {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}

/// Writes an error in the shape of an API. Some name the request's id.
pub(crate) type FaultShape = fn(&Fault, Option<&str>) -> Json;

/// Returns an error in the shape of OpenAI's API.
pub(crate) fn of_openai(fault: &Fault, _: Option<&str>) -> Json {
    fault.to_json()
}

/// Returns an answer of JSON.
pub(crate) fn answer(value: &Json) -> Response {
    let mut response = Response::new(Body::from(json::write(value, &Layout::compact())));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
