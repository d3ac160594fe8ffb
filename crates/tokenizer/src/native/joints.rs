/// The pairs of characters that are adjacent in some token that merges produce.
///
/// Characters that form no such pair never merge, so a text may be split between them before
/// merging.
pub(crate) struct Joints {
    space: Option<char>,
    /// For ASCII: one row per left character, with one bit per right character.
    ascii: Box<[u128; 128]>,
    /// All other pairs: an open-addressing table of both code points.
    others: Vec<u64>,
}

const EMPTY: u64 = u64::MAX;

impl Joints {
    /// Collects the pairs from the texts of tokens, in which `space` may represent a space.
    pub fn new<'a>(texts: impl Iterator<Item = &'a str>, space: Option<char>) -> Self {
        let mut joints = Self { space, ascii: Box::new([0; 128]), others: Vec::new() };
        let mut others = Vec::new();
        for text in texts {
            let mut characters = text.chars().map(|c| joints.plain(c));
            let Some(mut left) = characters.next() else { continue };
            for right in text.chars().skip(1).map(|c| if Some(c) == space { ' ' } else { c }) {
                match joints.ascii.get_mut(left as usize) {
                    Some(row) if right.is_ascii() => *row |= 1 << right as u32,
                    _ => others.push(key(left, right)),
                }
                left = right;
            }
        }
        others.sort_unstable();
        others.dedup();
        joints.others = vec![EMPTY; (others.len() * 2).next_power_of_two().max(2)];
        for pair in others {
            let mut at = joints.slot(pair);
            while joints.others[at] != EMPTY {
                at = (at + 1) & (joints.others.len() - 1);
            }
            joints.others[at] = pair;
        }
        joints
    }

    /// Calls `visit` with the bounds of each word, left to right. If `before_spaces` is set, also
    /// splits before spaces.
    pub fn split(&self, text: &str, before_spaces: bool, mut visit: impl FnMut(usize, usize)) {
        let mut start = 0;
        let mut left = None;
        for (at, right) in text.char_indices() {
            let right = self.plain(right);
            if left.is_some_and(|left| !self.are_joined(left, right) || (before_spaces && right == ' ')) {
                visit(start, at);
                start = at;
            }
            left = Some(right);
        }
        if start < text.len() {
            visit(start, text.len());
        }
    }

    fn plain(&self, c: char) -> char {
        if Some(c) == self.space { ' ' } else { c }
    }

    #[inline]
    fn are_joined(&self, left: char, right: char) -> bool {
        match self.ascii.get(left as usize) {
            Some(row) if right.is_ascii() => row >> right as u32 & 1 == 1,
            _ => self.others_hold(key(left, right)),
        }
    }

    fn others_hold(&self, pair: u64) -> bool {
        let mut at = self.slot(pair);
        loop {
            match self.others[at] {
                EMPTY => return false,
                found if found == pair => return true,
                _ => at = (at + 1) & (self.others.len() - 1),
            }
        }
    }

    fn slot(&self, pair: u64) -> usize {
        (pair.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33) as usize & (self.others.len() - 1)
    }
}

fn key(left: char, right: char) -> u64 {
    u64::from(u32::from(left)) << 32 | u64::from(u32::from(right))
}
