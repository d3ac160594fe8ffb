/// The number of bits for each pair, before it is rounded up, and the fewest numbers that hold them.
const BITS: usize = 12;
const FEWEST: usize = 64;

/// A set of pairs of code points that holds few others: one bit for each hash. It stays in the
/// processor's cache, and is read without a decision.
pub(super) struct PairSet {
    words: Vec<u64>,
}

impl PairSet {
    pub fn new(mut pairs: Vec<(u32, u32)>) -> Self {
        pairs.sort_unstable();
        pairs.dedup();
        let mut set =
            Self { words: vec![0; (pairs.len() * BITS / u64::BITS as usize).next_power_of_two().max(FEWEST)] };
        for pair in pairs {
            let (word, bit) = set.place(pair);
            set.words[word] |= 1 << bit;
        }
        set
    }

    /// Returns true for each pair of the set, and for one in twelve others or fewer.
    #[inline(always)]
    pub fn may_hold(&self, pair: (u32, u32)) -> bool {
        let (word, bit) = self.place(pair);
        self.words[word] >> bit & 1 == 1
    }

    #[inline(always)]
    fn place(&self, (left, right): (u32, u32)) -> (usize, u64) {
        const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
        let product = (u64::from(left) << 32 | u64::from(right)).wrapping_mul(FACTOR);
        // The low bits of a product depend on one character only.
        let hash = (product ^ product >> 32).wrapping_mul(FACTOR);
        ((hash >> 32) as usize & (self.words.len() - 1), hash >> 58)
    }
}

#[cfg(test)]
mod tests {
    use super::{BITS, PairSet};

    #[test]
    fn all_pairs_are_held_and_few_others() {
        let pairs: Vec<_> = (0..20_000).map(|at| (0x4E00 + at % 5_000, 0x4E00 + at * 7 % 20_000)).collect();
        let set = PairSet::new(pairs.clone());
        assert!(pairs.iter().all(|&pair| set.may_hold(pair)));
        let others = (0..20_000).filter(|&at| set.may_hold((0xAC00 + at % 5_000, 0x4E00 + at * 7 % 20_000))).count();
        assert!(others * BITS < 20_000, "{others} of 20,000");
        assert!(!PairSet::new(Vec::new()).may_hold((1, 2)));
    }
}
