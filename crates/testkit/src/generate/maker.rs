//! The state of a conversation under construction, and helpers for the modules that build it.

use std::borrow::Cow;

use fastrand::Rng;
use rolecall::Origin;
use rolecall::conversation::json::Object;
use rolecall::format::{Codec, Format, Slot};
use rolecall::render::RuleMode;

use super::Spot;
use super::layout::has_hole;

/// A conversation under construction.
pub(super) struct Maker<'a> {
    pub format: &'a Format,
    pub rng: Rng,
    pub rules: RuleMode,
    pub text: &'a mut dyn FnMut(&Spot) -> String,
    /// The layout of a single text, if no conversation is wanted.
    pub alone: Option<Slot>,
    /// Whether the request offers tools.
    pub offered: bool,
    pub messages: Vec<Object>,
    /// The ids of the last message's calls, if they have any.
    pub ids: Vec<Option<String>>,
    /// Whether the last message can be continued.
    pub ends_open: bool,
}

impl Maker<'_> {
    /// Returns a text for the message under construction.
    pub(super) fn in_message(&mut self, field: &str, silent: bool) -> String {
        let origin = Origin::Message { message: self.messages.len(), field: Cow::Owned(field.to_owned()) };
        (self.text)(&Spot { origin, silent })
    }

    /// Returns a text for a message's header, in one line if the format's rules require it.
    pub(super) fn in_header(&mut self, field: &str) -> String {
        let text = self.in_message(field, false);
        match self.rules == RuleMode::Enforce && self.format.rules.header.key() == "one-line" {
            true => text.replace(['\n', '\r'], " "),
            false => text,
        }
    }

    pub(super) fn chance(&mut self, one_in: u8) -> bool {
        self.rng.u8(..one_in) == 0
    }

    pub(super) fn can_call(&self) -> bool {
        self.format.layout(Slot::Call).is_some() || self.format.layout(Slot::CallInterpreter).is_some()
    }

    pub(super) fn first_of(&self, slots: &[Slot]) -> Slot {
        let there = slots.iter().find(|slot| self.format.layout(**slot).is_some());
        there.or(slots.last()).copied().unwrap_or(Slot::User)
    }

    pub(super) fn prints(&self, slot: Slot, hole: &str) -> bool {
        self.format.layout(slot).is_some_and(|layout| has_hole(layout.ops(), hole, &|codec| *codec != Codec::Present))
    }

    pub(super) fn quotes_content(&self, slot: Slot) -> bool {
        let quotes = |codec: &Codec| matches!(codec, Codec::Json(_));
        self.format.layout(slot).is_some_and(|layout| has_hole(layout.ops(), "content", &quotes))
    }
}
