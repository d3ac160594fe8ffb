//! Words of a text whose characters are mostly of known kinds, found for a block of characters at once.

use std::ops::ControlFlow;

use fearless_simd::prelude::*;
use fearless_simd::{Level, Simd, dispatch, mask8x64, u8x64};

use super::automaton::{DEAD, TooHard};
use super::char_block::{BLOCK, BlockText, CharBlock};
use super::lanes::{Lanes, Scan};
use super::proved_rules::ProvedRules;
use super::scanner::Outer;
use super::word_rules::WordRules;

/// The bytes for which it is decided how they are read.
const STRETCH: usize = 2048;
/// Of how many bytes one is not ASCII in a text that is read as ASCII, and of how many characters one
/// is of no known kind in a text that is read by kinds; the table reads text with more.
const MOST_OTHERS: usize = 64;
const MOST_UNKNOWN: usize = 16;
/// The most words in a stretch and the block that goes beyond it.
const MOST_WORDS: usize = STRETCH + BLOCK;

/// Calls `visit` with runs of neighboring words from `start` on: the start of the first word and the
/// end of each.
pub(super) fn split(
    proved: &ProvedRules,
    scan: &mut Scan<'_>,
    start: usize,
    lanes: &mut Lanes,
    visit: &mut impl FnMut(usize, &[u32]) -> ControlFlow<()>,
) -> Result<(), TooHard> {
    let (end, level, rules) = (scan.end, Level::new(), proved.rules);
    let mut place = WordPlace { at: start, outer: vec![Outer::Begin; scan.automata.outer.len()] };
    while place.at < end {
        let near = end.min(place.at + STRETCH);
        let (first, bytes) = (place.at, &scan.text.as_bytes()[..end]);
        lanes.joined.resize(MOST_WORDS + BLOCK, 0);
        let Lanes { joined: ends, window, .. } = &mut *lanes;
        let flow = if dispatch!(level, simd => count_others(simd, &bytes[first..near])) * MOST_OTHERS <= near - first {
            let mut characters = AsciiText { bytes, first, near, copy: [0; BLOCK] };
            let count = dispatch!(level, simd => read_blocks(simd, rules, scan, &mut place, &mut characters, ends))?;
            visit(first, &ends[..count])
        } else if window.fill(&proved.kinds, scan.text, first, end) * MOST_UNKNOWN <= window.count() {
            let count = dispatch!(level, simd => read_blocks(simd, rules, scan, &mut place, window, ends))?;
            visit(first, &ends[..count])
        } else {
            scan.end = find_place(scan, near).unwrap_or(end);
            let row = scan.scanner.restart(&place.outer);
            let flow = lanes.split(scan, place.at, row, visit)?;
            place.at = std::mem::replace(&mut scan.end, end);
            place.outer.fill(Outer::Begin);
            flow
        };
        if flow.is_break() {
            break;
        }
    }
    Ok(())
}

/// The start of a word, and the states of the outer patterns before it.
struct WordPlace {
    at: usize,
    outer: Vec<Outer>,
}

/// A text of ASCII characters: the number of a character is its place less the first.
struct AsciiText<'a> {
    bytes: &'a [u8],
    first: usize,
    /// Words that begin here or behind it do not matter.
    near: usize,
    copy: [u8; BLOCK],
}

impl BlockText for AsciiText<'_> {
    const OTHERS: bool = false;

    #[inline(always)]
    fn block(&mut self, at: usize) -> Option<(&[u8; BLOCK], usize)> {
        let at = self.first + at;
        if at >= self.near {
            return None;
        }
        let rest = self.bytes.get(at..)?;
        let block = rest.first_chunk().unwrap_or_else(|| {
            self.copy[..rest.len()].copy_from_slice(rest);
            &self.copy
        });
        Some((block, rest.len()))
    }

    #[inline(always)]
    fn places(&self, at: usize) -> impl Fn(u8) -> u32 {
        let base = (self.first + at) as u32;
        move |ahead| base + u32::from(ahead)
    }

    #[inline(always)]
    fn find(&self, _: usize, place: usize) -> usize {
        place - self.first
    }
}

