use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

/// The number of bits of a hash that choose a branch.
const BITS: u32 = 4;

/// A map whose copies share what they have in common. A copy costs nothing, and an insertion copies
/// only the path to the entry.
#[derive(Clone, Debug)]
pub(crate) struct SharedMap<V> {
    root: Option<Arc<MapNode<V>>>,
    hasher: Option<RandomState>,
}

#[derive(Clone, Debug)]
enum MapNode<V> {
    Branch([Option<Arc<MapNode<V>>>; 1 << BITS]),
    /// The entries with one hash.
    Leaf(u64, Vec<(Arc<str>, V)>),
}

impl<V> Default for SharedMap<V> {
    fn default() -> SharedMap<V> {
        SharedMap { root: None, hasher: None }
    }
}

impl<V: Clone> SharedMap<V> {
    /// Returns the value of a key.
    pub fn get(&self, key: &str) -> Option<&V> {
        let hash = self.hasher.as_ref()?.hash_one(key);
        let mut node = self.root.as_ref()?;
        let mut shift = 0;
        loop {
            match &**node {
                MapNode::Branch(branches) => node = branches[branch(hash, shift)].as_ref()?,
                MapNode::Leaf(known, entries) if *known == hash => {
                    return entries.iter().find(|(known, _)| **known == *key).map(|(_, value)| value);
                }
                MapNode::Leaf(..) => return None,
            }
            shift += BITS;
        }
    }

    /// Inserts a value, or replaces the one that the key has.
    pub fn insert(&mut self, key: &str, value: V) {
        let hash = self.hasher.get_or_insert_with(RandomState::new).hash_one(key);
        insert(&mut self.root, hash, 0, key, value);
    }
}

fn branch(hash: u64, shift: u32) -> usize {
    (hash >> shift) as usize & ((1 << BITS) - 1)
}

fn insert<V: Clone>(place: &mut Option<Arc<MapNode<V>>>, hash: u64, shift: u32, key: &str, value: V) {
    let Some(node) = place else {
        *place = Some(Arc::new(MapNode::Leaf(hash, vec![(key.into(), value)])));
        return;
    };
    if let MapNode::Leaf(known, _) = **node
        && known != hash
    {
        let mut branches = [const { None }; 1 << BITS];
        branches[branch(known, shift)] = Some(Arc::clone(node));
        *node = Arc::new(MapNode::Branch(branches));
    }
    match Arc::make_mut(node) {
        MapNode::Branch(branches) => insert(&mut branches[branch(hash, shift)], hash, shift + BITS, key, value),
        MapNode::Leaf(_, entries) => match entries.iter_mut().find(|(known, _)| **known == *key) {
            Some((_, old)) => *old = value,
            None => entries.push((key.into(), value)),
        },
    }
}

/// New entries over a shared map. While nothing is shared, this is an ordinary map.
#[derive(Debug)]
pub(crate) struct LayeredMap<V> {
    earlier: SharedMap<V>,
    new: HashMap<String, V>,
}

impl<V: Clone> LayeredMap<V> {
    /// Creates a map that has the entries of a shared map.
    pub fn over(earlier: &SharedMap<V>) -> LayeredMap<V> {
        LayeredMap { earlier: earlier.clone(), new: HashMap::new() }
    }

    /// Returns the value of a key.
    pub fn get(&self, key: &str) -> Option<&V> {
        self.new.get(key).or_else(|| self.earlier.get(key))
    }

    /// Returns the value of a key, to be changed.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut V> {
        if !self.new.contains_key(key) {
            let earlier = self.earlier.get(key)?.clone();
            self.new.insert(key.to_owned(), earlier);
        }
        self.new.get_mut(key)
    }

    /// Reports whether a key has a value.
    pub fn contains(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Inserts a value, or replaces the one that the key has.
    pub fn insert(&mut self, key: String, value: V) {
        self.new.insert(key, value);
    }

    /// Returns all entries as a shared map.
    pub fn shared(&self) -> SharedMap<V> {
        let mut shared = self.earlier.clone();
        for (key, value) in &self.new {
            shared.insert(key, value.clone());
        }
        shared
    }
}

#[cfg(test)]
mod tests {
    use super::{LayeredMap, SharedMap};

    #[test]
    fn new_entries_cover_earlier_ones() {
        let mut map = LayeredMap::over(&SharedMap::default());
        map.insert("a".to_owned(), 1);
        let earlier = map.shared();
        let mut map = LayeredMap::over(&earlier);
        *map.get_mut("a").unwrap() += 1;
        map.insert("b".to_owned(), 3);
        let later = map.shared();
        let entries = |map: &SharedMap<i32>| ["a", "b", "c"].map(|key| map.get(key).copied());
        assert_eq!(entries(&earlier), [Some(1), None, None]);
        assert_eq!(entries(&later), [Some(2), Some(3), None]);
    }

    #[test]
    fn copies_keep_their_own_entries() {
        let mut copies = vec![SharedMap::default()];
        for number in 0..500 {
            let mut next = copies[number].clone();
            next.insert(&format!("key {}", number % 300), number);
            copies.push(next);
        }
        for (size, map) in copies.iter().enumerate() {
            for key in 0..300 {
                let last = (0..size).rev().find(|number| number % 300 == key);
                assert_eq!(map.get(&format!("key {key}")).copied(), last, "{key} of {size}");
            }
            assert_eq!(map.get("another"), None);
        }
    }
}
