//! Words of a text that is mostly ASCII, found for a block of characters at once.

use std::ops::ControlFlow;

use super::ascii_block::{AsciiBlock, BLOCK};
use super::ascii_rules::AsciiRules;
use super::automaton::{DEAD, TooHard};
use super::lanes::{Lanes, Scan};
use super::scanner::Outer;

/// The bytes for which it is decided how they are read.
const STRETCH: usize = 2048;
/// The share of bytes that are not ASCII above which a text is not mostly ASCII.
const MOST_OTHERS: usize = 32;
/// The number of words to hand over together.
const RUN: usize = 512;

/// Calls `visit` with runs of neighboring words from `start` on: the start of the first word and the
/// end of each.
pub(super) fn split(
    rules: AsciiRules,
    scan: &mut Scan<'_>,
    start: usize,
    lanes: &mut Lanes,
    visit: &mut impl FnMut(usize, &[u32]) -> ControlFlow<()>,
) -> Result<(), TooHard> {
    let end = scan.end;
    let mut place = WordPlace { at: start, outer: vec![Outer::Begin; scan.automata.outer.len()] };
    while place.at < end {
        let near = end.min(place.at + STRETCH);
        let flow = if is_mostly_ascii(&scan.text.as_bytes()[place.at..near]) {
            read_blocks(rules, scan, &mut place, near, &mut lanes.joined, visit)?
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

/// Reads words up to one that begins at `near` or later.
fn read_blocks(
    rules: AsciiRules,
    scan: &mut Scan<'_>,
    place: &mut WordPlace,
    near: usize,
    ends: &mut Vec<u32>,
    visit: &mut impl FnMut(usize, &[u32]) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, TooHard> {
    let bytes = scan.text.as_bytes();
    ends.resize(RUN + BLOCK, 0);
    let (mut first, mut count) = (place.at, 0);
    while place.at < near {
        let at = place.at;
        let rest = scan.end - at;
        let mut copy = [0; BLOCK];
        let block_bytes = match bytes.get(at..).and_then(<[u8]>::first_chunk) {
            Some(block) => block,
            None => {
                copy[..bytes.len() - at].copy_from_slice(&bytes[at..]);
                &copy
            }
        };
        let block = AsciiBlock::new(block_bytes);
        let (mut starts, is_end) = match is_within_outer(scan, place) {
            true => (0, false),
            false => rules.word_starts(&block, block_bytes, rest),
        };
        let found = starts.count_ones() as usize;
        if let Some(last) = starts.checked_ilog2() {
            if let Some((places, _)) = ends.get_mut(count..).and_then(<[u32]>::split_first_chunk_mut::<BLOCK>) {
                let (parts, _) = places.as_chunks_mut::<8>();
                for part in &mut parts[..found.div_ceil(8)] {
                    for end in part {
                        *end = at as u32 + starts.trailing_zeros();
                        starts &= starts.wrapping_sub(1);
                    }
                }
            }
            count += found;
            place.at += last as usize;
            place.outer.fill(Outer::Begin);
        }
        if is_end {
            place.at = scan.end;
        } else if found == 0 {
            let (end, looked) = scan.automata.next_word(scan.text, at, scan.end, &mut place.outer, &mut scan.patience)?;
            scan.patience = scan.patience.checked_sub(looked.saturating_sub(end)).ok_or(TooHard)?;
            place.at = end;
        }
        if is_end || found == 0 {
            ends[count] = place.at as u32;
            count += 1;
        }
        if count >= RUN {
            if visit(std::mem::replace(&mut first, place.at), &ends[..count]).is_break() {
                return Ok(ControlFlow::Break(()));
            }
            count = 0;
        }
    }
    if count > 0 {
        return Ok(visit(first, &ends[..count]));
    }
    Ok(ControlFlow::Continue(()))
}

/// Reports whether an outer pattern is in the middle of a match that can go on.
fn is_within_outer(scan: &Scan<'_>, place: &WordPlace) -> bool {
    scan.automata.outer.iter().zip(&place.outer).any(|(automaton, outer)| match outer {
        Outer::Begin | Outer::Gap => false,
        Outer::Match(state) => match scan.automata.classes.at(scan.text, place.at) {
            Some((class, _)) => automaton.step(*state, class).next != DEAD,
            None => false,
        },
    })
}
