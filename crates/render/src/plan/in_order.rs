//! The turns of messages that are written in order, each in its place.

use rolecall_conversation::{Message, Part, Place, Role};
use rolecall_format::{Layout, Slot, SystemRule, TurnsRule};

use super::{Extent, Planner, What, size_of_content};
use crate::order::refuse_system;
use crate::{Dropped, Error};

impl<'a> Planner<'_, 'a> {
    /// Adds the turns of the messages up to one with this index, each in its place. Of all messages,
    /// those up to `written` are written.
    pub(super) fn add_in_order(&mut self, end: usize, written: usize) -> Result<(), Error> {
        if let Some(index) = self.refused {
            return Err(refuse_system(index, self.format));
        }
        let has = |slot| self.format.layout(slot).is_some();
        let (last_differs, groups, interprets) =
            (has(Slot::AssistantLast), has(Slot::ToolGroup), has(Slot::ToolInterpreter));
        while self.next < end {
            if self.progress.user {
                self.add_plain(end);
            }
            let index = self.next;
            let Some(message) = self.task.messages.get(index).filter(|_| index < end) else { break };
            match self.speakers.of(index, message) {
                Role::System if self.is_replaced(index) || self.is_blank(index, message) => {}
                Role::System if self.format.rules.system == SystemRule::Refused => {
                    return Err(refuse_system(index, self.format));
                }
                Role::System => self.message(Slot::System, Slot::System, index, message)?,
                Role::Assistant
                    if self.raw_calls
                        && message.as_object().get("function_call").is_some_and(|call| !call.is_null()) =>
                {
                    self.raw_output(index, message)?;
                }
                Role::User => {
                    self.progress.round += 1;
                    let slot = if self.progress.user { Slot::User } else { Slot::UserFirst };
                    self.progress.user = true;
                    self.user(slot, index, message)?;
                }
                Role::Assistant => {
                    if interprets && !message.is_plain() {
                        self.calls.get_or_insert_default().remember(message);
                    }
                    let with_calls =
                        message.calls().len() > 0 && self.format.layout(Slot::AssistantWithCalls).is_some();
                    let last = last_differs && index + 1 == written;
                    let slot = match (with_calls, last) {
                        (true, _) => Slot::AssistantWithCalls,
                        (false, true) => Slot::AssistantLast,
                        (false, false) => Slot::Assistant,
                    };
                    self.message(slot, Slot::Assistant, index, message)?;
                    self.bare(Slot::AssistantAfter);
                }
                Role::Tool if groups => {
                    let roles = self.speakers.roles;
                    let rest = self.task.messages.between(index, end);
                    let mut bytes = 0;
                    for message in rest.take_while(|message| *roles.of(message) == Role::Tool) {
                        self.check_message(Slot::Tool, self.next, message)?;
                        bytes += size_of_content(message);
                        self.next += 1;
                    }
                    let results = What::Results(index, self.next - index);
                    self.turn(Slot::ToolGroup, Slot::ToolGroup, results, bytes);
                    continue;
                }
                Role::Tool => {
                    let interpreted = interprets && self.calls.get_or_insert_default().is_from_interpreter(message);
                    let slot = if interpreted { Slot::ToolInterpreter } else { Slot::Tool };
                    self.message(slot, Slot::Tool, index, message)?;
                }
                // `order` has already refused it.
                Role::Other(_) => {}
            }
            self.next += 1;
        }
        Ok(())
    }

    /// Adds the turns of the next user and assistant messages, for as long as only their texts can
    /// be part of the turns. Most of a long conversation consists of such messages.
    #[inline(never)]
    fn add_plain(&mut self, end: usize) {
        let has = |slot| self.format.layout(slot).is_some();
        // The format treats the last assistant message differently, or adds a turn of its own.
        let by_place = has(Slot::AssistantLast) || has(Slot::AssistantAfter);
        if by_place || self.progress.offers || self.folded.is_some() {
            return;
        }
        let is_plain = |layout: &&Layout| layout.plain().is_some();
        let user = self.format.layout(Slot::User).filter(is_plain);
        let assistant = self.format.layout(Slot::Assistant).filter(is_plain);
        let _ = self.task.messages.between(self.next, end).try_for_each(|message| {
            let (slot, layout) = match self.speakers.of(self.next, message) {
                Role::User => (Slot::User, user),
                Role::Assistant => (Slot::Assistant, assistant),
                _ => return None,
            };
            let (layout, text) = (layout?, message.plain_text()?);
            self.progress.round += usize::from(slot == Slot::User);
            self.plain_turn(layout, slot, self.next, text);
            self.next += 1;
            Some(())
        });
    }

    /// Records the messages that are not written because no answer follows them.
    pub(super) fn leave_out_unanswered(&mut self, extent: &Extent) {
        if self.format.rules.turns != TurnsRule::Paired {
            return;
        }
        let messages = self.task.messages;
        let mut left_out = extent.written..messages.end();
        let mut why = "no answer follows it";
        if extent.written == extent.first && messages.start() == 0 {
            let asks = |message: &Message| *self.speakers.roles.of(message) == Role::User;
            if !messages.get(extent.first).is_some_and(asks) {
                why = "the first message is not a user message";
            }
            // Without a complete pair, nothing is written.
            self.plan.turns.clear();
            self.folded = None;
            self.refused = None;
            self.progress.offers = false;
            left_out.start = 0;
            let offered = self.task.frame.tools.iter().flatten().next().map(|_| Place::field("tools"));
            self.plan.dropped.extend(offered.map(|place| Dropped { place, why, by_design: false }));
        }
        self.plan.dropped.extend(left_out.map(|index| Dropped {
            place: Place::message(index, ""),
            why,
            by_design: false,
        }));
    }

    fn user(&mut self, slot: Slot, index: usize, message: &'a Message) -> Result<(), Error> {
        if message.plain_text().is_some() {
            return self.message(slot, Slot::User, index, message);
        }
        let files = message.parts().any(|part| matches!(part, Part::File(_)));
        let own_turn = self.format.layout(Slot::File).is_some();
        let has_more = message.parts().any(|part| !matches!(part, Part::File(_)));
        if !(files && own_turn) || has_more {
            self.message(slot, Slot::User, index, message)?;
        }
        if files && own_turn {
            if !has_more && let Some(layout) = self.format.layout(Slot::File) {
                self.note_fields(index, message, |field| layout.prints(field), "the format has no place for it");
            }
            self.turn(Slot::File, Slot::File, What::Files(index, message), 80);
        }
        Ok(())
    }
}
