use std::hash::{BuildHasher, RandomState};

/// Where each key of a large object stands: an open table of places, at most half full. Its hash has a secret, so that
/// nobody can choose keys that collide.
#[derive(Clone, Debug)]
pub(super) struct Index {
    hasher: RandomState,
    /// A place, or [`FREE`]; as many slots as a power of two.
    slots: Vec<u32>,
    count: usize,
}

const FREE: u32 = u32::MAX;

impl Index {
    /// An index of these keys, in their order; none where there are more than it can number.
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

    /// Where a key stands; `is_it` compares it with the key at a place.
    pub fn find(&self, key: &str, is_it: impl Fn(usize) -> bool) -> Option<usize> {
        let taken = self.chain(key).map(|at| self.slots[at]).take_while(|place| *place != FREE);
        taken.map(|place| place as usize).find(|place| is_it(*place))
    }

    /// Adds a key that is not there yet, at the next place. False where there is no room for it.
    pub fn push(&mut self, key: &str) -> bool {
        if (self.count + 1) * 2 > self.slots.len() || self.count + 1 >= FREE as usize {
            return false;
        }
        let Some(at) = self.chain(key).find(|at| self.slots[*at] == FREE) else { return false };
        self.slots[at] = self.count as u32;
        self.count += 1;
        true
    }

    /// The slots in which a key may be, in order.
    fn chain(&self, key: &str) -> impl Iterator<Item = usize> + use<> {
        let mask = self.slots.len() - 1;
        let first = self.hasher.hash_one(key) as usize;
        (0..=mask).map(move |step| first.wrapping_add(step) & mask)
    }
}
