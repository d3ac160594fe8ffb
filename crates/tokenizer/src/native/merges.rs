use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hash::BuildHasher;

use fearless_simd::{Level, dispatch};
use foldhash::fast::RandomState;

use super::large_table::LargeTable;
use super::short_words::{MOST_SYMBOLS, merge_short};

/// The most bits of an id and of a rank. A slot of the table has two ids and a rank in 64 bits.
pub(super) const ID_BITS: u32 = 21;
const RANK_BITS: u32 = 27;
pub const LARGEST_ID: u32 = (1 << ID_BITS) - 2;
const EMPTY: u64 = u64::MAX;

/// The rank of two neighbors that do not merge.
pub(super) const NONE: u32 = u32::MAX;

/// The number of symbols whose pairs have a table of their own.
const NEAREST: usize = 256;

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
    /// The number of slots.
    capacity: u64,
    /// The bits of an id and of a rank in this table. No pair has all bits set, as an empty slot has.
    id_bits: u32,
    rank_bits: u32,
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
    /// Each is the first product plus the upper bits of its rank. Merges with one product differ in the
    /// lower bits, of which this is the number.
    InOrder {
        first: u32,
        lower: u32,
    },
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
    pub fn new(merges: &[(u32, u32, u32)], largest_id: u32) -> Result<Self, String> {
        let mut table = Self::of_size(merges.len(), merges.len(), largest_id)?;
        let products = || merges.iter().map(|&(.., product)| product);
        let in_order = table.ranks_in_order(products());
        for (rank, &(left, right, _)) in merges.iter().enumerate() {
            let rank = in_order.as_ref().and_then(|(ranks, _)| ranks.get(rank)).copied().unwrap_or(rank as u32);
            table.insert(left, right, rank);
        }
        table.fill_nearest();
        table.products = match in_order {
            Some((_, products)) => products,
            None => Products::ByRank(products().collect()),
        };
        Ok(table)
    }

    /// Returns other ranks, in the same order, from which the products follow. This is possible if no
    /// product is less than the one before it, and if there are enough bits.
    fn ranks_in_order(&self, products: impl Iterator<Item = u32> + Clone) -> Option<(Vec<u32>, Products)> {
        let first = products.clone().next()?;
        let (mut last, mut count, mut most) = (first, 0u32, 0);
        let places = products.map(|product| {
            count = if product == last { count } else { 0 };
            let place = (product.checked_sub(last)?, count);
            (last, count, most) = (product, count + 1, most.max(count));
            Some(place)
        });
        let places: Vec<(u32, u32)> = places.collect::<Option<_>>()?;
        let lower = u32::BITS - most.leading_zeros();
        if u32::BITS - (last - first).leading_zeros() + lower > self.rank_bits {
            return None;
        }
        let mut product = 0;
        let ranks = places.into_iter().map(|(more, place)| {
            product += more;
            product << lower | place
        });
        Some((ranks.collect(), Products::InOrder { first, lower }))
    }

    /// Creates a table from merges that may share a rank, each given as the rank, the left id, the
    /// right id and the product.
    pub fn with_ranks(merges: &[(u32, u32, u32, u32)], largest_id: u32) -> Result<Self, String> {
        let ranks = merges.iter().map(|&(rank, ..)| rank).max().unwrap_or(0);
        let mut table = Self::of_size(merges.len(), ranks as usize, largest_id)?;
        let mut products = vec![0; table.slots.len()];
        for &(rank, left, right, product) in merges {
            products[table.insert(left, right, rank)] = product;
        }
        table.fill_nearest();
        table.products = Products::BySlot(products);
        Ok(table)
    }

    fn of_size(count: usize, ranks: usize, largest_id: u32) -> Result<Self, String> {
        let id_bits = u32::BITS - largest_id.saturating_add(1).leading_zeros();
        let rank_bits = RANK_BITS.min(u64::BITS.saturating_sub(2 * id_bits));
        if id_bits > ID_BITS || ranks >= 1 << rank_bits {
            return Err("a vocabulary with more than two million tokens, or more than four million merges".to_owned());
        }
        let capacity = (count * 3 / 2).max(32);
        Ok(Self {
            slots: LargeTable::new(EMPTY, capacity),
            capacity: capacity as u64,
            id_bits,
            rank_bits,
            factor: RandomState::default().hash_one(0) | 1,
            filter: vec![0; count.div_ceil(16).next_power_of_two()],
            products: Products::InOrder { first: 0, lower: 0 },
            nearest: Box::new([[NONE; NEAREST]; NEAREST]),
            lowest: 0,
        })
    }

    fn insert(&mut self, left: u32, right: u32, rank: u32) -> usize {
        let pair = self.pair(left, right);
        let at = self.find(pair).unwrap_or_else(|free| free);
        self.slots[at] = pair << self.rank_bits | u64::from(rank);
        let (place, bit) = self.filter_bit(pair);
        self.filter[place] |= bit;
        at
    }

    #[inline(always)]
    fn filter_bit(&self, pair: u64) -> (usize, u64) {
        let bit = pair.wrapping_mul(0xD6E8_FEB8_6659_FD93) >> 20;
        ((bit >> 6) as usize & (self.filter.len() - 1), 1 << (bit & 63))
    }

    fn fill_nearest(&mut self) {
        let pairs = self.slots.iter().filter(|&&slot| slot != EMPTY).map(|slot| slot >> self.rank_bits);
        let ids = pairs.flat_map(|pair| [pair >> self.id_bits, pair & ((1 << self.id_bits) - 1)]);
        self.lowest = ids.min().unwrap_or(0) as u32;
        for left in 0..NEAREST {
            for right in 0..NEAREST {
                let id = |at: usize| self.lowest.saturating_add(at as u32).min((1 << self.id_bits) - 2);
                self.nearest[left][right] = self.rank(id(left), id(right));
            }
        }
    }

    /// Returns the rank of two symbols that probably have low ids.
    #[inline(always)]
    pub(super) fn first_rank(&self, left: u32, right: u32) -> u32 {
        let row = self.nearest.get(left.wrapping_sub(self.lowest) as usize);
        match row.and_then(|row| row.get(right.wrapping_sub(self.lowest) as usize)) {
            Some(&rank) => rank,
            None => self.rank(left, right),
        }
    }

    /// Returns the slot of a pair, or else the free slot where it belongs.
    #[inline]
    fn find(&self, pair: u64) -> Result<usize, usize> {
        self.find_in(&self.slots, pair)
    }

    #[inline(always)]
    fn find_in(&self, slots: &[u64], pair: u64) -> Result<usize, usize> {
        let mut at = self.slot(pair);
        loop {
            match slots[at] {
                slot if slot >> self.rank_bits == pair => return Ok(at),
                EMPTY => return Err(at),
                _ => at = if at + 1 < slots.len() { at + 1 } else { 0 },
            }
        }
    }

    #[inline(always)]
    pub(super) fn product(&self, rank: u32, left: u32, right: u32) -> u32 {
        match &self.products {
            Products::InOrder { first, lower } => first + (rank >> lower),
            Products::ByRank(products) => products[rank as usize],
            Products::BySlot(products) => self.find(self.pair(left, right)).map_or(left, |slot| products[slot]),
        }
    }

    #[inline(always)]
    pub(super) fn slots(&self) -> &[u64] {
        &self.slots
    }

    #[inline(always)]
    pub(super) fn pair(&self, left: u32, right: u32) -> u64 {
        u64::from(left) << self.id_bits | u64::from(right)
    }

    #[inline(always)]
    pub(super) fn slot(&self, pair: u64) -> usize {
        ((u128::from(pair.wrapping_mul(self.factor)) * u128::from(self.capacity)) >> u64::BITS) as usize
    }

    #[inline]
    pub(super) fn rank(&self, left: u32, right: u32) -> u32 {
        self.rank_in(&self.slots, left, right)
    }

    #[inline(always)]
    pub(super) fn rank_in(&self, slots: &[u64], left: u32, right: u32) -> u32 {
        let pair = self.pair(left, right);
        let (place, bit) = self.filter_bit(pair);
        match self.filter[place] & bit {
            0 => NONE,
            _ => self.find_in(slots, pair).map_or(NONE, |slot| slots[slot] as u32 & ((1 << self.rank_bits) - 1)),
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
            ..=MOST_SYMBOLS => dispatch!(Level::new(), simd => merge_short(simd, self, word)),
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
    use fearless_simd::{Level, dispatch};

    use super::super::short_words::{MOST_SYMBOLS, merge_short};
    use super::{EMPTY, LARGEST_ID, Merges, Products, Symbols, WINDOW};

    fn table(merges: &[(u32, u32, u32)]) -> Merges {
        let ids = merges.iter().flat_map(|&(left, right, product)| [left, right, product]);
        Merges::new(merges, ids.max().unwrap_or(0)).unwrap()
    }

    #[test]
    fn no_file_can_choose_pairs_that_belong_in_one_place() {
        // The pairs with the least products with some number.
        let Merges { factor, id_bits, .. } = Merges::new(&[], LARGEST_ID).unwrap();
        let ids = (0..1000).flat_map(|left| (0..1000).map(move |right| (left, right)));
        let product =
            |&(left, right): &(u32, u32)| (u64::from(left) << id_bits | u64::from(right)).wrapping_mul(factor);
        let near = ids.filter(|ids| product(ids) >> (u64::BITS - 6) == 0);
        let merges: Vec<_> = near.map(|(left, right)| (left, right, LARGEST_ID)).collect();
        assert!(merges.len() > 10_000);
        let longest_run = |table: Merges| table.slots.split(|&slot| slot == EMPTY).map(<[u64]>::len).max();
        assert!(longest_run(table(&merges)).unwrap() < 1_000);
    }

    /// Returns random merges of four letters. Products are new letters, some of several pairs, and many
    /// sequences merge in more than one way.
    fn random_merges(random: &mut impl FnMut(u32) -> u32) -> Merges {
        let mut merges = Vec::new();
        for product in 4..40 {
            for _ in 0..=random(3) / 2 {
                merges.push((random(product), random(product), product));
            }
        }
        let Some(bound) = Some(random(40)).filter(|bound| *bound > 10) else { return table(&merges) };
        let ranked = merges.iter().map(|&(left, right, product)| (product % bound, left, right, product));
        Merges::with_ranks(&ranked.collect::<Vec<_>>(), 40).unwrap()
    }

    #[test]
    fn ranks_from_which_products_follow_are_in_the_order_of_the_merges() {
        for (products, follow) in [
            (&[7, 8, 9][..], true),
            (&[7, 7, 7, 8, 20, 20], true),
            (&[LARGEST_ID; 300], true),
            (&[5, LARGEST_ID - 1, LARGEST_ID], true),
            (&[5, 5, LARGEST_ID], true),
            (&[5, 5, 5, LARGEST_ID], false),
            (&[7, 9, 8], false),
        ] {
            let merges: Vec<_> = (0..).zip(products).map(|(at, &product)| (at, at, product)).collect();
            let merges = Merges::new(&merges, LARGEST_ID).unwrap();
            let pairs = (0..products.len() as u32).map(|at| (at, at));
            let ranks: Vec<u32> = pairs.clone().map(|(left, right)| merges.rank(left, right)).collect();
            assert!(ranks.is_sorted_by(|a, b| a < b), "{products:?}: {ranks:?}");
            let found: Vec<u32> =
                pairs.zip(&ranks).map(|((left, right), &rank)| merges.product(rank, left, right)).collect();
            assert_eq!(found, products);
            assert_eq!(matches!(merges.products, Products::InOrder { .. }), follow, "{products:?}");
        }
    }

    /// Sequences whose last two letters merge first, so that the end of a sequence determines how
    /// its start merges.
    #[test]
    fn what_ends_a_row_decides_what_begins_it_over_the_edges_of_windows() {
        for length in [2_u32, 3, 40, 101, 400, 999, 2047, 2048, 2049, 5000] {
            let pair = |at: u32| (at, at + 1, length + 1 + at);
            let merges = table(&(0..length).rev().map(pair).collect::<Vec<_>>());
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
            for merges in [table(&listed), Merges::with_ranks(&ranked, 40).unwrap()] {
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
                _ => 1 + random(MOST_SYMBOLS as u32) as usize,
            };
            let letters = 1 + random(4);
            let mut words = [(); 5].map(|()| Symbols::default());
            for at in 0..length {
                let letter = random(letters);
                words.iter_mut().for_each(|word| word.push(letter, at + 1));
            }
            let [scanned, with_agenda, in_windows, short, baseline] = &mut words;
            merges.merge_scanning(scanned);
            if length <= MOST_SYMBOLS {
                dispatch!(Level::new(), simd => merge_short(simd, &merges, short));
                dispatch!(Level::baseline(), simd => merge_short(simd, &merges, baseline));
                for short in [short, baseline] {
                    assert_eq!((&scanned.ids, &scanned.ends), (&short.ids, &short.ends), "round {round}, short");
                }
            }
            merges.merge_with_agenda(with_agenda);
            merges.merge_in_windows(in_windows);
            assert_eq!((&scanned.ids, &scanned.ends), (&with_agenda.ids, &with_agenda.ends), "round {round}, agenda");
            assert_eq!((&scanned.ids, &scanned.ends), (&in_windows.ids, &in_windows.ends), "round {round}, windows");
        }
    }
}
