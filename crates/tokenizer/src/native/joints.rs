use std::ops::ControlFlow;

use super::pair_set::PairSet;
use super::words::RUN;

/// The pairs of characters that are adjacent in some token that merges produce.
///
/// Characters that form no such pair never merge, so a text may be split between them before
/// merging.
pub(crate) struct Joints {
    space: Option<char>,
    /// For ASCII: one row per left character, with one bit per right character.
    ascii: Box<[u128; 128]>,
    /// All other pairs.
    others: PairSet,
}

impl Joints {
    /// Collects the pairs from the texts of tokens, in which `space` may represent a space.
    pub fn new<'a>(texts: impl Iterator<Item = &'a str>, space: Option<char>) -> Self {
        let plain = |c: char| if Some(c) == space { ' ' } else { c };
        let mut ascii = Box::new([0u128; 128]);
        let mut others = Vec::new();
        for text in texts {
            let mut characters = text.chars().map(plain);
            let Some(mut left) = characters.next() else { continue };
            for right in characters {
                match ascii.get_mut(left as usize) {
                    Some(row) if right.is_ascii() => *row |= 1 << right as u32,
                    _ => others.push((u32::from(left), u32::from(right))),
                }
                left = right;
            }
        }
        Self { space, ascii, others: PairSet::new(others) }
    }

    /// Calls `visit` with runs of neighboring words, left to right: the start of the first word and
    /// the end of each. If `before_spaces` is set, also splits before spaces.
    pub fn split(
        &self,
        text: &str,
        (start, end): (usize, usize),
        before_spaces: bool,
        visit: &mut impl FnMut(usize, &[u32]) -> ControlFlow<()>,
    ) {
        let (mut first, mut ends) = (start, [0; RUN]);
        let mut count = 0;
        let mut left = None;
        for (at, right) in text[start..end].char_indices() {
            let right = self.plain(right);
            if left.is_some_and(|left| !self.are_joined(left, right) || (before_spaces && right == ' ')) {
                ends[count] = (start + at) as u32;
                count += 1;
                if count == RUN {
                    if visit(first, &ends).is_break() {
                        return;
                    }
                    (first, count) = (start + at, 0);
                }
            }
            left = Some(right);
        }
        if start < end {
            ends[count] = end as u32;
            // Nothing is left to stop.
            let _ = visit(first, &ends[..=count]);
        }
    }

    fn plain(&self, c: char) -> char {
        if Some(c) == self.space { ' ' } else { c }
    }

    #[inline]
    fn are_joined(&self, left: char, right: char) -> bool {
        match self.ascii.get(left as usize) {
            Some(row) if right.is_ascii() => row >> right as u32 & 1 == 1,
            _ => self.others.holds((u32::from(left), u32::from(right))),
        }
    }
}
