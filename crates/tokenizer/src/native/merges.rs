use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use prefetch_index::prefetch_index;

use super::large_table::LargeTable;

/// The bits of a slot in the table: two ids and a rank fit into 64 bits.
pub(super) const ID_BITS: u32 = 21;
const RANK_BITS: u32 = 22;
pub const LARGEST_ID: u32 = (1 << ID_BITS) - 2;
const LARGEST_RANK: usize = (1 << RANK_BITS) - 2;
const RANK_MASK: u64 = (1 << RANK_BITS) - 1;
const EMPTY: u64 = u64::MAX;

/// The rank of two neighbors that do not merge.
const NONE: u32 = u32::MAX;

/// The number of symbols whose pairs have a table of their own.
const NEAREST: usize = 256;

/// Words of up to this many symbols, whose places take this many bits, are merged in arrays.
const SHORT: usize = 1 << PLACE_BITS;
const PLACE_BITS: u32 = 5;

/// Words of up to this many symbols are merged by scanning all symbols each time, longer ones with
/// a heap.
const LONGEST_SCANNED: usize = 96;

/// Words with more symbols than this are merged in windows of this size, whose tables fit into the
/// processor's cache.
const WINDOW: usize = 2048;
/// The number of tokens at the end of a window that are merged again with the text after it,
/// limited to about a quarter of all tokens.
const UNSURE: usize = 16;

/// Which neighbors merge, into what, and in which order.
pub(crate) struct Merges {
    /// An open-addressing table with the pair in the upper bits and the rank in the lower bits.
    slots: LargeTable<u64>,
    shift: u32,
    /// Where a pair belongs is a product with this number. It is random, so that no file can choose
    /// pairs that belong in one place.
    factor: u64,
    /// Four to eight bits for each pair, of which one is set. Most pairs do not merge, and the bits stay
    /// in the processor's cache.
    filter: Vec<u64>,
    products: Products,
    /// The ranks of the pairs of symbols with the lowest ids, which are those of bytes in most
    /// vocabularies, and the lowest of these ids.
    nearest: Box<[[u32; NEAREST]; NEAREST]>,
    lowest: u32,
}

/// The products of the pairs.
enum Products {
    /// Each is the first product plus its rank.
    InOrder(u32),
    ByRank(Vec<u32>),
    /// By slot, if several pairs share one rank.
    BySlot(Vec<u32>),
}

/// A word being merged: symbols, each with its end. The memory is reused from word to word.
#[derive(Default)]
pub(crate) struct Symbols {
    pub ids: Vec<u32>,
    pub ends: Vec<u32>,
    ranks: Vec<u32>,
    /// The left and right neighbors of each symbol, for long words.
    left: Vec<u32>,
    right: Vec<u32>,
    agenda: BinaryHeap<Reverse<u64>>,
}

impl Symbols {
    pub fn clear(&mut self) {
        self.ids.clear();
        self.ends.clear();
    }

    #[inline]
    pub fn push(&mut self, id: u32, end: usize) {
        self.ids.push(id);
        self.ends.push(end as u32);
    }
}

impl Merges {
    /// Creates a table from merges in order, each given as the left id, the right id and the
    /// product.
    ///
    /// If a pair occurs twice, the later rank applies, as in the reference crate.
    pub fn new(merges: &[(u32, u32, u32)]) -> Result<Self, String> {
        let mut table = Self::of_size(merges.len(), merges.len(), merges.iter().copied())?;
        for (rank, &(left, right, _)) in merges.iter().enumerate() {
            table.insert(left, right, rank);
        }
        table.fill_nearest();
        let first = merges.first().map_or(0, |&(.., product)| product);
        let products = merges.iter().map(|&(.., product)| product);
        table.products = match (first..).zip(products.clone()).all(|(next, product)| next == product) {
            true => Products::InOrder(first),
            false => Products::ByRank(products.collect()),
        };
        Ok(table)
    }

