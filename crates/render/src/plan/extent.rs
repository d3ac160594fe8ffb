//! Which messages a format writes, and which of their turns no later message can change.

use rolecall_conversation::{Message, Role};
use rolecall_format::{Slot, TurnsRule};

use crate::role::Speakers;
use crate::task::Task;

/// The messages that a format writes. Each field is the index of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    /// The first message after the system messages that open the conversation.
    pub first: usize,
    /// The end of the messages to write. Where only pairs are written, this excludes those without
    /// an answer.
    pub written: usize,
    /// The end of the messages whose turns are the same in every longer conversation, as far as
    /// that depends on the order of messages. None if there is no such place after the opening
    /// system messages.
    pub settled: Option<usize>,
}

impl Extent {
    /// Determines the extent of a whole conversation, with its settled messages if it is to grow.
    pub fn of_whole(task: &Task<'_>, speakers: Speakers<'_>, grows: bool) -> Extent {
        let is_system = |message: &Message| *speakers.roles.of(message) == Role::System;
        let mut leading = task.messages.iter().take_while(|message| is_system(message));
        let first = match speakers.are_by_place() {
            true => usize::from(leading.next().is_some()),
            false => leading.count(),
        };
        let asks = |message: &Message| *speakers.roles.of(message) == Role::User;
        let begins = task.messages.get(first).is_some_and(asks);
        let pairs = task.format.rules.turns == TurnsRule::Paired;
        let written = if pairs && !begins { first } else { written(task, speakers, first) };
        // More system messages would belong to the opening, and a pair would be the first one.
        let begun = grows && task.messages.end() > first && !(pairs && written == first);
        let settled = begun.then(|| settled(task, speakers, written));
        Extent { first, written, settled: settled.filter(|at| *at >= first || answers(task)) }
    }

    /// Determines the extent of a conversation whose first messages have been written.
    pub fn of_rest(task: &Task<'_>, speakers: Speakers<'_>, first: usize) -> Extent {
        let written = written(task, speakers, first);
        Extent { first, written, settled: Some(settled(task, speakers, written)) }
    }
}

/// Reports whether each answer is written together with everything that was asked before it.
fn answers(task: &Task<'_>) -> bool {
    task.format.rules.turns == TurnsRule::Answered
}

fn written(task: &Task<'_>, speakers: Speakers<'_>, first: usize) -> usize {
    let all = task.messages.end();
    if task.format.rules.turns != TurnsRule::Paired {
        return all;
    }
    if speakers.are_by_place() {
        return all - (all - first) % 2;
    }
    let last = task.messages.between(first, all).rev();
    all - last.take_while(|message| *speakers.roles.of(message) == Role::User).count()
}

fn settled(task: &Task<'_>, speakers: Speakers<'_>, written: usize) -> usize {
    let (messages, start) = (task.messages, task.messages.start());
    let has = |slot| task.format.layout(slot).is_some();
    let mut at = written;
    // The turn of a message that the prompt ends inside is closed later.
    if speakers.stop_inside(task) {
        at = at.min(messages.end().saturating_sub(1));
    }
    let is = |index: usize, role: Role| messages.get(index).is_some_and(|message| *speakers.of(index, message) == role);
    if answers(task) {
        let last = (start..at).rev().find(|index| is(*index, Role::Assistant));
        return last.map_or(start, |index| index + 1);
    }
    if has(Slot::AssistantLast) && at > start && is(at - 1, Role::Assistant) {
        at -= 1;
    }
    // More results may join the last group.
    while has(Slot::ToolGroup) && at > start && is(at - 1, Role::Tool) {
        at -= 1;
    }
    at.max(start)
}
