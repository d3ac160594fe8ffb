//! Messages of each role.

use std::borrow::Cow;

use rolecall::Origin;
use rolecall::conversation::json::Object;
use rolecall::conversation::{Json, object};
use rolecall::format::Slot;
use rolecall::render::RuleMode;

use super::content::Wanted;
use super::layout::says_more;
use super::maker::Maker;
use super::role::own_roles;

impl Maker<'_> {
    pub(super) fn system(&mut self) {
        let slots =
            if self.messages.is_empty() { [Slot::SystemFirst, Slot::System] } else { [Slot::System, Slot::System] };
        let slot = self.first_of(&slots);
        let mut message = self.message("system", &["developer"], slot, Wanted::Any);
        if self.chance(3) {
            let known = self.format.control_names.len();
            let name = match self.chance(2) && known > 0 {
                true => self.format.control_names[self.rng.usize(..known)].0.clone(),
                false => self.in_message("name", false),
            };
            message.insert("name", name.into());
        }
        let prints = ["tools", "functions"].into_iter().any(|hole| self.prints(slot, hole));
        if (prints && !self.offered || self.rules == RuleMode::Reference) && self.chance(4) {
            let tools = (0..self.rng.usize(1..3)).map(|at| {
                self.tool(&Origin::Message { message: self.messages.len(), field: Cow::Owned(format!("tools[{at}]")) })
            });
            let tools: Vec<Json> = tools.collect();
            message.insert("tools", Json::Array(tools));
        }
        self.messages.push(message);
        self.ends_open = false;
    }

    /// Adds a system message that counts as absent.
    pub(super) fn blank_system(&mut self, content: &str) {
        let mut message = object! { "role" => "system", "content" => content };
        if self.chance(3) {
            let name = self.in_message("name", false);
            message.insert("name", name.into());
        }
        self.messages.push(message);
    }

    pub(super) fn user(&mut self) {
        let files = [Slot::File, Slot::PartFile].into_iter().any(|slot| self.format.layout(slot).is_some());
        let files = (files || self.rules == RuleMode::Reference) && self.chance(3);
        let mut message = self.message("user", &[], Slot::User, if files { Wanted::Parts } else { Wanted::Any });
        if self.chance(3) {
            let name = self.in_message("name", false);
            message.insert("name", name.into());
        }
        if files {
            let mut parts = match message.remove("content") {
                Some(Json::Array(parts)) => parts,
                _ => Vec::new(),
            };
            for _ in 0..self.rng.usize(1..3) {
                let part = self.file(parts.len());
                parts.push(part);
            }
            message.insert("content", Json::Array(parts));
        }
        self.messages.push(message);
        self.ends_open = false;
    }

    pub(super) fn assistant(&mut self, calls: bool) {
        let slot = match calls {
            true => self.first_of(&[Slot::AssistantWithCalls, Slot::Assistant]),
            false => Slot::Assistant,
        };
        let silent = calls && !self.prints(slot, "content") && self.rules == RuleMode::Enforce;
        let mut message = self.message("assistant", &[], slot, if silent { Wanted::Nothing } else { Wanted::Any });
        self.ids.clear();
        if calls {
            let most = self.format.rules.max_calls.filter(|_| self.rules == RuleMode::Enforce).unwrap_or(3);
            let calls = (0..self.rng.usize(1..=most)).map(|at| self.call(at)).collect();
            message.insert("tool_calls", Json::Array(calls));
        }
        for field in ["name", "reasoning_content"] {
            if self.chance(5) {
                let text = self.in_message(field, false);
                message.insert(field, text.into());
            }
        }
        self.ends_open = !calls && !says_more(self.format, slot, &message);
        self.messages.push(message);
    }

    pub(super) fn results(&mut self, count: usize) {
        for at in 0..count {
            let mut message =
                self.message("tool", &["environment", "observation", "function", "ipython"], Slot::Tool, Wanted::Any);
            if let Some(Some(id)) = self.ids.get(at).cloned()
                && self.rng.bool()
            {
                message.insert("tool_call_id", id.into());
            }
            if self.chance(3) {
                let name = match self.rng.u8(..3) {
                    0 => "interpreter".to_owned(),
                    1 => "code_interpreter".to_owned(),
                    _ => self.in_message("name", true),
                };
                message.insert("name", name.into());
            }
            self.messages.push(message);
        }
        self.ends_open &= count == 0;
    }

    /// Makes a message with a role, content and the family's own fields.
    fn message(&mut self, usual: &str, aliases: &[&str], slot: Slot, wanted: Wanted) -> Object {
        let names: Vec<String> = match self.rules {
            RuleMode::Enforce => {
                let names = aliases.iter().copied().chain([usual]);
                names.filter(|name| !self.is_anothers(name, usual)).map(str::to_owned).collect()
            }
            RuleMode::Reference => own_roles(self.format, usual),
        };
        let role = names[self.rng.usize(..names.len())].as_str();
        let mut message = object! { "role" => role };
        if let Some(content) = self.content(slot, wanted) {
            message.insert("content", content);
        }
        for at in 0..self.format.fields.len() {
            if self.chance(3) {
                let name = self.format.fields[at].0.clone();
                let text = self.in_header(&name);
                message.insert(name, text.into());
            }
        }
        message
    }
}
