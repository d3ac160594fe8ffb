//! Finds the owner of each turn of a prompt.

use crate::conversation::Role;
use crate::format::Slot;

use super::ExplainedPrompt;

/// The owner of a stretch of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The beginning of every prompt.
    Begin,
    /// A system turn that the format adds.
    Added,
    /// A message, by number and role.
    Message(usize, Role),
    /// A turn that offers tools.
    Tools,
    /// The generation prompt.
    Generate,
    /// The end of a prompt that the model does not continue.
    End,
}

impl Owner {
    /// Returns the message's number, or an empty string.
    pub fn number(&self) -> String {
        match self {
            Owner::Message(index, _) => index.to_string(),
            _ => String::new(),
        }
    }

    /// Returns the name shown in the drawing.
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

/// A stretch of a prompt that ends where the next one starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnView {
    pub start: usize,
    pub owner: Owner,
}

/// Returns the turns of a prompt in order, none of them empty.
pub fn find_turns<'a>(explained: ExplainedPrompt<'a>) -> impl Iterator<Item = TurnView> + use<'a> {
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
        TurnView { start: turn.start, owner }
    })
}
