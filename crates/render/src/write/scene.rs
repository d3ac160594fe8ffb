use rolecall_conversation::{Call, Json, Message, Part, Place, Tool};
use rolecall_format::Field;

use crate::plan::{Offer, Plan, PrintedTools, SystemText, Turn, What};

/// The values that are available to the holes of a layout.
#[derive(Clone, Copy)]
pub(super) struct Scene<'a> {
    pub plan: &'a Plan<'a>,
    pub turn: &'a Turn<'a>,
    /// The hole after which the prompt ends.
    pub cut: Option<Field>,
    /// A result within a group of results.
    pub result: Option<(usize, &'a Message)>,
    pub call: Option<(usize, Call<'a>)>,
    /// One of the call's arguments: its name and its value.
    pub argument: Option<(&'a str, &'a Json)>,
    /// Whether the layout around all calls is being written.
    pub around_calls: bool,
    pub tool: Option<(usize, &'a Tool)>,
    /// A part of a message's content: the index of the message, the index of the part, and the part.
    pub part: Option<(usize, usize, Part<'a>)>,
    /// The description of the current tool.
    pub description: Option<&'a str>,
    /// The name of the current tool.
    pub tool_name: Option<&'a str>,
}

impl<'a> Scene<'a> {
    pub fn of_turn(plan: &'a Plan<'a>, turn: &'a Turn<'a>, cut: Option<Field>) -> Scene<'a> {
        Scene {
            plan,
            turn,
            cut,
            result: None,
            call: None,
            argument: None,
            around_calls: false,
            tool: None,
            part: None,
            description: None,
            tool_name: None,
        }
    }

    pub fn message(&self) -> Option<(usize, &'a Message)> {
        match (self.result, self.turn.what) {
            (Some(result), _) => Some(result),
            (None, What::Message(index, message) | What::Files(index, message)) => Some((index, message)),
            (None, What::Plain(index, _)) => Some((index, self.plan.messages.get(index)?)),
            (None, _) => None,
        }
    }

    /// Returns the raw output that the turn holds: the index of its message and its index in the
    /// readings.
    pub fn raw(&self) -> Option<(usize, usize)> {
        match self.turn.what {
            What::Raw(message, reading) => Some((message, reading)),
            _ => None,
        }
    }

    pub fn folded(&self) -> Option<SystemText<'a>> {
        self.plan.folded.filter(|_| self.turn.folds)
    }

    /// Returns the position of a call's arguments.
    pub fn arguments_place(&self, call: usize) -> Place {
        let message = self.message().map_or(0, |(index, _)| index);
        Place::message(message, format!("tool_calls[{call}].function.arguments"))
    }

    pub fn offer(&self) -> Option<Offer<'a>> {
        match self.turn.tools {
            PrintedTools::Nothing => None,
            PrintedTools::OfConversation => Some(Offer { tools: self.plan.tools, message: None }),
            PrintedTools::OfMessage => {
                let (index, message) = self.message()?;
                Some(Offer { tools: message.tools()?, message: Some(index) })
            }
        }
    }
}
