//! Whose each turn of a prompt is.

use rolecall::conversation::Role;
use rolecall::format::Slot;

use super::Explained;

/// Whose a stretch of a prompt is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// What opens every prompt.
    Begin,
    /// A system turn that the format adds.
    Added,
    /// A message, by number and role.
    Message(usize, Role),
    /// A turn that offers tools.
    Tools,
    /// The generation prompt.
    Generate,
    /// What ends a prompt that the model is not to go on with.
    End,
}

impl Owner {
    /// The message's number, or nothing.
    pub fn number(&self) -> String {
        match self {
            Owner::Message(index, _) => index.to_string(),
            _ => String::new(),
        }
    }

    /// What it is called in the picture.
    pub fn name(&self) -> &str {
        match self {
            Owner::Begin => "begin",
            Owner::Added => "added",
            Owner::Message(_, role) => role.name(),
            Owner::Tools => "tools",
            Owner::Generate => "generate",
            Owner::End => "end",
        }
    }
}

/// A stretch of a prompt, up to the next one's start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    pub start: usize,
    pub owner: Owner,
}

/// The turns of a prompt in order, none of them empty.
pub fn find_turns<'a>(explained: Explained<'a>) -> impl Iterator<Item = Turn> + use<'a> {
    explained.prompt.turns().iter().map(move |turn| {
        let message = turn.message.and_then(|index| Some((index, explained.conversation.messages.get(index)?)));
        let owner = match (message, turn.slot) {
            (Some((index, message)), _) => Owner::Message(index, message.role().clone()),
            (None, Slot::Begin) => Owner::Begin,
            (None, Slot::Tools | Slot::ToolsInterpreter) => Owner::Tools,
            (None, Slot::Generate) => Owner::Generate,
            (None, Slot::End) => Owner::End,
            (None, _) => Owner::Added,
        };
        Turn { start: turn.start, owner }
    })
}