    /// Creates a table from merges that may share a rank, each given as the rank, the left id, the
    /// right id and the product.
    pub fn with_ranks(merges: &[(usize, u32, u32, u32)]) -> Result<Self, String> {
        let ranks = merges.iter().map(|&(rank, ..)| rank).max().unwrap_or(0);
        let ids = merges.iter().map(|&(_, left, right, product)| (left, right, product));
        let mut table = Self::of_size(merges.len(), ranks, ids)?;
        let mut products = vec![0; table.slots.len()];
        for &(rank, left, right, product) in merges {
            products[table.insert(left, right, rank)] = product;
        }
        table.fill_nearest();
        table.products = Products::BySlot(products);
        Ok(table)
    }

    fn of_size(count: usize, ranks: usize, mut ids: impl Iterator<Item = (u32, u32, u32)>) -> Result<Self, String> {
        if ranks > LARGEST_RANK || ids.any(|(left, right, product)| left.max(right).max(product) > LARGEST_ID) {
            return Err("a vocabulary with more than two million tokens".to_owned());
        }
        let capacity = (count * 3 / 2).next_power_of_two().max(32);
        let shift = u64::BITS - capacity.trailing_zeros();
        Ok(Self {
            slots: LargeTable::new(EMPTY, capacity),
            shift,
            factor: RandomState::default().hash_one(0) | 1,
            filter: vec![0; count.div_ceil(16).next_power_of_two()],
            products: Products::InOrder(0),
            nearest: Box::new([[NONE; NEAREST]; NEAREST]),
            lowest: 0,
        })
    }

    fn insert(&mut self, left: u32, right: u32, rank: usize) -> usize {
        let pair = pair(left, right);
        let at = self.find(pair).unwrap_or_else(|free| free);
        self.slots[at] = pair << RANK_BITS | rank as u64;
        let (place, bit) = self.filter_bit(pair);
        self.filter[place] |= bit;
        at
    }

    #[inline]
    fn filter_bit(&self, pair: u64) -> (usize, u64) {
        let bit = pair.wrapping_mul(0xD6E8_FEB8_6659_FD93) >> 20;
        ((bit >> 6) as usize & (self.filter.len() - 1), 1 << (bit & 63))
    }

    fn fill_nearest(&mut self) {
        let pairs = self.slots.iter().filter(|&&slot| slot != EMPTY).map(|slot| slot >> RANK_BITS);
        let ids = pairs.flat_map(|pair| [pair >> ID_BITS, pair & ((1 << ID_BITS) - 1)]);
        self.lowest = ids.min().unwrap_or(0) as u32;
        for left in 0..NEAREST {
            for right in 0..NEAREST {
                let id = |at: usize| self.lowest.saturating_add(at as u32).min(LARGEST_ID);
                self.nearest[left][right] = self.rank(id(left), id(right));
            }
        }
    }

    /// Returns the rank of two symbols that probably have low ids.
    #[inline]
    fn first_rank(&self, left: u32, right: u32) -> u32 {
        let row = self.nearest.get(left.wrapping_sub(self.lowest) as usize);
        match row.and_then(|row| row.get(right.wrapping_sub(self.lowest) as usize)) {
            Some(&rank) => rank,
            None => self.rank(left, right),
        }
    }

    /// Returns the slot of a pair, or else the free slot where it belongs.
    #[inline]
    fn find(&self, pair: u64) -> Result<usize, usize> {
        let mut at = self.slot(pair);
        loop {
            match self.slots[at] {
                slot if slot >> RANK_BITS == pair => return Ok(at),
                EMPTY => return Err(at),
                _ => at = (at + 1) & (self.slots.len() - 1),
            }
        }
    }

