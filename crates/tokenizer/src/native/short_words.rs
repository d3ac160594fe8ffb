use fearless_simd::{Select, Simd, SimdFrom, u32x16};
use prefetch_index::prefetch_index;

use super::merges::{Merges, NONE, Symbols};

/// The most symbols of a short word.
pub(super) const MOST_SYMBOLS: usize = 1 << PLACE_BITS;
const PLACE_BITS: u32 = 4;

/// Merges a word whose proposals fit into one register of the processor: the rank of each symbol with
/// the one behind it, and below it the place, so that the least is the leftmost of the lowest rank.
#[inline(always)]
pub(super) fn merge_short<S: Simd>(simd: S, merges: &Merges, word: &mut Symbols) {
    let slots = merges.slots();
    let count = word.ids.len().min(MOST_SYMBOLS);
    let (mut ids, mut first) = ([0; MOST_SYMBOLS], [NONE; MOST_SYMBOLS]);
    ids[..count].copy_from_slice(&word.ids[..count]);
    for at in 1..count {
        first[at - 1] = proposal(merges.first_rank(ids[at - 1], ids[at]), at - 1);
    }
    let places = u32x16::simd_from(simd, std::array::from_fn(|at| at as u32));
    let mut proposals = u32x16::simd_from(simd, first);
    let set = |proposals: u32x16<S>, at: usize, proposal: u32| {
        let here = simd.simd_eq_u32x16(places, simd.splat_u32x16(at as u32));
        here.select(simd.splat_u32x16(proposal), proposals)
    };
    // A bit for each symbol that is left, and one behind all.
    let mut present = (2u32 << count) - 1;
    loop {
        let best = simd.reduce_min_u32x16(proposals);
        if best == NONE {
            break;
        }
        let (rank, at) = (best >> PLACE_BITS, best as usize % MOST_SYMBOLS);
        let gone = behind(present, at) % MOST_SYMBOLS;
        let merged = merges.product(rank, ids[at], ids[gone]);
        ids[at] = merged;
        present &= !(1 << gone);
        let (before, behind) = (before(present, at), behind(present, at));
        let left = before.map(|before| ids[before]);
        let right = ids.get(behind).copied().filter(|_| behind < count);
        left.into_iter().for_each(|left| prefetch_index(slots, merges.slot(merges.pair(left, merged))));
        proposals = set(proposals, gone, NONE);
        let rank = right.map_or(NONE, |right| merges.rank_in(slots, merged, right));
        proposals = set(proposals, at, proposal(rank, at));
        if let (Some(before), Some(left)) = (before, left) {
            proposals = set(proposals, before, proposal(merges.rank_in(slots, left, merged), before));
        }
    }
    let (mut at, mut kept) = (0, 0);
    while at < count {
        let next = behind(present, at);
        word.ids[kept] = ids[at];
        word.ends[kept] = word.ends[next - 1];
        (at, kept) = (next, kept + 1);
    }
    word.ids.truncate(kept);
    word.ends.truncate(kept);
}

#[inline(always)]
fn proposal(rank: u32, at: usize) -> u32 {
    if rank == NONE { NONE } else { rank << PLACE_BITS | at as u32 }
}

/// Returns the place behind a symbol.
#[inline(always)]
fn behind(present: u32, at: usize) -> usize {
    (present & (!1 << at)).trailing_zeros() as usize
}

/// Returns the place of the symbol before a symbol.
#[inline(always)]
fn before(present: u32, at: usize) -> Option<usize> {
    (present & ((1 << at) - 1)).checked_ilog2().map(|at| at as usize)
}
