use rolecall::conversation::json::Object;
use rolecall::conversation::{Json, REASONING, object};
use rolecall::parse::ParseOptions;
use rolecall::{Model, Request};

use super::block::RequestSpot;
use crate::request::number;
use crate::served_model::ServedModel;
use crate::{Fault, FaultCode};

/// Whether the model thinks before it answers.
pub struct Thinking {
    mode: Mode,
    /// Whether the answer has the text of it.
    pub is_shown: bool,
    /// Whether it should have at most so many ids.
    pub has_budget: bool,
}

enum Mode {
    /// As the template has it.
    Usual,
    /// If the model can.
    Adaptive,
    Enabled,
    Disabled,
}

impl Default for Thinking {
    fn default() -> Thinking {
        Thinking { mode: Mode::Usual, is_shown: true, has_budget: false }
    }
}

impl Thinking {
    pub fn read(value: &Json) -> Result<Thinking, Fault> {
        let spot = RequestSpot { field: "thinking".to_owned(), message: None };
        let object = value.as_object().ok_or_else(|| spot.fault(FaultCode::WrongType, "expected an object"))?;
        let mode = match object.get("type").and_then(Json::as_str) {
            Some("enabled") => Mode::Enabled,
            Some("adaptive") => Mode::Adaptive,
            Some("disabled") => Mode::Disabled,
            Some(other) => return Err(spot.within(".type").unsupported(other)),
            None => return Err(spot.within(".type").fault(FaultCode::MissingField, "this field is needed")),
        };
        let (mut is_shown, mut has_budget) = (true, false);
        for (key, value) in object.iter().filter(|(_, value)| !value.is_null()) {
            let spot = spot.within(&format!(".{key}"));
            match (key, value.as_str()) {
                ("type", _) => {}
                ("display", Some("summarized")) => {}
                ("display", Some("omitted")) => is_shown = false,
                ("display", _) => {
                    return Err(spot.fault(FaultCode::WrongValue, "expected \"summarized\" or \"omitted\""));
                }
                ("budget_tokens", _) => {
                    number::count(value).ok_or_else(|| spot.fault(FaultCode::WrongType, "expected a whole number"))?;
                    has_budget = true;
                }
                (key, _) => return Err(spot.unsupported(key)),
            }
        }
        Ok(Thinking { mode, is_shown, has_budget })
    }

    /// Sets the switch that the model's template has for it. What the model cannot do is refused.
    pub fn apply(&self, served: &ServedModel, chat: &mut Object) -> Result<(), Fault> {
        let wanted = match self.mode {
            Mode::Usual => return Ok(()),
            Mode::Adaptive | Mode::Enabled => true,
            Mode::Disabled => false,
        };
        let refuse = |why: &str| {
            let fault = Fault::at("thinking.type", FaultCode::UnsupportedParameter, format!("thinking.type: {why}"));
            Err(Fault { help: Some("leave `thinking` out".into()), ..fault })
        };
        if let Some(name) = switch_of(&served.model) {
            let mut switches = match chat.remove("chat_template_kwargs") {
                None => Object::new(),
                Some(Json::Object(switches)) => switches,
                Some(_) => {
                    let field = "chat_template_kwargs";
                    return Err(Fault::at(field, FaultCode::WrongType, format!("{field}: expected an object")));
                }
            };
            if switches.get(name).is_some_and(|set| set.as_bool() != Some(wanted)) {
                let message = format!("`thinking` and `chat_template_kwargs.{name}` differ");
                return Err(Fault::at("thinking", FaultCode::Conflict, message));
            }
            switches.insert(name, wanted.into());
            chat.insert("chat_template_kwargs", switches.into());
            return Ok(());
        }
        let context = served.model.reply_context_after(&any_request(None)?, "", ParseOptions::default())?;
        let has_markers = context.around_reasoning().is_some();
        let can_think = has_markers || writes_thoughts(&served.model);
        match self.mode {
            Mode::Enabled if !can_think => refuse("the model does not think"),
            Mode::Disabled if can_think => refuse("the model's template cannot switch thinking off"),
            _ => Ok(()),
        }
    }
}

/// The names of this switch in public templates.
const SWITCHES: [&str; 2] = ["enable_thinking", "thinking"];

/// Returns the switch of a model whose two values give two prompts.
fn switch_of(model: &Model) -> Option<&'static str> {
    let text = |name: &str, value: bool| {
        let prompt = model.prompt(any_request(Some((name, value))).ok()?).ok()?;
        Some(prompt.text().to_owned())
    };
    SWITCHES.into_iter().find(|name| match (text(name, true), text(name, false)) {
        (Some(on), Some(off)) => on != off,
        _ => false,
    })
}

/// Reports whether the template writes the reasoning of a reply, in whatever way.
fn writes_thoughts(model: &Model) -> bool {
    const THOUGHT: &str = "thought-7";
    let mut reply = object! { "role" => "assistant", "content" => "b" };
    REASONING.iter().for_each(|key| reply.insert(*key, THOUGHT.into()));
    let user = object! { "role" => "user", "content" => "a" };
    let request = object! { "messages" => vec![Json::from(user), reply.into()], "add_generation_prompt" => false };
    let prompt = Request::from_json(request.into()).ok().and_then(|request| model.prompt(request).ok());
    prompt.is_some_and(|prompt| prompt.text().contains(THOUGHT))
}

fn any_request(switch: Option<(&str, bool)>) -> Result<Request, Fault> {
    let message = object! { "role" => "user", "content" => "a" };
    let mut request = object! { "messages" => vec![Json::from(message)] };
    if let Some((name, value)) = switch {
        let mut switches = Object::new();
        switches.insert(name, value.into());
        request.insert("chat_template_kwargs", switches.into());
    }
    Ok(Request::from_json(request.into())?)
}
