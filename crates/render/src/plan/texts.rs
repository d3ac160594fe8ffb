//! Prompts that consist of a single text instead of a conversation, either to be continued or with
//! a gap to be filled.

use rolecall_conversation::{Content, Place, Role};
use rolecall_format::{Field, Slot};

use super::{Planner, What};
use crate::Error;
use crate::options::OptionValues;

impl<'a> Planner<'_, 'a> {
    /// Plans a prompt that is one user message's text, if the option `capability` asks for it.
    /// Returns whether it did.
    pub(super) fn add_text_alone(&mut self, chosen: &OptionValues<'_>) -> Result<bool, Error> {
        let Some((capability, given)) = chosen.entry(self.format, "capability") else { return Ok(false) };
        let slot = match capability {
            "completion" => Slot::Completion,
            "python" => Slot::Python,
            "infilling" if chosen.value(self.format, "suffix_first") == Some("true") => Slot::InfillSuffixFirst,
            "infilling" => Slot::Infill,
            _ => return Ok(false),
        };
        let Some(layout) = self.format.layout(slot) else { return Ok(false) };
        let only = self.task.messages.first().filter(|_| self.task.messages.len() == 1);
        let Some(message) = only else { return self.refuse_conversation(given) };
        let (Role::User, Content::Text(text)) = (self.speakers.of(0, message), message.content()) else {
            return self.refuse_conversation(given);
        };
        let infills = matches!(slot, Slot::Infill | Slot::InfillSuffixFirst);
        self.check_layout(layout, if infills { Field::Prefix } else { Field::Content }, 0, message)?;
        if !infills {
            self.turn(slot, slot, What::Message(0, message), text.len());
            return Ok(true);
        }
        let mark = self.format.defaults.gap.as_deref().unwrap_or_default();
        let found = if mark.is_empty() { 0 } else { text.matches(mark).count() };
        let Some((prefix, suffix)) = text.split_once(mark).filter(|_| found == 1) else {
            return Err(Error::Gap { message: 0, mark: mark.to_owned(), found });
        };
        self.plan.gap = Some((prefix, suffix));
        self.turn(slot, slot, What::Gap(0), text.len());
        Ok(true)
    }

    /// Refuses a conversation if the caller asked for a single text. If that is only the format's
    /// default, the conversation is rendered instead.
    fn refuse_conversation(&self, given: bool) -> Result<bool, Error> {
        match given && self.strict {
            false => Ok(false),
            true => Err(Error::NoPlace {
                place: Place::field("messages"),
                format: self.format.name.clone(),
                what: "a conversation where a single text is expected".into(),
                help: "send one user message, or remove the option `capability`".into(),
            }),
        }
    }
}
