//! The system messages that open a conversation, and those that the format adds.

use rolecall_conversation::{Conversation, Message, Place, Role};
use rolecall_format::{Field, Slot, SystemRule, SystemWhen, SystemWithTools, ToolsPlace};

use super::{Planner, SystemText, What};
use crate::options::Chosen;
use crate::role::is_blank;
use crate::{Dropped, Error};

impl<'a> Planner<'a> {
    /// Adds the system messages that open the conversation and those that the format adds. Returns
    /// the index of the first message after them.
    pub(super) fn add_systems(&mut self, conversation: &'a Conversation, chosen: &Chosen<'_>) -> Result<usize, Error> {
        let messages = &conversation.messages;
        let (format, roles) = (self.format, self.speakers.roles);
        let is_system = |message: &&Message| *roles.of(message) == Role::System;
        let leading = match self.speakers.are_by_place() {
            true => usize::from(messages.first().is_some_and(|message| is_system(&message))),
            false => messages.iter().take_while(is_system).count(),
        };
        let said = |message: &Message| *roles.of(message) == Role::System && !is_blank(message, format);
        let opened = messages[..leading].iter().any(said);
        let replaced = self.replaces_system(chosen) && self.offers;
        let none = !opened && !messages[leading..].iter().any(said);
        self.replaced = replaced.then(|| messages.iter().position(|message| is_system(&message))).flatten();
        if let Some(index) = self.replaced {
            let why = "the tool prompt replaces it";
            self.plan.dropped.push(Dropped { place: Place::message(index, "content"), why, by_design: false });
            self.note_fields(index, &messages[index], |_| false, why);
        }
        let defaults = &self.format.defaults;
        let own = defaults.system_option.and_then(|at| Some((at, chosen.values.get(at)?.0.as_str())));
        let wanted = match defaults.system_when {
            SystemWhen::NotFirst => !opened && !messages.is_empty(),
            SystemWhen::None => none && !messages.is_empty(),
            SystemWhen::Always => true,
        };
        let added = match &defaults.system {
            _ if replaced => defaults.system_with_tools.as_deref(),
            Some(_) if own.is_some() => None,
            Some(text) if wanted => Some(text.as_str()),
            _ if none && self.offers => defaults.system_with_tools.as_deref(),
            _ => None,
        };
        let before = added;
        let added = match added {
            None if none && self.plan.interpreter && self.interpreter_is_system() => defaults.interpreter.as_deref(),
            added => added,
        };
        self.says_interpreter = before.is_none() && added.is_some();
        if let Some((at, text)) = own.filter(|(_, text)| wanted && !replaced && !text.is_empty()) {
            self.turn(Slot::SystemFirst, Slot::System, What::Chosen(at), text.len());
        }
        let template = chosen.value(format, "system_template").filter(|_| none && added.is_none());
        let templates = &self.format.defaults.system_templates;
        if let Some(number) = templates.iter().position(|(name, _)| Some(name.as_str()) == template) {
            self.turn(Slot::SystemFirst, Slot::System, What::Template(number), 200);
        }
        if let Some(text) = added {
            match self.format.rules.system {
                SystemRule::Fold => self.folded = Some(SystemText::Added(text)),
                _ => self.turn(Slot::SystemFirst, Slot::System, What::Added(text), text.len()),
            }
        }
        if self.format.rules.tools == ToolsPlace::AfterDefault {
            self.add_tool_turns();
        }
        for (index, message) in messages[..leading].iter().enumerate() {
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
        Ok(leading)
    }

    pub(super) fn replaces_system(&self, chosen: &Chosen<'_>) -> bool {
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
        self.replaced == Some(index)
    }
}
