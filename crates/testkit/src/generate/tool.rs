//! Tools and documents that a request offers.

use rolecall::Origin;
use rolecall::conversation::json::Object;
use rolecall::conversation::{Json, object};
use rolecall::format::Slot;
use rolecall::render::RuleMode;

use super::maker::Maker;
use super::{Spot, number};

impl Maker<'_> {
    pub(super) fn tool(&mut self, origin: &Origin) -> Json {
        let mut text = || (self.text)(&Spot { origin: origin.clone(), silent: false });
        let property = object! {
            "type" => "string", "description" => text(), "enum" => vec![Json::from(text()), Json::from(text())],
        };
        let key = text();
        let mut properties = Object::new();
        properties.insert(key.as_str(), property.into());
        let mut parameters = object! { "type" => "object", "properties" => properties };
        parameters.insert(text(), Json::Number(number(&mut self.rng.fork())));
        let mut function = object! { "name" => text(), "description" => text(), "parameters" => parameters };
        let other = text();
        function.insert("strict", self.rng.bool().into());
        function.insert("note", other.into());
        match self.rng.u8(..3) {
            0 => function.into(),
            _ => object! { "type" => "function", "function" => function }.into(),
        }
    }

    /// Makes a request with tools and documents but no messages.
    pub(super) fn offers(&mut self) -> Object {
        let mut request = Object::new();
        let free = self.rules == RuleMode::Reference;
        if self.alone.is_some() && !free {
            return request;
        }
        let mut tools = Vec::new();
        let printed =
            Slot::ALL.into_iter().any(|slot| ["tools", "functions"].into_iter().any(|hole| self.prints(slot, hole)));
        if (printed || free) && self.chance(2) {
            for at in 0..self.rng.usize(1..3) {
                tools.push(self.tool(&Origin::Tool { tool: at }));
            }
            self.offered = true;
        }
        if (self.format.defaults.interpreter.is_some() || free) && self.chance(3) {
            // The interpreter may be the only thing to call; then nothing here may call a function.
            if tools.is_empty() && !free && self.format.rules.interpreter_field.is_some() {
                tools.push(self.tool(&Origin::Tool { tool: 0 }));
                self.offered = true;
            }
            tools.push(object! { "type" => "code_interpreter" }.into());
        }
        if !tools.is_empty() || self.chance(8) {
            request.insert("tools", Json::Array(tools));
        }
        if free && self.chance(4) {
            let text = (self.text)(&Spot { origin: Origin::Format, silent: true });
            request.insert("documents", Json::Array(vec![object! { "title" => text.as_str(), "text" => text }.into()]));
        }
        request
    }
}
