use std::ops::ControlFlow;

use super::char_classes::decode;
use super::pair_set::PairSet;
use super::words::RUN;

/// The pairs of characters that are adjacent in some token that merges produce.
///
/// Characters that form no such pair never merge, so a text may be split between them before
/// merging.
pub(crate) struct Joints {
    space: Option<u32>,
    /// For ASCII, by the left and the right character: 1 if a text is split between them.
    splits: Box<[[u8; 128]; 128]>,
    /// All other pairs. Text may be split between them or not.
    others: PairSet,
    /// Whether a text has to be split before spaces.
    before_spaces: bool,
}

const SPACE: u32 = ' ' as u32;

impl Joints {
    /// Collects the pairs from the texts of tokens, in which `space` may represent a space. If
    /// `before_spaces` is set, a text is also split before spaces.
    pub fn new<'a>(texts: impl Iterator<Item = &'a str>, space: Option<char>, before_spaces: bool) -> Self {
        let space = space.map(u32::from);
        let mut splits = Box::new([[1; 128]; 128]);
        let mut others = Vec::new();
        for text in texts {
            let mut characters = text.chars().map(|c| plain(u32::from(c), space));
            let Some(mut left) = characters.next() else { continue };
            for right in characters {
                let is_split = before_spaces && right == SPACE;
                match splits.get_mut(left as usize).and_then(|row| row.get_mut(right as usize)) {
                    Some(split) => *split = u8::from(is_split),
                    None if is_split => {}
                    None => others.push((left, right)),
                }
                left = right;
            }
        }
        Self { space, splits, others: PairSet::new(others), before_spaces }
    }

    /// Calls `visit` with runs of neighboring words, left to right: the start of the first word and
    /// the end of each.
    pub fn split(
        &self,
        text: &str,
        (start, end): (usize, usize),
        visit: &mut impl FnMut(usize, &[u32]) -> ControlFlow<()>,
    ) {
        let bytes = text.as_bytes().get(..end).unwrap_or_default();
        let (mut first, mut ends) = (start, [0; RUN]);
        let mut count = 0;
        let mut at = start;
        // There is nothing to the left of the first character.
        let mut left = None;
        while at < end {
            if let Some(mut row) = left.and_then(|left: u32| self.splits.get(left as usize)) {
                // Nothing here waits for what was found.
                let from = at;
                for &byte in bytes.get(at..).unwrap_or_default().iter().take(RUN - 1 - count) {
                    let Some(split) = row.get(usize::from(byte)) else { break };
                    ends[count % RUN] = at as u32;
                    count += usize::from(*split);
                    row = &self.splits[usize::from(byte)];
                    at += 1;
                }
                if at > from {
                    left = Some(u32::from(bytes[at - 1]));
                }
            }
            if count + 1 >= RUN {
                let last = ends[count - 1] as usize;
                if visit(first, &ends[..count]).is_break() {
                    return;
                }
                (first, count) = (last, 0);
                continue;
            }
            if let Some((right, length)) = self.character(bytes, at) {
                if left.is_some_and(|left| self.is_split(left, right)) {
                    ends[count] = at as u32;
                    count += 1;
                }
                left = Some(right);
                at += length;
            }
        }
        if start < end {
            ends[count] = end as u32;
            // Nothing is left to stop.
            let _ = visit(first, &ends[..=count]);
        }
    }

    /// Returns a place between two positions at which a text is split.
    pub fn find_place(&self, text: &str, from: usize, to: usize) -> Option<usize> {
        let pairs = text.as_bytes().get(from.checked_sub(1)?..to)?.windows(2);
        (from..).zip(pairs).find_map(|(at, pair)| {
            let split = self.splits.get(usize::from(pair[0]))?.get(usize::from(pair[1]))?;
            (*split == 1).then_some(at)
        })
    }

    fn character(&self, bytes: &[u8], at: usize) -> Option<(u32, usize)> {
        match *bytes.get(at)? {
            byte @ 0..0x80 => Some((u32::from(byte), 1)),
            _ => decode(bytes, at).map(|(code, length)| (plain(code as u32, self.space), length)),
        }
    }

    #[inline]
    fn is_split(&self, left: u32, right: u32) -> bool {
        match self.splits.get(left as usize).and_then(|row| row.get(right as usize)) {
            Some(&split) => split == 1,
            None => self.before_spaces && right == SPACE || !self.others.may_hold((left, right)),
        }
    }
}

fn plain(c: u32, space: Option<u32>) -> u32 {
    if Some(c) == space { SPACE } else { c }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use super::Joints;

    fn words<'a>(joints: &Joints, text: &'a str, start: usize) -> Vec<&'a str> {
        let mut found = Vec::new();
        joints.split(text, (start, text.len()), &mut |mut first, ends| {
            for &end in ends {
                found.push(&text[first..end as usize]);
                first = end as usize;
            }
            ControlFlow::Continue(())
        });
        found
    }

    #[test]
    fn a_text_is_split_where_no_token_joins_two_characters() {
        let tokens = ["ab", "b\u{2581}", "\u{2581}a", "中文", "文a"];
        let joints = |before_spaces| Joints::new(tokens.into_iter(), Some('\u{2581}'), before_spaces);
        assert_eq!(words(&joints(false), "xab a中文ab\u{2581}ba", 1), ["ab a", "中文ab\u{2581}", "b", "a"]);
        assert_eq!(words(&joints(true), "ab a中文ab\u{2581}ba", 0), ["ab", " a", "中文ab", "\u{2581}", "b", "a"]);
        assert!(words(&joints(true), "", 0).is_empty());
        // More words, and longer ones, than are handed over together.
        let text = "b".repeat(3_000) + &"ab ".repeat(3_000) + &"文".repeat(3_000);
        assert_eq!(words(&joints(false), &text, 0).concat(), text);
        assert_eq!(words(&joints(false), &text, 0).len(), 3_000 + 1 + 3_000);
    }

    #[test]
    fn a_space_is_split_off_whatever_is_before_it() {
        let tokens: Vec<String> = ('\u{4E00}'..'\u{5E00}').map(|left| format!("{left}中")).collect();
        let joints = Joints::new(tokens.iter().map(String::as_str), None, true);
        for left in '\u{80}'..'\u{8000}' {
            assert_eq!(words(&joints, &format!("{left} "), 0).len(), 2, "{left:?}");
        }
    }
}
