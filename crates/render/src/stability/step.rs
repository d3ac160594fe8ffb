use std::fmt;

use rolecall_conversation::{Message, REASONING, Role};

use super::KeptLength;
use crate::Error;

/// The comparison of a prompt with the one after the next message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The number of messages in the earlier prompt.
    pub messages: usize,
    /// The kind of the message that is added.
    pub added: AddedMessage,
    /// What the longer prompt keeps of the earlier one, both without a generation prompt. An error
    /// if one of them is refused.
    pub history: Result<KeptLength, Error>,
    /// What the longer prompt keeps of the earlier one with its generation prompt, which is what
    /// the engine has when the model replies. `None` if the message is not the assistant's.
    pub generation: Option<Result<KeptLength, Error>>,
}

/// The kind of a message that is added to a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AddedMessage {
    /// The role as the message spells it.
    pub role: String,
    /// Whether the message calls tools.
    pub calls: bool,
    /// Whether the message has reasoning.
    pub reasoning: bool,
}

impl AddedMessage {
    /// Returns the kind of a message.
    pub fn of(message: &Message) -> AddedMessage {
        AddedMessage {
            role: message.role_as_spelled().to_owned(),
            calls: message.calls().len() > 0,
            reasoning: REASONING.iter().any(|key| message.as_object().get(key).is_some_and(|value| !value.is_null())),
        }
    }

    /// Reports whether the message is the assistant's.
    pub fn is_reply(&self) -> bool {
        Role::from_name(&self.role) == Role::Assistant
    }
}

/// Writes the kind as `assistant with reasoning and calls`.
impl fmt::Display for AddedMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.role)?;
        f.write_str(match (self.reasoning, self.calls) {
            (true, true) => " with reasoning and calls",
            (true, false) => " with reasoning",
            (false, true) => " with calls",
            (false, false) => "",
        })
    }
}
