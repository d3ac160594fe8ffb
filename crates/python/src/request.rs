//! Keyword arguments as requests.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use rolecall::Request;
use rolecall::conversation::Json;
use rolecall::conversation::json::Object;
use rolecall::model::{ReplyContext, assumed_messages};
use rolecall::parse::ParseOptions;

use crate::input::{self, Path};
use crate::{error, switches};

/// The arguments that say what a reply answers.
pub struct ReplyArguments<'a, 'py> {
    pub messages: Option<&'a Bound<'py, PyAny>>,
    pub tools: Option<&'a Bound<'py, PyAny>>,
    pub documents: Option<&'a Bound<'py, PyAny>>,
    pub continue_final_message: Option<bool>,
    pub switches: Option<&'a Bound<'py, PyDict>>,
}

/// What a reply answers.
pub struct ReplyRequest {
    request: Request,
    /// Whether only the tools are known.
    is_assumed: bool,
}

impl ReplyArguments<'_, '_> {
    pub fn request(&self, py: Python<'_>, model: &rolecall::Model) -> PyResult<ReplyRequest> {
        let messages = match self.messages {
            Some(messages) => input::json(messages, &mut Path::of("messages"))?,
            None => assumed_messages(),
        };
        let flags = [("continue_final_message", self.continue_final_message)];
        let request = read(py, keywords(model, messages, self.tools, self.documents, flags, self.switches)?)?;
        Ok(ReplyRequest { request, is_assumed: self.messages.is_none() })
    }
}

impl ReplyRequest {
    pub fn context(self, model: &rolecall::Model, options: ParseOptions) -> Result<ReplyContext, rolecall::Error> {
        match self.is_assumed {
            true => model.assumed_reply_context(self.request, options),
            false => model.reply_context(self.request, options),
        }
    }
}

/// Returns the request of keyword arguments.
pub fn request<const N: usize>(
    model: &rolecall::Model,
    messages: &Bound<'_, PyAny>,
    tools: Option<&Bound<'_, PyAny>>,
    documents: Option<&Bound<'_, PyAny>>,
    flags: [(&'static str, Option<bool>); N],
    switches: Option<&Bound<'_, PyDict>>,
) -> PyResult<Request> {
    let value = input::json(messages, &mut Path::of("messages"))?;
    read(messages.py(), keywords(model, value, tools, documents, flags, switches)?)
}

fn read(py: Python<'_>, object: Object) -> PyResult<Request> {
    let request = Request::from_json(Json::Object(object));
    request.map_err(|error| error::of(py, &rolecall::Error::Request(error)))
}

/// Returns keyword arguments as the JSON object of a request.
pub fn keywords<const N: usize>(
    model: &rolecall::Model,
    messages: Json,
    tools: Option<&Bound<'_, PyAny>>,
    documents: Option<&Bound<'_, PyAny>>,
    flags: [(&'static str, Option<bool>); N],
    switches: Option<&Bound<'_, PyDict>>,
) -> PyResult<Object> {
    let mut object = Object::new();
    object.insert("messages", messages);
    for (name, value) in [("tools", tools), ("documents", documents)] {
        if let Some(value) = value {
            object.insert(name, input::json(value, &mut Path::of(name))?);
        }
    }
    for (name, value) in flags {
        if let Some(value) = value {
            object.insert(name, Json::Bool(value));
        }
    }
    if let Some(switches) = switches {
        switches::check(model, switches)?;
        object.insert("chat_template_kwargs", input::json(switches, &mut Path::of("chat_template_kwargs"))?);
    }
    Ok(object)
}
