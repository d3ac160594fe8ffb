//! Words of a text that is mostly ASCII, found for a block of characters at once.

use std::ops::ControlFlow;

use fearless_simd::prelude::*;
use fearless_simd::{Level, Simd, dispatch, mask8x64, u8x64};

use super::ascii_block::{AsciiBlock, BLOCK};
use super::ascii_rules::AsciiRules;
use super::automaton::{DEAD, TooHard};
use super::lanes::{Lanes, Scan};
use super::scanner::Outer;

/// The bytes for which it is decided how they are read.
const STRETCH: usize = 2048;
/// The share of bytes that are not ASCII above which a text is not mostly ASCII.
const MOST_OTHERS: usize = 32;
/// The most words in a stretch and the block that goes beyond it.
const MOST_WORDS: usize = STRETCH + BLOCK;

/// Calls `visit` with runs of neighboring words from `start` on: the start of the first word and the
/// end of each.
pub(super) fn split(
    rules: AsciiRules,
    scan: &mut Scan<'_>,
    start: usize,
    lanes: &mut Lanes,
    visit: &mut impl FnMut(usize, &[u32]) -> ControlFlow<()>,
) -> Result<(), TooHard> {
    let (end, level) = (scan.end, Level::new());
    let mut place = WordPlace { at: start, outer: vec![Outer::Begin; scan.automata.outer.len()] };
    while place.at < end {
        let near = end.min(place.at + STRETCH);
        let flow = if is_mostly_ascii(&scan.text.as_bytes()[place.at..near]) {
            let (first, ends) = (place.at, &mut lanes.joined);
            ends.resize(MOST_WORDS + BLOCK, 0);
            let count = dispatch!(level, simd => read_blocks(simd, rules, scan, &mut place, near, ends))?;
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

fn is_mostly_ascii(bytes: &[u8]) -> bool {
    // Counted in bytes, of which a processor adds many at once.
    let others = bytes.chunks(128).map(|chunk| chunk.iter().map(|byte| byte >> 7).sum::<u8>());
    others.map(usize::from).sum::<usize>() * MOST_OTHERS <= bytes.len()
}

/// Returns a place at which a word begins, whatever precedes it.
fn find_place(scan: &Scan<'_>, from: usize) -> Option<usize> {
    scan.scanner.find_word_start(scan.automata.classes, scan.text, from, scan.end).map(|(place, _)| place)
}

/// Reads words up to one that begins at `near` or later. Writes their ends, and returns their number.
#[inline(always)]
fn read_blocks<S: Simd>(
    simd: S,
    rules: AsciiRules,
    scan: &mut Scan<'_>,
    place: &mut WordPlace,
    near: usize,
    ends: &mut [u32],
) -> Result<usize, TooHard> {
    let bytes = scan.text.as_bytes();
    let (mut at, mut count) = (place.at, 0);
    while at < near {
        let mut copy = [0; BLOCK];
        let block_bytes = match bytes.get(at..at + BLOCK).and_then(<[u8]>::first_chunk) {
            Some(block) => block,
            None => {
                copy[..bytes.len() - at].copy_from_slice(&bytes[at..]);
                &copy
            }
        };
        let block = AsciiBlock::new(simd, block_bytes);
        let (starts, is_end) = match is_within_outer(scan, &place.outer, at) {
            true => (0, false),
            false => rules.word_starts(&block, block_bytes, scan.end - at),
        };
        if starts != 0
            && let Some(ends) = ends.get_mut(count..).and_then(<[u32]>::first_chunk_mut)
        {
            write_places(simd, starts, at as u32, ends);
            count += starts.count_ones() as usize;
            at += starts.ilog2() as usize;
            place.outer.fill(Outer::Begin);
        }
        if is_end {
            at = scan.end;
        } else if starts == 0 {
            at = read_word(scan, at, &mut place.outer)?;
        }
        if is_end || starts == 0 {
            ends[count] = at as u32;
            count += 1;
        }
    }
    place.at = at;
    Ok(count)
}

/// Writes the places of bits, counted from `base`.
#[inline(always)]
fn write_places<S: Simd>(simd: S, mut bits: u64, base: u32, places: &mut [u32; BLOCK]) {
    if let Level::Avx512(_) = simd.level() {
        let all: [u8; BLOCK] = std::array::from_fn(|at| at as u8);
        let found = u8x64::from_slice(simd, &all).compress(mask8x64::from_bitmask(simd, bits)).to_array();
        let (parts, _) = places.as_chunks_mut::<16>();
        let (found, _) = found.as_chunks::<16>();
        for (places, found) in parts.iter_mut().zip(found).take(bits.count_ones().div_ceil(16) as usize) {
            for (place, &at) in places.iter_mut().zip(found) {
                *place = base + u32::from(at);
            }
        }
        return;
    }
    let count = bits.count_ones() as usize;
    let (parts, _) = places.as_chunks_mut::<8>();
    for place in parts[..count.div_ceil(8)].iter_mut().flatten() {
        *place = base + bits.trailing_zeros();
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
