use std::borrow::Cow;

use rolecall_format::ControlId;

/// The origin of a byte of a prompt.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// A control token that the format wrote.
    Control(ControlId),
    /// Literal text of the format, or a default that it adds.
    Format,
    /// A field of a message.
    Message {
        /// The index of the message, from 0.
        message: usize,
        /// The field: `content`, `content[1]`, `name`, `tool_calls[0].function.arguments`.
        field: Cow<'static, str>,
    },
    /// A tool that the conversation offers.
    Tool {
        /// The index of the tool, from 0.
        tool: usize,
    },
    /// A document of the conversation.
    Document {
        /// The index of the document, from 0.
        document: usize,
    },
    /// An option that the caller set.
    Option {
        /// The option's name.
        name: String,
    },
}

impl Origin {
    /// Reports whether the format wrote the byte, so that it may be part of a control token.
    pub fn is_format(&self) -> bool {
        matches!(self, Origin::Control(_) | Origin::Format)
    }

    /// Returns the index of the message that the byte comes from.
    pub fn message(&self) -> Option<usize> {
        match self {
            Origin::Message { message, .. } => Some(*message),
            _ => None,
        }
    }
}

/// Who says a text of the conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaker {
    /// The message with this index.
    Message(usize),
    /// A tool, a document or a switch.
    Other,
}

/// The origin of a text of the conversation, without a copy.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OriginRef<'a> {
    Message { message: usize, field: &'a str },
    Other(&'a Origin),
}

/// The origins of a prompt by number. The most common ones, a message's content and its role, take
/// eight bytes and no further lookup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Origins {
    entries: Vec<OriginEntry>,
    /// The message of each field, and the end of the field's name in `names`.
    fields: Vec<(usize, usize)>,
    /// The concatenated field names.
    names: String,
    others: Vec<Origin>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OriginEntry {
    Content(u32),
    Role(u32),
    Field(u32),
    Other(u32),
}

impl Origins {
    pub fn with_capacity(entries: usize) -> Origins {
        Origins { entries: Vec::with_capacity(entries), ..Origins::default() }
    }

    /// Adds a message's content and returns its number.
    #[inline]
    pub fn add_content(&mut self, message: usize) -> usize {
        self.entries.push(OriginEntry::Content(message as u32));
        self.entries.len() - 1
    }

    /// Adds a message's role and returns its number.
    #[inline]
    pub fn add_role(&mut self, message: usize) -> usize {
        self.entries.push(OriginEntry::Role(message as u32));
        self.entries.len() - 1
    }

    /// Adds a field of a message. The closure appends the field's name and returns the index of the
    /// message. Returns the number of the origin and the index of the message.
    pub fn add_field(&mut self, name: impl FnOnce(&mut String) -> usize) -> (usize, usize) {
        if self.names.is_empty() {
            self.names.reserve(256);
            self.fields.reserve(16);
            self.entries.reserve(16);
        }
        let message = name(&mut self.names);
        self.fields.push((message, self.names.len()));
        self.entries.push(OriginEntry::Field(self.fields.len() as u32 - 1));
        (self.entries.len() - 1, message)
    }

    /// Adds an origin and returns its number.
    pub fn add(&mut self, origin: Origin) -> usize {
        self.entries.push(OriginEntry::Other(self.others.len() as u32));
        self.others.push(origin);
        self.entries.len() - 1
    }

    /// Reports whether this is the number of a message's role.
    pub fn is_role(&self, number: usize) -> bool {
        matches!(self.entries.get(number), Some(OriginEntry::Role(_)))
    }

    /// Returns who says the text with this number, or `None` for the name of a role.
    pub fn speaker(&self, number: usize) -> Option<Speaker> {
        Some(match *self.entries.get(number)? {
            OriginEntry::Role(_) => return None,
            OriginEntry::Content(message) => Speaker::Message(message as usize),
            OriginEntry::Field(at) => Speaker::Message(self.fields[at as usize].0),
            OriginEntry::Other(at) => match self.others.get(at as usize).and_then(Origin::message) {
                Some(message) => Speaker::Message(message),
                None => Speaker::Other,
            },
        })
    }

    /// Returns the origin with this number.
    pub fn look_up(&self, number: usize) -> Option<OriginRef<'_>> {
        let of_message = |message: u32, field| OriginRef::Message { message: message as usize, field };
        match *self.entries.get(number)? {
            OriginEntry::Content(message) => Some(of_message(message, "content")),
            OriginEntry::Role(message) => Some(of_message(message, "role")),
            OriginEntry::Field(at) => {
                let at = at as usize;
                let start = at.checked_sub(1).map_or(0, |before| self.fields[before].1);
                let (message, end) = self.fields[at];
                Some(OriginRef::Message { message, field: &self.names[start..end] })
            }
            OriginEntry::Other(at) => self.others.get(at as usize).map(OriginRef::Other),
        }
    }

    pub fn get(&self, number: usize) -> Option<Origin> {
        Some(match self.look_up(number)? {
            OriginRef::Other(origin) => origin.clone(),
            OriginRef::Message { message, field } => {
                let field = match field {
                    "content" => Cow::Borrowed("content"),
                    "role" => Cow::Borrowed("role"),
                    other => Cow::Owned(other.to_owned()),
                };
                Origin::Message { message, field }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Origin, Origins};

    #[test]
    fn every_field_keeps_its_own_name() {
        let mut origins = Origins::default();
        let names = ["name", "tool_calls.0.id", "x", "reasoning"];
        let numbers: Vec<usize> = names
            .iter()
            .enumerate()
            .map(|(message, name)| {
                let (number, found) = origins.add_field(|names| {
                    names.push_str(name);
                    message
                });
                assert_eq!(found, message);
                number
            })
            .collect();
        for (message, (name, number)) in names.iter().zip(numbers).enumerate() {
            assert_eq!(origins.get(number), Some(Origin::Message { message, field: (*name).into() }));
        }
    }
}
