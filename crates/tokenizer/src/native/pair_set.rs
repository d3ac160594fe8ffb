/// A set of pairs of code points: an open-addressing table.
pub(super) struct PairSet {
    slots: Vec<u64>,
}

const EMPTY: u64 = u64::MAX;

impl PairSet {
    pub fn new(pairs: Vec<(u32, u32)>) -> Self {
        let mut keys: Vec<u64> = pairs.into_iter().map(key).collect();
        keys.sort_unstable();
        keys.dedup();
        let mut set = Self { slots: vec![EMPTY; (keys.len() * 2).next_power_of_two().max(2)] };
        for key in keys {
            let mut at = set.slot(key);
            while set.slots[at] != EMPTY {
                at = (at + 1) & (set.slots.len() - 1);
            }
            set.slots[at] = key;
        }
        set
    }

    #[inline]
    pub fn holds(&self, pair: (u32, u32)) -> bool {
        let key = key(pair);
        let mut at = self.slot(key);
        loop {
            match self.slots[at] {
                EMPTY => return false,
                found if found == key => return true,
                _ => at = (at + 1) & (self.slots.len() - 1),
            }
        }
    }

    #[inline]
    fn slot(&self, key: u64) -> usize {
        (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33) as usize & (self.slots.len() - 1)
    }
}

#[inline]
fn key((left, right): (u32, u32)) -> u64 {
    u64::from(left) << 32 | u64::from(right)
}
