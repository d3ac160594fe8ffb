use std::hash::{BuildHasher, RandomState};

/// An index of the keys of a large object: an open-addressing hash table of positions, at most half
/// full. The hash is seeded with a secret, so that nobody can choose colliding keys.
#[derive(Clone, Debug)]
pub(super) struct Index {
    hasher: RandomState,
    /// Positions, or [`FREE`]. The number of slots is a power of two.
    slots: Vec<u32>,
    count: usize,
}

const FREE: u32 = u32::MAX;

impl Index {
    /// Creates an index of keys in their order, or returns `None` if there are too many to number.
    pub fn new<'a>(keys: impl ExactSizeIterator<Item = &'a str>) -> Option<Index> {
        let count = keys.len();
        if count >= FREE as usize {
            return None;
        }
        let slots = vec![FREE; (count * 2).next_power_of_two()];
        let mut index = Index { hasher: RandomState::new(), slots, count };
        for (place, key) in keys.enumerate() {
            let at = index.chain(key).find(|at| index.slots[*at] == FREE)?;
            index.slots[at] = place as u32;
        }
        Some(index)
    }

    /// Returns the position of a key. `is_it` compares the key with the one at a position.
    pub fn find(&self, key: &str, is_it: impl Fn(usize) -> bool) -> Option<usize> {
        let taken = self.chain(key).map(|at| self.slots[at]).take_while(|place| *place != FREE);
        taken.map(|place| place as usize).find(|place| is_it(*place))
    }

    /// Adds a key that is not in the index, at the next position. Returns whether there was room
    /// for it.
    pub fn push(&mut self, key: &str) -> bool {
        if (self.count + 1) * 2 > self.slots.len() || self.count + 1 >= FREE as usize {
            return false;
        }
        let Some(at) = self.chain(key).find(|at| self.slots[*at] == FREE) else { return false };
        self.slots[at] = self.count as u32;
        self.count += 1;
        true
    }

    /// Returns the slots that can hold a key, in probing order.
    fn chain(&self, key: &str) -> impl Iterator<Item = usize> + use<> {
        let mask = self.slots.len() - 1;
        let first = self.hasher.hash_one(key) as usize;
        (0..=mask).map(move |step| first.wrapping_add(step) & mask)
    }
}
