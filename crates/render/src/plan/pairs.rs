//! Conversations as pairs of a question and its answer.

use rolecall_conversation::{Conversation, Message, Place, Role};
use rolecall_format::{Field, Slot, SystemRule};

use super::{Planner, What, size_of_content};
use crate::order::refuse_system;
use crate::{Dropped, Error};

impl<'a> Planner<'a> {
    /// Writes each answer after everything that was asked since the previous answer: the user
    /// messages as one, and the last system message among them. Messages without a following
    /// answer, and answers before any other message, are left out and recorded.
    pub(super) fn add_pairs(&mut self, conversation: &'a Conversation) -> Result<(), Error> {
        let mut system: Option<(usize, &'a Message)> = None;
        let mut asked: Vec<usize> = Vec::new();
        let mut begun = false;
        for (index, message) in conversation.messages.iter().enumerate() {
            match self.speakers.of(index, message) {
                Role::System => {
                    if let Some((before, _)) = system {
                        self.leave_out(before, "a later system message replaces it");
                    }
                    system = (!self.is_blank(index, message)).then_some((index, message));
                }
                Role::User => asked.push(index),
                Role::Assistant if !begun => self.leave_out(index, "no other speaker precedes it"),
                Role::Assistant => {
                    let asked = std::mem::take(&mut asked);
                    self.add_pair(system.take(), asked, index, message)?;
                }
                Role::Tool => self.message(Slot::Tool, Slot::Tool, index, message)?,
                // `order` has already refused it.
                Role::Other(_) => {}
            }
            begun |= *self.speakers.of(index, message) != Role::Assistant;
        }
        for index in system.map(|(index, _)| index).into_iter().chain(asked) {
            self.leave_out(index, "no answer follows it");
        }
        Ok(())
    }

    fn add_pair(
        &mut self,
        system: Option<(usize, &'a Message)>,
        asked: Vec<usize>,
        index: usize,
        answer: &'a Message,
    ) -> Result<(), Error> {
        self.round += 1;
        if self.round == 1 {
            self.bare(Slot::Begin);
        }
        self.bare(Slot::Pair);
        if let Some((index, message)) = system {
            if self.format.rules.system == SystemRule::Refused {
                return Err(refuse_system(index, self.format));
            }
            let slot = if self.round == 1 { Slot::SystemFirst } else { Slot::System };
            self.message(slot, Slot::System, index, message)?;
        }
        let slot = if self.round == 1 { Slot::UserFirst } else { Slot::User };
        if let Some(layout) = self.format.layout(slot).or_else(|| self.format.layout(Slot::User)) {
            for index in &asked {
                self.check_layout(layout, Field::Content, *index, &self.plan.messages[*index])?;
            }
        }
        let bytes = asked.iter().map(|index| size_of_content(&self.plan.messages[*index])).sum();
        let first = asked.first().copied();
        self.plan.asked.push(asked);
        self.turn(slot, Slot::User, What::Asked(self.plan.asked.len() - 1, first), bytes);
        self.message(Slot::Assistant, Slot::Assistant, index, answer)?;
        self.bare(Slot::AssistantAfter);
        Ok(())
    }

    fn leave_out(&mut self, index: usize, why: &'static str) {
        self.plan.dropped.push(Dropped { place: Place::message(index, ""), why, by_design: false });
    }
}
