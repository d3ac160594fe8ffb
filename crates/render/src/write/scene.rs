use rolecall_conversation::{Call, Json, Message, Part, Place, Tool};

use crate::plan::{Offer, SystemText, Turn, What};

/// The values that are available to the holes of a layout.
#[derive(Clone, Copy, Default)]
pub(super) struct Scene<'a> {
    pub turn: Option<&'a Turn<'a>>,
    /// A result within a group of results.
    pub result: Option<(usize, &'a Message)>,
    pub call: Option<(usize, Call<'a>)>,
    /// One of the call's arguments: its name and its value.
    pub argument: Option<(&'a str, &'a Json)>,
    /// Whether the layout around all calls is being written.
    pub around_calls: bool,
    pub tool: Option<(usize, &'a Tool)>,
    pub part: Option<(usize, Part<'a>)>,
    /// The description of the current tool.
    pub description: Option<&'a str>,
    /// The name of the current tool.
    pub tool_name: Option<&'a str>,
}

impl<'a> Scene<'a> {
    pub fn message(&self) -> Option<(usize, &'a Message)> {
        match (self.result, self.turn?.what) {
            (Some(result), _) => Some(result),
            (None, What::Message(index, message, _) | What::Files(index, message)) => Some((index, message)),
            (None, _) => None,
        }
    }

    /// Returns the raw output that the turn holds: the index of its message and its index in the
    /// readings.
    pub fn raw(&self) -> Option<(usize, usize)> {
        match self.turn?.what {
            What::Raw(message, reading) => Some((message, reading)),
            _ => None,
        }
    }

    pub fn folded(&self) -> Option<SystemText<'a>> {
        match self.turn?.what {
            What::Message(_, _, folded) => folded,
            _ => None,
        }
    }

    /// Returns the position of a call's arguments.
    pub fn arguments_place(&self, call: usize) -> Place {
        let message = self.message().map_or(0, |(index, _)| index);
        Place::message(message, format!("tool_calls[{call}].function.arguments"))
    }

    pub fn offer(&self) -> Option<Offer<'a>> {
        self.turn?.tools
    }
}
