use rolecall_conversation::{Call, Json, Message, Part, Place, Tool};

use crate::plan::{Offer, SystemText, Turn, What};

/// What the holes of a layout can see.
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
    /// What the tool at hand says that it does.
    pub description: Option<&'a str>,
    /// Its name.
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

    /// The raw output that the turn holds: its message and its number among the readings.
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

    /// Where the arguments of a call stand.
    pub fn arguments_place(&self, call: usize) -> Place {
        let message = self.message().map_or(0, |(index, _)| index);
        Place::message(message, format!("tool_calls[{call}].function.arguments"))
    }

    pub fn offer(&self) -> Option<Offer<'a>> {
        self.turn?.tools
    }
}
