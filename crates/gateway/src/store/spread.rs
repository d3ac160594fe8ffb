use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};

/// A hash table that grows a part at a time.
///
/// A table moves all of its entries when it grows. With hundreds of thousands, a request would wait for that.
#[derive(Debug)]
pub struct Spread<K, V> {
    parts: Vec<HashMap<K, V>>,
    choice: RandomState,
}

/// How many parts there are.
const PARTS: usize = 256;

impl<K: Hash + Eq, V> Spread<K, V> {
    pub fn get(&self, key: &K) -> Option<&V> {
        self.parts[self.part(key)].get(key)
    }

    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let part = self.part(key);
        self.parts[part].get_mut(key)
    }

    /// Returns the value of a key, which is made if there is none.
    pub fn get_or_insert_with(&mut self, key: K, value: impl FnOnce() -> V) -> &mut V {
        let part = self.part(&key);
        self.parts[part].entry(key).or_insert_with(value)
    }

    /// Adds an entry, and returns the value that the key had.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let part = self.part(&key);
        self.parts[part].insert(key, value)
    }

    pub fn remove(&mut self, key: &K) -> Option<V> {
        let part = self.part(key);
        self.parts[part].remove(key)
    }

    fn part(&self, key: &K) -> usize {
        // The tables use other bits, and other random keys.
        self.choice.hash_one(key) as usize % PARTS
    }
}

impl<K, V> Default for Spread<K, V> {
    fn default() -> Spread<K, V> {
        Spread { parts: (0..PARTS).map(|_| HashMap::new()).collect(), choice: RandomState::new() }
    }
}

#[cfg(test)]
impl<K, V> Spread<K, V> {
    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.parts.iter().map(HashMap::len).sum()
    }

    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.parts.iter().flat_map(HashMap::values)
    }
}

#[cfg(test)]
mod tests {
    use super::{PARTS, Spread};

    #[test]
    fn it_is_one_table_and_its_parts_are_small() {
        let mut table = Spread::default();
        for key in 0..100_000 {
            assert_eq!(table.insert(key, key + 1), None);
        }
        assert_eq!(table.insert(5, 7), Some(6));
        assert_eq!(table.get_mut(&5), Some(&mut 7));
        assert_eq!((table.remove(&5), table.remove(&5), table.len()), (Some(7), None, 99_999));
        assert_eq!((*table.get_or_insert_with(5, || 8), *table.get_or_insert_with(5, || 9)), (8, 8));
        assert!((0..100_000).filter(|key| *key != 5).all(|key| table.get(&key) == Some(&(key + 1))));
        assert!(table.parts.iter().all(|part| part.len() < 2 * 100_000 / PARTS));
    }
}
