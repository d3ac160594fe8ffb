use rolecall::conversation::json::Object;
use rolecall::conversation::{Json, object};
use rolecall::{Model, Request};

use super::field::unsupported;
use crate::Fault;

/// How much the model is to reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effort(pub String);

/// The levels. Source: OpenAI's API reference.
const LEVELS: [&str; 7] = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];

/// The switches of chat templates that turn the reasoning off.
const OFF: [&str; 2] = ["enable_thinking", "thinking"];

impl Effort {
    pub fn read(level: Option<&str>) -> Result<Option<Effort>, Fault> {
        match level {
            None => Ok(None),
            Some(level) if LEVELS.contains(&level) => Ok(Some(Effort(level.to_owned()))),
            Some(_) => {
                let message = format!("reasoning.effort: expected one of {}", LEVELS.join(", "));
                Err(Fault::at("reasoning.effort", "wrong_value", message))
            }
        }
    }

    /// Returns the switch of the model's template that it means. A level that the template cannot express
    /// is an error.
    pub fn switch(&self, model: &Model) -> Result<(&'static str, Json), Fault> {
        let Effort(level) = self;
        let level: Json = level.as_str().into();
        if reads(model, "reasoning_effort", &level) {
            return Ok(("reasoning_effort", level));
        }
        let off = OFF.into_iter().find(|name| reads(model, name, &false.into()));
        match (off, &*self.0) {
            (Some(name), "none") => Ok((name, false.into())),
            (Some(_), _) => Err(unsupported("reasoning.effort", "the model's template has only the level \"none\"")),
            (None, _) => Err(unsupported("reasoning.effort", "the model's template has no such switch")),
        }
    }
}

/// Reports whether a model's template reads a switch.
fn reads(model: &Model, name: &str, value: &Json) -> bool {
    let mut switches = Object::new();
    switches.insert(name, value.clone());
    let message: Json = object! { "role" => "user", "content" => "Hello" }.into();
    let body = object! { "messages" => vec![message], "chat_template_kwargs" => switches };
    let prompt = Request::from_json(body.into()).map_err(rolecall::Error::Request).and_then(|body| model.prompt(body));
    let place = format!("chat_template_kwargs.{name}");
    prompt.is_ok_and(|prompt| !prompt.into_prompt().dropped.iter().any(|dropped| dropped.place.field == place))
}
