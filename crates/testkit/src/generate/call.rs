//! Tool calls.

use rolecall::conversation::json::{self, Layout, Object};
use rolecall::conversation::{Json, object};
use rolecall::format::Slot;
use rolecall::render::RuleMode;

use super::maker::Maker;
use super::value;

impl Maker<'_> {
    pub(super) fn call(&mut self, at: usize) -> Json {
        let mut call = Object::new();
        let id = self.rng.bool().then(|| self.in_message(&format!("tool_calls[{at}].id"), true));
        if let Some(id) = &id {
            call.insert("id", id.as_str().into());
        }
        self.ids.push(id);
        let interpreter = self.format.layout(Slot::CallInterpreter).is_some() || self.rules == RuleMode::Reference;
        let functions = self.format.layout(Slot::Call).is_some() || self.rules == RuleMode::Reference;
        if interpreter && (!functions || self.chance(3)) {
            let code = self.in_message(&format!("tool_calls[{at}].code_interpreter.input"), false);
            call.insert("type", "code_interpreter".into());
            call.insert("code_interpreter", object! { "input" => code }.into());
            return call.into();
        }
        let mut function = object! { "name" => self.in_header(&format!("tool_calls[{at}].function.name")) };
        match self.rng.u8(..8) {
            0 => {}
            1 => function.insert("arguments", Json::Null),
            2 => function.insert("arguments", "".into()),
            3..=4 => {
                let layout = if self.rng.bool() { Layout::compact() } else { Layout::indented(2) };
                let arguments = self.arguments(at);
                function.insert("arguments", json::write(&arguments, &layout).into());
            }
            _ => {
                let arguments = self.arguments(at);
                function.insert("arguments", arguments);
            }
        }
        if self.chance(3) {
            // Without the wrapper `function`.
            call.insert("name", function.get("name").cloned().unwrap_or(Json::Null));
            if let Some(arguments) = function.remove("arguments") {
                call.insert("arguments", arguments);
            }
            return call.into();
        }
        call.insert("type", "function".into());
        call.insert("function", function.into());
        call.into()
    }

    fn arguments(&mut self, call: usize) -> Json {
        let field = format!("tool_calls[{call}].function.arguments");
        let mut rng = self.rng.fork();
        let entries = (0..rng.usize(..4)).map(|_| {
            let key = self.in_message(&field, false);
            (key, value(&mut rng, 2, &mut |_| self.in_message(&field, false)))
        });
        Json::Object(entries.collect())
    }
}