    #[inline]
    fn product(&self, rank: u32, left: u32, right: u32) -> u32 {
        match &self.products {
            Products::InOrder(first) => first + rank,
            Products::ByRank(products) => products[rank as usize],
            Products::BySlot(products) => self.find(pair(left, right)).map_or(left, |slot| products[slot]),
        }
    }

    #[inline]
    fn slot(&self, pair: u64) -> usize {
        (pair.wrapping_mul(self.factor) >> self.shift) as usize
    }

    #[inline]
    fn rank(&self, left: u32, right: u32) -> u32 {
        let pair = pair(left, right);
        let (place, bit) = self.filter_bit(pair);
        match self.filter[place] & bit {
            0 => NONE,
            _ => self.find(pair).map_or(NONE, |slot| (self.slots[slot] & RANK_MASK) as u32),
        }
    }

    /// Merges a word until no two neighbors merge: the lowest rank first, and among equal ranks the
    /// leftmost.
    pub fn merge(&self, word: &mut Symbols) {
        match word.ids.len() {
            0..=WINDOW => self.merge_whole(word),
            _ => self.merge_in_windows(word),
        }
    }

    fn merge_whole(&self, word: &mut Symbols) {
        match word.ids.len() {
            ..=SHORT => self.merge_short(word),
            count if count <= LONGEST_SCANNED => self.merge_scanning(word),
            _ => self.merge_with_agenda(word),
        }
    }

    /// Merges a very long word window by window.
    ///
    /// The result is exact: a sequence of tokens is the result of merging if every two neighbors
    /// are the result of merging the two alone. To see why, consider the first merge across the
    /// boundary between two tokens. Until then, nothing outside has affected either token, so
    /// merging the two alone leads to the same merge. Neighbors within one window are known to stay
    /// apart. The two tokens at the boundary between windows either occurred together in the
    /// previous window or are checked alone.
    fn merge_in_windows(&self, word: &mut Symbols) {
        let symbols = std::mem::take(&mut word.ids);
        let bytes = std::mem::take(&mut word.ends);
        // The tokens so far, and the index of the symbol after each.
        let (mut ids, mut edges): (Vec<u32>, Vec<u32>) = (Vec::new(), Vec::new());
        let (mut size, mut wrong) = (WINDOW, 1);
        // The token, with its end, that the previous window had where this one starts.
        let mut expected = None;
        loop {
            let start = edges.last().map_or(0, |&edge| edge as usize);
            let end = symbols.len().min(start + size);
            word.clear();
            word.ids.extend_from_slice(&symbols[start..end]);
            word.ends.extend(start as u32 + 1..=end as u32);
            self.merge_whole(word);
            let Some(first) = word.ids.first().copied().zip(word.ends.first().copied()) else { break };
            let fits = expected == Some(first) || self.stay_apart(&symbols, &ids, &edges, first);
            let unsure = if end == symbols.len() { 0 } else { UNSURE.min(word.ids.len() / 4 + 1) };
            let sure = word.ids.len() - unsure;
            if !fits || sure == 0 {
                // Either tokens that seemed final were not, or there is a very long token: use a
                // larger window.
                if !fits {
                    ids.truncate(ids.len().saturating_sub(wrong));
                    edges.truncate(ids.len());
                    (wrong, expected) = (wrong * 2, None);
                }
                size *= 2;
                continue;
            }
            ids.extend_from_slice(&word.ids[..sure]);
            edges.extend_from_slice(&word.ends[..sure]);
            expected = word.ids.get(sure).copied().zip(word.ends.get(sure).copied());
            (size, wrong) = (WINDOW, 1);
        }
        edges.iter_mut().for_each(|edge| *edge = bytes[*edge as usize - 1]);
        (word.ids, word.ends) = (ids, edges);
    }

