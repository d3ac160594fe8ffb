//! The system messages that open a conversation, and those that the format adds.

use rolecall_conversation::{Message, Place, Role};
use rolecall_format::{Field, Slot, SystemRule, SystemWhen, SystemWithTools, ToolsPlace};

use super::{Extent, Planner, Replacement, SystemText, What};
use crate::options::OptionValues;
use crate::role::is_blank;
use crate::{Dropped, Error};

/// What the format adds where the conversation has no system message.
#[derive(PartialEq)]
struct SystemAddition<'a> {
    /// The option with this index, and the length of its value.
    option: Option<(usize, usize)>,
    /// The format's system template with this index.
    template: Option<usize>,
    text: Option<&'a str>,
    /// Whether the text announces the code interpreter.
    says_interpreter: bool,
}

impl<'a> Planner<'_, 'a> {
    /// Adds the system messages that open the conversation, which are those before the first
    /// message of the extent, and those that the format adds.
    pub(super) fn add_systems(&mut self, extent: &Extent, chosen: &OptionValues<'_>) -> Result<(), Error> {
        let first = extent.first;
        let messages = self.task.messages;
        let (format, roles) = (self.format, self.speakers.roles);
        let is_system = |message: &Message| *roles.of(message) == Role::System;
        let said = |message: &Message| is_system(message) && !is_blank(message, format);
        let opened = messages.between(0, first).any(said);
        let none = !opened && !messages.between(first, messages.end()).any(said);
        if self.replaces_system(chosen) && self.progress.offers {
            let first = messages.iter().position(is_system);
            self.progress.replaced = first.map_or(Replacement::Next, Replacement::Message);
        }
        if let Replacement::Message(index) = self.progress.replaced
            && let Some(message) = messages.get(index)
        {
            let why = "the tool prompt replaces it";
            self.plan.dropped.push(Dropped { place: Place::message(index, "content"), why, by_design: false });
            self.note_fields(index, message, |_| false, why);
        }
        let added = self.added(opened, none, chosen);
        self.progress.adds_for_lack = extent.settled.is_some() && none && added != self.added(opened, false, chosen);
        self.progress.says_interpreter = added.says_interpreter;
        if let Some((at, bytes)) = added.option {
            self.turn(Slot::SystemFirst, Slot::System, What::Chosen(at), bytes);
        }
        if let Some(number) = added.template {
            self.turn(Slot::SystemFirst, Slot::System, What::Template(number), 200);
        }
        if let Some(text) = added.text {
            match self.format.rules.system {
                SystemRule::Fold => self.folded = Some(SystemText::Added(text)),
                _ => self.turn(Slot::SystemFirst, Slot::System, What::Added(text), text.len()),
            }
        }
        if self.format.rules.tools == ToolsPlace::AfterDefault {
            self.add_tool_turns();
        }
        for (index, message) in messages.between(0, first).enumerate() {
            if self.is_replaced(index) || self.is_blank(index, message) {
                continue;
            }
            if self.format.rules.system == SystemRule::Refused {
                self.refused.get_or_insert(index);
                continue;
            }
            match self.format.rules.system {
                SystemRule::Fold if index == 0 => {
                    if let Some(layout) = self.format.layout(Slot::Folded) {
                        self.check_layout(layout, Field::System, index, message)?;
                    }
                    self.folded = Some(SystemText::Message(index, message));
                }
                _ => {
                    let slot = if index == 0 { Slot::SystemFirst } else { Slot::System };
                    self.message(slot, Slot::System, index, message)?;
                }
            }
            if self.format.rules.tools == ToolsPlace::AfterFirst {
                self.add_tool_turns();
            }
        }
        Ok(())
    }

    /// Returns what the format adds to a conversation that is opened by a system message or not,
    /// and that has none at all or some.
    fn added(&self, opened: bool, none: bool, chosen: &OptionValues<'_>) -> SystemAddition<'a> {
        let format = self.format;
        let (defaults, empty) = (&format.defaults, self.task.messages.end() == 0);
        let own = defaults.system_option.and_then(|at| Some((at, chosen.values.get(at)?.0.as_str())));
        let when = chosen.value(format, "system-when").and_then(SystemWhen::from_key);
        let wanted = match when.unwrap_or(defaults.system_when) {
            SystemWhen::NotFirst => !opened && !empty,
            SystemWhen::None => none && !empty,
            SystemWhen::Always => true,
        };
        let usual = match &defaults.system {
            _ if self.progress.replaced != Replacement::Nothing => defaults.system_with_tools.as_deref(),
            Some(_) if own.is_some() => None,
            Some(text) if wanted => Some(text.as_str()),
            _ if none && self.progress.offers => defaults.system_with_tools.as_deref(),
            _ => None,
        };
        let announces = usual.is_none() && none && self.plan.interpreter && self.interpreter_is_system();
        let text = if announces { defaults.interpreter.as_deref() } else { usual };
        let option =
            own.filter(|(_, text)| wanted && self.progress.replaced == Replacement::Nothing && !text.is_empty());
        let template = chosen.value(format, "system_template").filter(|_| none && text.is_none());
        SystemAddition {
            option: option.map(|(at, text)| (at, text.len())),
            template: defaults.system_templates.iter().position(|(name, _)| Some(name.as_str()) == template),
            text,
            says_interpreter: usual.is_none() && text.is_some(),
        }
    }

    pub(super) fn replaces_system(&self, chosen: &OptionValues<'_>) -> bool {
        match chosen.value(self.format, "system-with-tools") {
            Some(value) => value == SystemWithTools::Replace.key(),
            None => self.format.rules.system_with_tools == SystemWithTools::Replace,
        }
    }

    /// Reports whether only a system message can announce the code interpreter.
    pub(super) fn interpreter_is_system(&self) -> bool {
        let printed = |slot| self.format.layout(slot).is_some_and(|layout| layout.prints(Field::Interpreter));
        self.format.layout(Slot::ToolsInterpreter).is_none() && !printed(Slot::System) && !printed(Slot::SystemFirst)
    }

    /// Reports whether a system message is ignored because it has no text, and records what is lost
    /// with it.
    pub(super) fn is_blank(&mut self, index: usize, message: &Message) -> bool {
        let blank = is_blank(message, self.format);
        if blank {
            let why = "a system message without text is ignored";
            self.note_fields(index, message, |_| false, why);
        }
        if blank && message.text().is_some_and(|text| !text.is_empty()) {
            let why = "a system message of only spaces is ignored";
            self.plan.dropped.push(Dropped { place: Place::message(index, "content"), why, by_design: false });
        }
        blank
    }

    pub(super) fn is_replaced(&self, index: usize) -> bool {
        self.progress.replaced == Replacement::Message(index)
    }
}
