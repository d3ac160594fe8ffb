//! The places of values, at which a rendering of a longer conversation finds them again: a message
//! and the way to a value in it, or the number of a value that is not in a message.

use std::any::Any;

use rolecall_jinja::{GrowingInputs, InputPlace, Tag};

use super::{Inputs, OWN, Shape};

/// The root of values that are not in a message. They are numbered in the order in which they are
/// created, which is the same as long as only messages are added.
const REST: u64 = u64::MAX;

/// The root of values that belong to the template itself.
const TEMPLATE: u64 = u64::MAX - 1;

impl Inputs<'_> {
    /// Appends the path to a value inside a message and returns the index of the message.
    pub(super) fn write_path(&self, at: u32, path: &mut String) -> usize {
        if !self.wrapped.is_empty()
            && let Some(message) = self.message_of_wrapped(at)
        {
            path.push_str("content");
            return message;
        }
        let value = &self.values[at as usize];
        if value.parent < self.messages {
            let alias = self.aliases.binary_search_by_key(&at, |(value, _)| *value);
            path.push_str(alias.map_or(value.key, |alias| self.aliases[alias].1));
            return self.said_by.index(value.parent as usize);
        }
        let message = self.write_path(value.parent, path);
        match self.values[value.parent as usize].shape {
            Shape::List(items) => {
                path.push('[');
                match char::from_digit(at - items.first, 10) {
                    Some(digit) => path.push(digit),
                    None => path.push_str(&(at - items.first).to_string()),
                }
                path.push(']');
            }
            _ => {
                path.push('.');
                path.push_str(value.key);
            }
        }
        message
    }

    /// Returns the index of the message whose content a value is in, if a text became that content's part.
    fn message_of_wrapped(&self, mut at: u32) -> Option<usize> {
        while self.values[at as usize].parent >= self.messages {
            at = self.values[at as usize].parent;
        }
        let message = self.values[at as usize].parent;
        self.wrapped.binary_search(&at).is_ok().then(|| self.said_by.index(message as usize))
    }

    /// Returns the text of the first part of a message's content.
    pub(super) fn text_of_part(&self, message: usize) -> Option<u32> {
        let content = self.entry_of(self.values.get(message)?, "content")?;
        let Shape::List(parts) = content.shape else { return None };
        let text = self.entry_of(self.children(parts).first()?, "text")?;
        Some(text.handle.0)
    }

    /// Returns the index of the first message that was read but is not at hand.
    pub fn needs(&self) -> Option<usize> {
        self.needs.get()
    }

    fn place_of(&self, at: u32) -> Option<InputPlace> {
        if at >= self.said {
            return Some(InputPlace { root: REST, path: vec![at.checked_sub(self.list)?] });
        }
        let (mut at, mut path) = (at, Vec::new());
        while at >= self.messages {
            let parent = self.values.get(at as usize)?.parent;
            let (Shape::List(children) | Shape::Dict(children)) = self.values.get(parent as usize)?.shape else {
                return None;
            };
            path.push(at.checked_sub(children.first)?);
            at = parent;
        }
        path.reverse();
        Some(InputPlace { root: self.said_by.index(at as usize) as u64, path })
    }

    fn at_place(&self, place: &InputPlace) -> Option<u32> {
        if place.root == REST {
            let at = self.list.checked_add(*place.path.first()?)?;
            return ((at as usize) < self.values.len()).then_some(at);
        }
        let index = usize::try_from(place.root).ok()?;
        let Some(number) = self.said_by.number(index) else {
            self.needs.set(Some(self.needs.get().unwrap_or(index)));
            return None;
        };
        let mut at = number as u32;
        for step in &place.path {
            let (Shape::List(children) | Shape::Dict(children)) = self.values.get(at as usize)?.shape else {
                return None;
            };
            at = (*step < children.count).then(|| children.first + step)?;
        }
        Some(at)
    }
}

impl GrowingInputs for Inputs<'_> {
    fn growing(&self) -> &dyn Any {
        &self.values[self.list as usize].handle
    }

    fn count(&self) -> usize {
        self.said_by.count
    }

    fn switch(&self) -> Option<&dyn Any> {
        Some(&self.values[self.switch as usize].handle)
    }

    fn place(&self, node: &dyn Any) -> Option<InputPlace> {
        self.place_of(self.find(node)?.handle.0)
    }

    fn node<'n>(&'n self, place: &InputPlace) -> Option<&'n dyn Any> {
        let at = self.at_place(place)?;
        self.values.get(at as usize).map(|value| &value.handle as &dyn Any)
    }

    fn tag_place(&self, tag: Tag) -> Option<InputPlace> {
        match u32::try_from(tag.0).ok()? {
            OWN => Some(InputPlace { root: TEMPLATE, path: Vec::new() }),
            at => self.place_of(at),
        }
    }

    fn place_tag(&self, place: &InputPlace) -> Option<Tag> {
        let at = if place.root == TEMPLATE { OWN } else { self.at_place(place)? };
        Some(Tag(u64::from(at)))
    }
}
