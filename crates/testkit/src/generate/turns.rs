//! The order of a conversation's messages.

use rolecall::conversation::object;
use rolecall::format::Slot;

use super::maker::Maker;
use super::role::own_roles;

impl Maker<'_> {
    /// Adds a user message of one text, or of one text on each side of a gap.
    pub(super) fn one_text(&mut self, slot: Slot) {
        let mut content = self.in_message("content", false);
        if let Some(gap) = self.format.defaults.gap.as_ref().filter(|_| slot == Slot::Infill) {
            content.push_str(gap);
            content.push_str(&self.in_message("content", false));
        }
        let mut message = object! { "role" => "user", "content" => content };
        if self.chance(4) {
            let name = self.in_message("name", false);
            message.insert("name", name.into());
        }
        self.messages.push(message);
    }

    pub(super) fn keep_the_rules(&mut self) {
        let rules = &self.format.rules;
        let (system, turns, users) = (rules.system.key(), rules.turns.key(), rules.users.key());
        let required = rules.answers.key() == "required";
        let (blank, answered) = (rules.blank_system.key(), turns == "answered");
        let written = [Slot::System, Slot::Folded].into_iter().any(|slot| self.format.layout(slot).is_some());
        let system = if written { system } else { "none" };
        let systems = match system {
            "none" | "refused" => 0,
            "first" | "fold" => self.rng.usize(..2),
            _ => self.rng.usize(..3),
        };
        for _ in 0..systems {
            self.system();
        }
        if systems == 0 && blank != "keep" && self.chance(3) {
            self.blank_system(if blank == "skip-spaces" { "  " } else { "" });
        }
        if answered && self.chance(4) {
            // Before any user message.
            self.assistant(false);
        }
        let rounds = self.rng.usize(1..4);
        for round in 1..=rounds {
            if system == "anywhere" && round > 1 && self.chance(4) {
                self.system();
            }
            self.user();
            if (turns == "any" || answered) && users == "any" && self.chance(5) {
                if answered && system == "anywhere" && self.rng.bool() {
                    self.system();
                }
                self.user();
            }
            if round == rounds && self.chance(3) {
                return;
            }
            let calls = self.can_call() && self.chance(2);
            self.assistant(calls);
            if calls {
                let answered = self.ids.len();
                let answered = if required { answered } else { self.rng.usize(..=answered) };
                self.results(answered);
                if answered > 0 && self.chance(2) {
                    self.assistant(false);
                }
            } else if answered && self.chance(5) {
                self.assistant(false);
            }
        }
    }

    pub(super) fn break_the_rules(&mut self) {
        let speaks = |usual| !own_roles(self.format, usual).is_empty();
        let [system, assistant, tool] = ["system", "assistant", "tool"].map(speaks);
        let system = system && self.format.rules.system.key() != "refused";
        for _ in 0..self.rng.usize(1..6) {
            match self.rng.u8(..4) {
                0 if system => self.system(),
                2 if assistant => {
                    let calls = self.rng.bool();
                    self.assistant(calls);
                }
                3 if tool => self.results(1),
                _ => self.user(),
            }
        }
        self.ends_open = false;
    }
}
