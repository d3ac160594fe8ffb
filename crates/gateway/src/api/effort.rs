use rolecall::Model;
use rolecall::conversation::Json;
use rolecall::conversation::json::Object;
use rolecall::template::{EFFORT_SWITCH, EFFORTS};

use crate::{Fault, FaultCode};

/// How much the model is to reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effort(pub String);

impl Effort {
    /// Reads a level. `field` is its name in the request.
    pub fn read(level: &str, field: &str) -> Result<Effort, Fault> {
        if EFFORTS.contains(&level) {
            return Ok(Effort(level.to_owned()));
        }
        let message = format!("{field}: expected one of {}", EFFORTS.join(", "));
        Err(Fault::at(field, FaultCode::WrongValue, message))
    }

    /// Sets the switches of the model's template that it means in a chat completion.
    pub fn set(&self, model: &Model, field: &str, chat: &mut Object) -> Result<(), Fault> {
        const SWITCHES: &str = "chat_template_kwargs";
        let mut switches = match chat.remove(SWITCHES) {
            None => Object::new(),
            Some(Json::Object(switches)) => switches,
            Some(_) => {
                return Err(Fault::at(SWITCHES, FaultCode::WrongType, format!("{SWITCHES}: expected an object")));
            }
        };
        self.add_to(model, field, &mut switches)?;
        chat.insert(SWITCHES, switches.into());
        Ok(())
    }

    /// Adds the switches of the model's template that it means to those of the client. A level that has no effect is
    /// an error.
    pub fn add_to(&self, model: &Model, field: &str, switches: &mut Object) -> Result<(), Fault> {
        let meant = model.effort_switches(&self.0, switches).ok_or_else(|| unknown(model, field, switches))?;
        // Another switch may stand for the level.
        let level = (EFFORT_SWITCH, &Json::from(self.0.as_str()));
        let differs = |(name, value): &(&str, &Json)| switches.get(name).is_some_and(|given| given != *value);
        if let Some((name, _)) = meant.iter().chain([level]).find(differs) {
            let message = format!("`{field}` and `chat_template_kwargs.{name}` differ");
            return Err(Fault::at(field, FaultCode::Conflict, message));
        }
        meant.iter().for_each(|(name, value)| switches.insert(name, value.clone()));
        Ok(())
    }
}

/// Returns the error for a level that the model's template does not know.
fn unknown(model: &Model, field: &str, given: &Object) -> Fault {
    let known: Vec<&str> = EFFORTS.into_iter().filter(|level| model.effort_switches(level, given).is_some()).collect();
    let help = match known[..] {
        [] => "the model's template has no such switch".to_owned(),
        [level] => format!("the model's template has only the level \"{level}\""),
        _ => format!("the model's template has only the levels {}", known.join(", ")),
    };
    Fault { help: Some(help.into()), ..Fault::unsupported(field) }
}
