//! Options, switches, and the end of the prompt.

use rolecall::Origin;
use rolecall::conversation::json::Object;
use rolecall::format::{Choice, Slot};
use rolecall::render::Options;

use super::maker::Maker;
use super::{Spot, split_mark};

/// The option that asks for something other than a chat, and the layout for each of its values.
const CAPABILITY: &str = "capability";
const CAPABILITIES: [(&str, Slot); 3] =
    [("completion", Slot::Completion), ("python", Slot::Python), ("infilling", Slot::Infill)];

impl Maker<'_> {
    /// Chooses one of the format's layouts for a single text, or `None` to make a conversation.
    pub(super) fn text_alone(&mut self) -> Option<Slot> {
        let has_layout = |slot: &Slot| self.format.layout(*slot).is_some();
        let slots: Vec<Slot> =
            CAPABILITIES.iter().map(|(_, slot)| *slot).filter(|slot| has_layout(slot) && self.may_ask(*slot)).collect();
        (!slots.is_empty() && self.chance(4)).then(|| slots[self.rng.usize(..slots.len())])
    }

    /// Reports whether the option `capability` may ask for this layout.
    fn may_ask(&self, slot: Slot) -> bool {
        let choice = self.format.choices.iter().find(|choice| choice.name == CAPABILITY);
        let word = capability_of(slot);
        choice.is_some_and(|choice| choice.values.is_empty() || choice.values.iter().any(|value| value == word))
    }

    /// Sets the end of the prompt and the switches.
    pub(super) fn close(&mut self, request: &mut Object) {
        match self.rng.u8(..4) {
            0 => request.insert("add_generation_prompt", self.rng.bool().into()),
            1 if self.ends_open => request.insert("continue_final_message", true.into()),
            _ => {}
        }
        let mut switches = Object::new();
        for choice in &self.format.choices {
            if self.rng.u8(..4) == 0 {
                let value = self.choose(choice);
                switches.insert(choice.name.as_str(), value.into());
            }
        }
        if self.chance(4) {
            let mut text = || (self.text)(&Spot { origin: Origin::Format, silent: true });
            let key = text();
            switches.insert(key, text().into());
        }
        if !switches.is_empty() {
            request.insert("chat_template_kwargs", switches.into());
        }
    }

    pub(super) fn options(&mut self) -> Options {
        let mut options = Options { rules: self.rules, ..Options::default() };
        for choice in &self.format.choices {
            let is_asked = choice.name == CAPABILITY && self.alone.is_some();
            if is_asked || self.rng.u8(..4) == 0 {
                let value = self.choose(choice);
                options.choices.push((choice.name.clone(), value));
            }
        }
        let spellings = self.format.spellings();
        if !spellings.is_empty() && self.rng.bool() {
            options.choices.push(("spelling".to_owned(), spellings[self.rng.usize(..spellings.len())].to_owned()));
        }
        options
    }

    fn choose(&mut self, choice: &Choice) -> String {
        // If a switch and an option have the same name, the option wins and the switch is not
        // printed.
        let mut text = || (self.text)(&Spot { origin: Origin::Option { name: choice.name.clone() }, silent: true });
        if choice.name == CAPABILITY {
            return match self.alone {
                Some(slot) => capability_of(slot).to_owned(),
                // If the option takes any value, every unknown value asks for a chat.
                None if choice.values.is_empty() && self.rng.bool() => text(),
                None => "chat".to_owned(),
            };
        }
        match choice.values.as_slice() {
            [] => match split_mark(self.format, choice).filter(|_| self.rng.bool()) {
                Some(mark) => [text(), mark, text()].concat(),
                None => text(),
            },
            values => values[self.rng.usize(..values.len())].clone(),
        }
    }
}

/// Returns the option's value that asks for this layout.
fn capability_of(slot: Slot) -> &'static str {
    CAPABILITIES.iter().find(|(_, known)| *known == slot).map_or("chat", |(word, _)| word)
}