/// Returns the number of bytes that are not ASCII.
#[inline(always)]
fn count_others<S: Simd>(simd: S, bytes: &[u8]) -> usize {
    let (blocks, rest) = bytes.as_chunks::<BLOCK>();
    let others = |block: &[u8; BLOCK]| u8x64::from_slice(simd, block).simd_ge(0x80).to_bitmask().count_ones();
    let in_blocks: u32 = blocks.iter().map(others).sum();
    in_blocks as usize + rest.iter().filter(|byte| !byte.is_ascii()).count()
}

/// Returns a place at which a word begins, whatever precedes it.
fn find_place(scan: &Scan<'_>, from: usize) -> Option<usize> {
    scan.scanner.find_word_start(scan.automata.classes, scan.text, from, scan.end).map(|(place, _)| place)
}

/// Reads words as far as characters are known. Writes their ends, and returns their number.
#[inline(always)]
fn read_blocks<S: Simd, C: BlockText>(
    simd: S,
    rules: WordRules,
    scan: &mut Scan<'_>,
    place: &mut WordPlace,
    characters: &mut C,
    ends: &mut [u32],
) -> Result<usize, TooHard> {
    let (mut at, mut count) = (0, 0);
    while let Some((kinds, rest)) = characters.block(at) {
        let block = CharBlock::new(simd, kinds, C::OTHERS);
        let (starts, is_end) = match is_within_outer(scan, &place.outer, place.at) {
            true => (0, false),
            false => rules.word_starts(&block, kinds, rest),
        };
        if starts != 0
            && let Some(ends) = ends.get_mut(count..).and_then(<[u32]>::first_chunk_mut)
        {
            write_places(simd, starts, characters.places(at), ends);
            count += starts.count_ones() as usize;
            at += starts.ilog2() as usize;
            place.at = characters.places(at)(0) as usize;
            place.outer.fill(Outer::Begin);
        }
        if is_end {
            place.at = scan.end;
        } else if starts == 0 {
            place.at = read_word(scan, place.at, &mut place.outer)?;
        }
        if is_end || starts == 0 {
            at = characters.find(at, place.at);
            ends[count] = place.at as u32;
            count += 1;
        }
    }
    Ok(count)
}

/// Writes the places of the characters whose bits are set.
#[inline(always)]
fn write_places<S: Simd>(simd: S, mut bits: u64, place: impl Fn(u8) -> u32, places: &mut [u32; BLOCK]) {
    if let Level::Avx512(_) = simd.level() {
        let all: [u8; BLOCK] = std::array::from_fn(|at| at as u8);
        let found = u8x64::from_slice(simd, &all).compress(mask8x64::from_bitmask(simd, bits)).to_array();
        let (parts, _) = places.as_chunks_mut::<16>();
        let (found, _) = found.as_chunks::<16>();
        for (places, found) in parts.iter_mut().zip(found).take(bits.count_ones().div_ceil(16) as usize) {
            for (to, &at) in places.iter_mut().zip(found) {
                *to = place(at);
            }
        }
        return;
    }
    let count = bits.count_ones() as usize;
    let (parts, _) = places.as_chunks_mut::<8>();
    for to in parts[..count.div_ceil(8)].iter_mut().flatten() {
        *to = place(bits.trailing_zeros() as u8);
        bits &= bits.wrapping_sub(1);
    }
}

/// Returns the end of the word at a place, for which the rules do not tell it.
#[inline(never)]
fn read_word(scan: &mut Scan<'_>, at: usize, outer: &mut Vec<Outer>) -> Result<usize, TooHard> {
    let (end, looked) = scan.automata.next_word(scan.text, at, scan.end, outer, &mut scan.patience)?;
    scan.patience = scan.patience.checked_sub(looked.saturating_sub(end)).ok_or(TooHard)?;
    Ok(end)
}

/// Reports whether an outer pattern is in the middle of a match that can go on.
#[inline]
fn is_within_outer(scan: &Scan<'_>, outer: &[Outer], at: usize) -> bool {
    scan.automata.outer.iter().zip(outer).any(|(automaton, outer)| match outer {
        Outer::Begin | Outer::Gap => false,
        Outer::Match(state) => match scan.automata.classes.at(scan.text, at) {
            Some((class, _)) => automaton.step(*state, class).next != DEAD,
            None => false,
        },
    })
}
