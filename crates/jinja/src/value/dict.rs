//! Dicts created by templates: ordered entries, with a hash index once there are many.

use std::collections::HashMap;
use std::rc::Rc;

use super::Value;
use super::compare::{equal, hash};
use crate::error::Res;
use crate::limits::Charge;
use crate::vm::World;

/// The most entries that are searched without hashing.
const FEW: usize = 8;

pub(crate) struct Dict<'a> {
    entries: Vec<(Value<'a>, Value<'a>)>,
    places: Option<HashMap<u64, Vec<u32>>>,
    /// The nesting depth of the values, this one included.
    pub(crate) depth: u32,
    charge: Charge,
}

impl<'a> Dict<'a> {
    pub(crate) fn new(world: &World<'a>) -> Res<Dict<'a>> {
        world.work(192)?;
        Ok(Dict {
            entries: Vec::new(),
            places: None,
            depth: 1,
            charge: Charge::new(&world.meter, size_of::<Dict<'a>>())?,
        })
    }

    pub(crate) fn into_value(self) -> Value<'a> {
        Value::Dict(Rc::new(self))
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn entries(&self) -> &[(Value<'a>, Value<'a>)] {
        &self.entries
    }

    fn place(&self, world: &World<'a>, key: &Value<'a>) -> Res<Option<usize>> {
        match &self.places {
            None => {
                // An unhashable key is rejected even though no hash is needed.
                if !matches!(key, Value::Str(_)) {
                    hash(world, key, 0)?;
                }
                for (at, (known, _)) in self.entries.iter().enumerate() {
                    if equal(world, known, key, 0)? {
                        return Ok(Some(at));
                    }
                }
                Ok(None)
            }
            Some(places) => {
                let hash = hash(world, key, 0)?;
                for &at in places.get(&hash).map_or(&[][..], |found| found) {
                    world.work(64)?;
                    if equal(world, &self.entries[at as usize].0, key, 0)? {
                        return Ok(Some(at as usize));
                    }
                }
                Ok(None)
            }
        }
    }

    pub(crate) fn get(&self, world: &World<'a>, key: &Value<'a>) -> Res<Option<&Value<'a>>> {
        Ok(self.place(world, key)?.map(|at| &self.entries[at].1))
    }

    pub(crate) fn get_str(&self, key: &str) -> Option<&Value<'a>> {
        let is_key = |known: &Value<'a>| matches!(known, Value::Str(text) if text.plain() == key);
        match &self.places {
            None => self.entries.iter().find(|(known, _)| is_key(known)).map(|(_, value)| value),
            Some(places) => {
                let found = places.get(&super::compare::hash_str(key))?;
                let at = found.iter().find(|&&at| is_key(&self.entries[at as usize].0))?;
                Some(&self.entries[*at as usize].1)
            }
        }
    }

    /// Returns the index of the entry with a key.
    pub(crate) fn place_str(&self, key: &str) -> Option<usize> {
        let is_key = |known: &Value<'a>| matches!(known, Value::Str(text) if text.plain() == key);
        self.entries.iter().position(|(known, _)| is_key(known))
    }

    /// Sets the number in an entry.
    pub(crate) fn set_number(&mut self, entry: usize, value: i64) {
        if let Some((_, number @ Value::Int(_))) = self.entries.get_mut(entry) {
            *number = Value::Int(value);
        }
    }

    pub(crate) fn get_str_mut(&mut self, key: &str) -> Option<&mut Value<'a>> {
        let is_key = |known: &Value<'a>| matches!(known, Value::Str(text) if text.plain() == key);
        let at = match &self.places {
            None => self.entries.iter().position(|(known, _)| is_key(known))?,
            Some(places) => {
                let found = places.get(&super::compare::hash_str(key))?;
                *found.iter().find(|&&at| is_key(&self.entries[at as usize].0))? as usize
            }
        };
        Some(&mut self.entries[at].1)
    }

    /// Sets the value of a key. An existing key keeps its first spelling, as in Python.
    pub(crate) fn insert(&mut self, world: &World<'a>, key: Value<'a>, value: Value<'a>) -> Res<()> {
        let depth = 1 + key.depth().max(value.depth());
        world.check_depth(depth)?;
        self.depth = self.depth.max(depth);
        if let Some(at) = self.place(world, &key)? {
            self.entries[at].1 = value;
            return Ok(());
        }
        if self.entries.len() == self.entries.capacity() {
            let doubled = (self.entries.len() * 2).max(4);
            self.charge.resize(size_of::<Dict<'a>>() + doubled * (size_of::<(Value<'a>, Value<'a>)>() + 48))?;
        }
        let at = self.entries.len() as u32;
        world.work(64)?;
        if let Some(places) = &mut self.places {
            world.work(128)?;
            places.entry(hash(world, &key, 0)?).or_default().push(at);
        }
        self.entries.push((key, value));
        if self.entries.len() > FEW && self.places.is_none() {
            let mut places: HashMap<u64, Vec<u32>> = HashMap::new();
            for (at, (key, _)) in self.entries.iter().enumerate() {
                places.entry(hash(world, key, 0)?).or_default().push(at as u32);
            }
            self.places = Some(places);
        }
        Ok(())
    }
}
