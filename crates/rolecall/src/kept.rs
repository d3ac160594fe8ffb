use std::convert::Infallible;
use std::sync::{PoisonError, RwLock};

/// The most values that are kept, so that requests that each carry another template do not fill the memory.
const MOST: usize = 64;

/// A small cache that threads share. When it is full, it forgets everything.
///
/// A key is found by a comparison, because few are kept, and hashing the text of a template takes longer.
#[derive(Debug)]
pub(crate) struct SmallCache<K, V>(RwLock<Vec<(K, V)>>);

impl<K, V> Default for SmallCache<K, V> {
    fn default() -> Self {
        SmallCache(RwLock::default())
    }
}

impl<K, V: Clone> SmallCache<K, V> {
    /// Returns the value of a key, or else the one that `make` returns with its key.
    pub fn get_or_make(&self, is_it: impl Fn(&K) -> bool, make: impl FnOnce() -> (K, V)) -> V {
        match self.find_or_make(is_it, || Ok::<_, Infallible>(make())) {
            Ok(value) => value,
        }
    }

    /// Like [`get_or_make`](Self::get_or_make), unless `make` fails, which is not kept. If two threads make a value,
    /// both get the first.
    pub fn find_or_make<E>(
        &self,
        is_it: impl Fn(&K) -> bool,
        make: impl FnOnce() -> Result<(K, V), E>,
    ) -> Result<V, E> {
        let find = |kept: &[(K, V)]| kept.iter().find(|(key, _)| is_it(key)).map(|(_, value)| value.clone());
        if let Some(value) = find(&self.0.read().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(value);
        }
        let (key, value) = make()?;
        let mut kept = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(value) = find(&kept) {
            return Ok(value);
        }
        if kept.len() >= MOST {
            kept.clear();
        }
        kept.push((key, value.clone()));
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::{MOST, SmallCache};

    #[test]
    fn a_value_is_made_once_until_too_many_are_kept() {
        let (kept, made) = (SmallCache::default(), Cell::new(0));
        let get = |key: usize| {
            let make = || {
                made.set(made.get() + 1);
                if key == usize::MAX { Err("none") } else { Ok((key, key * 2)) }
            };
            kept.find_or_make(|known| *known == key, make)
        };
        assert_eq!((get(1), get(1), made.get()), (Ok(2), Ok(2), 1));
        assert_eq!((get(usize::MAX), get(usize::MAX), made.get()), (Err("none"), Err("none"), 3));
        (2..=MOST).for_each(|key| assert_eq!(get(key), Ok(2 * key)));
        assert_eq!((get(1), made.get()), (Ok(2), MOST + 2));
        assert_eq!((get(MOST + 1), get(1), made.get()), (Ok(2 * MOST + 2), Ok(2), MOST + 4));
    }
}
