use std::borrow::Cow;

use rolecall_format::ControlId;

/// Where a byte of a prompt came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The format: a control token.
    Control(ControlId),
    /// The format: literal text, or a default that it adds.
    Format,
    /// A message.
    Message {
        /// Which, from 0.
        message: usize,
        /// What of it: `content`, `content[1]`, `name`, `tool_calls[0].function.arguments`.
        field: Cow<'static, str>,
    },
    /// A tool that the conversation offers.
    Tool {
        /// Which, from 0.
        tool: usize,
    },
    /// A document that the conversation brings.
    Document {
        /// Which, from 0.
        document: usize,
    },
    /// An option that the caller gave.
    Option {
        /// Its name.
        name: String,
    },
}

impl Origin {
    /// Whether the format wrote it, so that it may hold control tokens.
    pub fn is_format(&self) -> bool {
        matches!(self, Origin::Control(_) | Origin::Format)
    }

    /// The message it came from.
    pub fn message(&self) -> Option<usize> {
        match self {
            Origin::Message { message, .. } => Some(*message),
            _ => None,
        }
    }
}

/// The origins of a prompt by number. A message's content and role, which most are, take eight bytes and no look
/// elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Origins {
    entries: Vec<Entry>,
    /// Messages, and where the names of their fields end in `names`.
    fields: Vec<(usize, usize)>,
    /// The names of fields, one behind the other.
    names: String,
    others: Vec<Origin>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    Content(u32),
    Role(u32),
    Field(u32),
    Other(u32),
}

impl Origins {
    pub fn with_capacity(entries: usize) -> Origins {
        Origins { entries: Vec::with_capacity(entries), ..Origins::default() }
    }

    /// Adds a message's content and gives its number.
    #[inline]
    pub fn add_content(&mut self, message: usize) -> usize {
        self.entries.push(Entry::Content(message as u32));
        self.entries.len() - 1
    }

    /// Adds a message's role and gives its number.
    #[inline]
    pub fn add_role(&mut self, message: usize) -> usize {
        self.entries.push(Entry::Role(message as u32));
        self.entries.len() - 1
    }

    /// Adds a field of a message by a function that writes its name and says which message that is; gives number and message.
    pub fn add_field(&mut self, name: impl FnOnce(&mut String) -> usize) -> (usize, usize) {
        let message = name(&mut self.names);
        self.fields.push((message, self.names.len()));
        self.entries.push(Entry::Field(self.fields.len() as u32 - 1));
        (self.entries.len() - 1, message)
    }

    /// Adds an origin and gives its number.
    pub fn add(&mut self, origin: Origin) -> usize {
        self.entries.push(Entry::Other(self.others.len() as u32));
        self.others.push(origin);
        self.entries.len() - 1
    }

    /// Whether a number is that of a message's role.
    pub fn is_role(&self, number: usize) -> bool {
        matches!(self.entries.get(number), Some(Entry::Role(_)))
    }

    pub fn get(&self, number: usize) -> Option<Origin> {
        let of_message =
            |message: u32, field| Origin::Message { message: message as usize, field: Cow::Borrowed(field) };
        match *self.entries.get(number)? {
            Entry::Content(message) => Some(of_message(message, "content")),
            Entry::Role(message) => Some(of_message(message, "role")),
            Entry::Field(at) => {
                let at = at as usize;
                let start = at.checked_sub(1).map_or(0, |before| self.fields[before].1);
                let (message, end) = self.fields[at];
                Some(Origin::Message { message, field: Cow::Owned(self.names[start..end].to_owned()) })
            }
            Entry::Other(at) => self.others.get(at as usize).cloned(),
        }
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
