use std::borrow::Cow;

use super::Json;
use super::index::Index;

/// A key. Keys that every conversation has are static and need no allocation.
type ObjectKey = Cow<'static, str>;

/// Returns a key in the form in which it is stored.
fn key_of(key: impl AsRef<str> + Into<String>) -> ObjectKey {
    const COMMON: [&str; 14] = [
        "role",
        "content",
        "type",
        "text",
        "name",
        "function",
        "arguments",
        "id",
        "tool_calls",
        "tool_call_id",
        "parameters",
        "properties",
        "description",
        "required",
    ];
    match COMMON.iter().find(|common| **common == key.as_ref()) {
        Some(common) => Cow::Borrowed(common),
        None => Cow::Owned(key.into()),
    }
}

/// Objects with up to this many keys are searched linearly. Larger ones have an index.
const FEW: usize = 16;

/// A JSON object: keys and values in order.
///
/// A key that occurs twice keeps its first position and its last value, as in Python. Finding and
/// setting a key takes the same time for any number of keys. Removing a key takes time proportional
/// to that number.
#[derive(Clone, Debug, Default)]
pub struct Object {
    entries: Vec<(ObjectKey, Json)>,
    /// The index of the keys, if there are more than a few.
    index: Option<Box<Index>>,
}

impl PartialEq for Object {
    fn eq(&self, other: &Object) -> bool {
        self.entries == other.entries
    }
}

impl Object {
    /// Creates an empty object.
    pub fn new() -> Object {
        Object::default()
    }

    /// Creates an empty object with room for a number of keys.
    pub fn with_capacity(keys: usize) -> Object {
        Object { entries: Vec::with_capacity(keys), ..Object::default() }
    }

    /// Returns the value of a key.
    #[inline]
    pub fn get(&self, key: &str) -> Option<&Json> {
        self.position(key).map(|at| &self.entries[at].1)
    }

    /// Returns the position of a key, from 0.
    #[inline]
    pub fn position(&self, key: &str) -> Option<usize> {
        match &self.index {
            None => self.entries.iter().position(|(known, _)| known == key),
            Some(index) => index.find(key, |at| self.entries[at].0 == key),
        }
    }

    /// Returns the value at a position.
    #[inline]
    pub fn value_at(&self, place: usize) -> Option<&Json> {
        self.entries.get(place).map(|(_, value)| value)
    }

    /// Returns a mutable reference to the value of a key.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Json> {
        self.position(key).map(|at| &mut self.entries[at].1)
    }

    /// Sets the value of a key. A new key is added at the end.
    pub fn insert(&mut self, key: impl AsRef<str> + Into<String>, value: Json) {
        if let Some(at) = self.position(key.as_ref()) {
            self.entries[at].1 = value;
            return;
        }
        if self.entries.capacity() == 0 {
            // Most objects have two keys, and there can be very many objects.
            self.entries.reserve_exact(2);
        }
        let is_indexed = self.index.as_mut().is_some_and(|index| index.push(key.as_ref()));
        self.entries.push((key_of(key), value));
        if !is_indexed {
            self.number();
        }
    }

    /// Returns a copy with another value of a key, without copying the one that it has.
    #[must_use]
    pub fn with(&self, key: &str, value: Json) -> Object {
        let mut copy = Object { entries: Vec::with_capacity(self.entries.len() + 1), index: self.index.clone() };
        let kept = |json: &Json, known: &str| if known == key { Json::Null } else { json.clone() };
        copy.entries.extend(self.entries.iter().map(|(known, json)| (known.clone(), kept(json, known))));
        copy.insert(key, value);
        copy
    }

    /// Removes a key and returns its value.
    pub fn remove(&mut self, key: &str) -> Option<Json> {
        let at = self.position(key)?;
        let (_, value) = self.entries.remove(at);
        self.number();
        Some(value)
    }

    /// Returns an iterator over keys and values, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Json)> {
        self.entries.iter().map(|(key, value)| (key.as_ref(), value))
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Reports whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Rebuilds the index of the keys, if there are more than a few.
    fn number(&mut self) {
        self.index = match self.entries.len() {
            0..=FEW => None,
            _ => Index::new(self.entries.iter().map(|(key, _)| key.as_ref())).map(Box::new),
        };
    }
}

impl FromIterator<(String, Json)> for Object {
    fn from_iter<I: IntoIterator<Item = (String, Json)>>(entries: I) -> Object {
        let mut object = Object::new();
        entries.into_iter().for_each(|(key, value)| object.insert(key, value));
        object
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_keys_are_found_where_they_stand() {
        let mut object = Object::new();
        for number in 0..1000_i64 {
            object.insert(format!("k{number}"), number.into());
            object.insert(format!("k{}", number / 2), (-number).into());
        }
        assert_eq!(object.len(), 1000);
        for number in 0..1000_usize {
            assert_eq!(object.position(&format!("k{number}")), Some(number));
        }
        assert_eq!(object.get("k1000"), None);
        assert_eq!(object.get("k7"), Some(&Json::from(-15)));
        for number in (0..1000).rev().step_by(3) {
            assert!(object.remove(&format!("k{number}")).is_some());
        }
        let kept: Vec<String> = object.iter().map(|(key, _)| key.to_owned()).collect();
        assert_eq!(kept.len(), 666);
        assert!(kept.iter().enumerate().all(|(at, key)| object.position(key) == Some(at)));
        assert_eq!(object.clone(), object);
    }

    #[test]
    fn a_value_takes_no_more_room_than_a_list_and_a_pointer() {
        assert_eq!(size_of::<Json>(), 32);
    }
}