    /// Reports whether the last token so far and the first token after it are the result of merging
    /// the two alone.
    fn stay_apart(&self, symbols: &[u32], ids: &[u32], edges: &[u32], (first, end): (u32, u32)) -> bool {
        let (Some(&last), Some(&edge)) = (ids.last(), edges.last()) else { return true };
        let start = edges.len().checked_sub(2).map_or(0, |before| edges[before] as usize);
        let mut both = Symbols::default();
        both.ids.extend_from_slice(&symbols[start..end as usize]);
        both.ends.extend(start as u32 + 1..=end);
        self.merge_whole(&mut both);
        both.ids == [last, first] && both.ends == [edge, end]
    }

    /// Merges a word in arrays that the processor's nearest cache holds.
    fn merge_short(&self, word: &mut Symbols) {
        let count = word.ids.len().min(SHORT);
        let (mut ids, mut ends) = ([0; SHORT + 1], [0; SHORT + 1]);
        ids[..count].copy_from_slice(&word.ids[..count]);
        ends[..count].copy_from_slice(&word.ends[..count]);
        // The neighbors of each symbol; the first and the last have the one behind all.
        let mut left: [u8; SHORT + 1] = std::array::from_fn(|at| at.checked_sub(1).unwrap_or(SHORT) as u8);
        let mut right: [u8; SHORT + 1] = std::array::from_fn(|at| if at + 1 < count { at + 1 } else { SHORT } as u8);
        // The rank of each symbol with its right neighbor, and below it the place, so that the
        // least is the leftmost of the lowest rank.
        let mut proposals = [NONE; SHORT];
        let proposal = |rank: u32, at: usize| if rank == NONE { NONE } else { rank << PLACE_BITS | at as u32 };
        let propose =
            |ids: &[u32; SHORT + 1], at: usize, neighbor: usize| proposal(self.rank(ids[at], ids[neighbor]), at);
        for at in 1..count {
            proposals[at - 1] = proposal(self.first_rank(ids[at - 1], ids[at]), at - 1);
        }
        loop {
            let best = proposals[..count].iter().fold(NONE, |best, &proposal| best.min(proposal));
            if best == NONE {
                break;
            }
            let (rank, at) = (best >> PLACE_BITS, best as usize % SHORT);
            let gone = usize::from(right[at]) % SHORT;
            ids[at] = self.product(rank, ids[at], ids[gone]);
            ends[at] = ends[gone];
            proposals[gone] = NONE;
            right[at] = right[gone];
            let (before, behind) = (usize::from(left[at]), usize::from(right[at]));
            for (left, right) in [(at, behind), (before, at)] {
                prefetch_index(&*self.slots, self.slot(pair(ids[left % (SHORT + 1)], ids[right])));
            }
            left[behind] = at as u8;
            proposals[at] = if behind < SHORT { propose(&ids, at, behind) } else { NONE };
            if before < SHORT {
                proposals[before] = propose(&ids, before, at);
            }
        }
        word.clear();
        let mut at = if count > 0 { 0 } else { SHORT };
        while at < SHORT {
            word.ids.push(ids[at]);
            word.ends.push(ends[at]);
            at = usize::from(right[at]);
        }
    }

    fn merge_scanning(&self, word: &mut Symbols) {
        let Symbols { ids, ends, ranks, .. } = word;
        ranks.clear();
        ranks.extend(ids.windows(2).map(|pair| self.rank(pair[0], pair[1])));
        while let Some((at, rank)) = least(ranks) {
            ids[at] = self.product(rank, ids[at], ids[at + 1]);
            ids.remove(at + 1);
            ends.remove(at);
            ranks.remove(at);
            if let Some(&right) = ids.get(at + 1) {
                ranks[at] = self.rank(ids[at], right);
            }
            if at > 0 {
                ranks[at - 1] = self.rank(ids[at - 1], ids[at]);
            }
        }
    }

