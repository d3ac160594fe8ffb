//! Conversations as pairs of a question and its answer.

use rolecall_conversation::{Message, Place, Role};
use rolecall_format::{Field, Slot, SystemRule};

use super::{Planner, What, size_of_content};
use crate::order::refuse_system;
use crate::{Dropped, Error};

/// The messages since the last answer.
#[derive(Default)]
pub(super) struct OpenQuestion<'a> {
    system: Option<(usize, &'a Message)>,
    users: Vec<usize>,
}

impl<'a> Planner<'_, 'a> {
    /// Writes each answer after everything that was asked since the previous answer: the user
    /// messages as one, and the last system message among them. Messages without a following
    /// answer, and answers before any other message, are left out and recorded.
    pub(super) fn add_pairs(&mut self, end: usize) -> Result<(), Error> {
        while let Some(message) = self.task.messages.get(self.next).filter(|_| self.next < end) {
            let index = self.next;
            self.next += 1;
            match self.speakers.of(index, message) {
                Role::System => {
                    if let Some((before, _)) = self.asked.system {
                        self.leave_out(before, "a later system message replaces it");
                    }
                    self.asked.system = (!self.is_blank(index, message)).then_some((index, message));
                }
                Role::User => self.asked.users.push(index),
                Role::Assistant if !self.progress.begun => self.leave_out(index, "no other speaker precedes it"),
                Role::Assistant => {
                    let asked = std::mem::take(&mut self.asked);
                    self.add_pair(asked.system, asked.users, index, message)?;
                }
                Role::Tool => self.message(Slot::Tool, Slot::Tool, index, message)?,
                // `order` has already refused it.
                Role::Other(_) => {}
            }
            self.progress.begun |= *self.speakers.of(index, message) != Role::Assistant;
        }
        Ok(())
    }

    /// Records the messages that no answer follows.
    pub(super) fn leave_out_asked(&mut self) {
        let asked = std::mem::take(&mut self.asked);
        for index in asked.system.map(|(index, _)| index).into_iter().chain(asked.users) {
            self.leave_out(index, "no answer follows it");
        }
    }

    fn add_pair(
        &mut self,
        system: Option<(usize, &'a Message)>,
        asked: Vec<usize>,
        index: usize,
        answer: &'a Message,
    ) -> Result<(), Error> {
        self.progress.round += 1;
        if self.progress.round == 1 {
            self.bare(Slot::Begin);
        }
        self.bare(Slot::Pair);
        if let Some((index, message)) = system {
            if self.format.rules.system == SystemRule::Refused {
                return Err(refuse_system(index, self.format));
            }
            let slot = if self.progress.round == 1 { Slot::SystemFirst } else { Slot::System };
            self.message(slot, Slot::System, index, message)?;
        }
        let slot = if self.progress.round == 1 { Slot::UserFirst } else { Slot::User };
        if let Some(layout) = self.format.layout(slot).or_else(|| self.format.layout(Slot::User)) {
            for (index, message) in self.task.messages.those(&asked) {
                self.check_layout(layout, Field::Content, index, message)?;
            }
        }
        let bytes = self.task.messages.those(&asked).map(|(_, message)| size_of_content(message)).sum();
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