    fn merge_with_agenda(&self, word: &mut Symbols) {
        let Symbols { ids, ends, ranks, left, right, agenda } = word;
        let count = ids.len();
        ranks.clear();
        ranks.extend(ids.windows(2).map(|pair| self.rank(pair[0], pair[1])));
        ranks.push(NONE);
        left.clear();
        left.extend((0..count as u32).map(|at| at.wrapping_sub(1)));
        right.clear();
        right.extend(1..=count as u32);
        let mut first = std::mem::take(agenda).into_vec();
        first.clear();
        first.extend(
            (0u64..).zip(ranks.iter()).filter(|&(_, &rank)| rank != NONE).map(|(at, &rank)| proposal(rank, at)),
        );
        *agenda = BinaryHeap::from(first);
        while let Some(Reverse(next)) = agenda.pop() {
            let (rank, at) = ((next >> 32) as u32, next as u32 as usize);
            // The entry is outdated: the symbol was merged away or has a different neighbor now.
            if ranks[at] != rank {
                continue;
            }
            let gone = right[at] as usize;
            ids[at] = self.product(rank, ids[at], ids[gone]);
            ends[at] = ends[gone];
            ranks[gone] = NONE;
            ids[gone] = NONE;
            right[at] = right[gone];
            let behind = right[at] as usize;
            ranks[at] = NONE;
            if behind < count {
                left[behind] = at as u32;
                ranks[at] = self.rank(ids[at], ids[behind]);
                if ranks[at] != NONE {
                    agenda.push(proposal(ranks[at], at as u64));
                }
            }
            if let Some(&before) = ids.get(left[at] as usize) {
                let place = left[at] as usize;
                ranks[place] = self.rank(before, ids[at]);
                if ranks[place] != NONE {
                    agenda.push(proposal(ranks[place], place as u64));
                }
            }
        }
        let mut kept = 0;
        for at in 0..count {
            if ids[at] != NONE {
                (ids[kept], ends[kept]) = (ids[at], ends[at]);
                kept += 1;
            }
        }
        ids.truncate(kept);
        ends.truncate(kept);
    }
}

#[inline]
fn pair(left: u32, right: u32) -> u64 {
    u64::from(left) << ID_BITS | u64::from(right)
}

fn proposal(rank: u32, at: u64) -> Reverse<u64> {
    Reverse(u64::from(rank) << 32 | at)
}

#[inline]
fn least(ranks: &[u32]) -> Option<(usize, u32)> {
    let mut best = (0, NONE);
    for (at, &rank) in ranks.iter().enumerate() {
        if rank < best.1 {
            best = (at, rank);
        }
    }
    (best.1 != NONE).then_some(best)
}

#[cfg(test)]
mod tests {
    use super::{EMPTY, ID_BITS, Merges, SHORT, Symbols, WINDOW};

    #[test]
    fn no_file_can_choose_pairs_that_belong_in_one_place() {
        // The pairs with the least products with some number.
        let factor = Merges::new(&[]).unwrap().factor;
        let ids = (0..1000).flat_map(|left| (0..1000).map(move |right| (left, right)));
        let product = |&(left, right): &(u32, u32)| super::pair(left, right).wrapping_mul(factor);
        let near = ids.filter(|ids| product(ids) >> (u64::BITS - 6) == 0);
        let merges: Vec<_> = near.map(|(left, right)| (left, right, 1 << (ID_BITS - 1))).collect();
        assert!(merges.len() > 10_000);
        let longest_run = |table: Merges| table.slots.split(|&slot| slot == EMPTY).map(<[u64]>::len).max();
        assert!(longest_run(Merges::new(&merges).unwrap()).unwrap() < 1_000);
    }

    /// Returns random merges of four letters. Each product is a new letter, and many sequences
    /// merge in more than one way.
    fn random_merges(random: &mut impl FnMut(u32) -> u32) -> Merges {
        let mut merges = Vec::new();
        for product in 4..40 {
            merges.push((random(product), random(product), product));
        }
        let Some(bound) = Some(random(40)).filter(|bound| *bound > 10) else { return Merges::new(&merges).unwrap() };
        let ranked = merges.iter().map(|&(left, right, product)| ((product % bound) as usize, left, right, product));
        Merges::with_ranks(&ranked.collect::<Vec<_>>()).unwrap()
    }

    /// Sequences whose last two letters merge first, so that the end of a sequence determines how
    /// its start merges.
    #[test]
    fn what_ends_a_row_decides_what_begins_it_over_the_edges_of_windows() {
        for length in [2_u32, 3, 40, 101, 400, 999, 2047, 2048, 2049, 5000] {
            let pair = |at: u32| (at, at + 1, length + 1 + at);
            let merges = Merges::new(&(0..length).rev().map(pair).collect::<Vec<_>>()).unwrap();
            for shift in [0, 1, 2, 17, 1000] {
                let mut words = [(); 2].map(|()| Symbols::default());
                let letters = (0..(WINDOW as u32 * 3 + length)).map(|at| (at + shift) % (length + 1));
                for (at, letter) in letters.enumerate() {
                    words.iter_mut().for_each(|word| word.push(letter, at + 1));
                }
                let [with_agenda, in_windows] = &mut words;
                merges.merge_with_agenda(with_agenda);
                merges.merge_in_windows(in_windows);
                assert!(with_agenda.ids == in_windows.ids, "{length} {shift}: different ids");
                assert!(with_agenda.ends == in_windows.ends, "{length} {shift}: different ends");
            }
        }
    }

    #[test]
    fn a_product_is_that_of_its_merge_whether_or_not_products_follow_their_ranks() {
        for products in [[7, 8, 9], [7, 9, 8], [40, 3, 8]] {
            let [first, second, third] = products;
            let listed = [(0, 1, first), (first, 2, second), (second, second, third)];
            let ranked: Vec<_> =
                (0..).zip(listed).map(|(rank, (left, right, product))| (rank, left, right, product)).collect();
            for merges in [Merges::new(&listed).unwrap(), Merges::with_ranks(&ranked).unwrap()] {
                for (letters, ids, ends) in [
                    (&[0, 1][..], &[first][..], &[2][..]),
                    (&[0, 1, 2], &[second], &[3]),
                    (&[0, 1, 2, 0, 1, 2], &[third], &[6]),
                ] {
                    let mut word = Symbols::default();
                    (1..).zip(letters).for_each(|(end, &letter)| word.push(letter, end));
                    merges.merge(&mut word);
                    assert_eq!((&*word.ids, &*word.ends), (ids, ends), "{products:?}");
                }
            }
        }
    }

    #[test]
    fn all_ways_of_merging_give_the_same() {
        let mut state = 1u64;
        let mut random = |bound: u32| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as u32 % bound
        };
        for round in 0..900 {
            let merges = random_merges(&mut random);
            let length = match round % 30 {
                0 => WINDOW * 3 + 7,
                1..10 => 1 + random(300) as usize,
                _ => 1 + random(SHORT as u32) as usize,
            };
            let letters = 1 + random(4);
            let mut words = [(); 4].map(|()| Symbols::default());
            for at in 0..length {
                let letter = random(letters);
                words.iter_mut().for_each(|word| word.push(letter, at + 1));
            }
            let [scanned, with_agenda, in_windows, short] = &mut words;
            if length <= SHORT {
                merges.merge_short(short);
            }
            merges.merge_scanning(scanned);
            if length <= SHORT {
                assert_eq!((&scanned.ids, &scanned.ends), (&short.ids, &short.ends), "round {round}, short");
            }
            merges.merge_with_agenda(with_agenda);
            merges.merge_in_windows(in_windows);
            assert_eq!((&scanned.ids, &scanned.ends), (&with_agenda.ids, &with_agenda.ends), "round {round}, agenda");
            assert_eq!((&scanned.ids, &scanned.ends), (&in_windows.ids, &in_windows.ends), "round {round}, windows");
        }
    }
}
