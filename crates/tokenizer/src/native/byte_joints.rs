use std::collections::HashMap;

use foldhash::fast::RandomState;

use super::char_classes::decode;
use super::pair_set::PairSet;

/// Characters may be cut apart in this many tokens at the same two bytes; beyond it, those bytes are
/// never split.
const MOST_STRADDLES: usize = 16;

/// The pairs of non-ASCII characters that are adjacent in some token of a byte vocabulary.
///
/// No merge joins other pairs, so a word may be split between them before merging. In languages
/// without spaces, words are long and rarely repeated, but the parts are short and often are.
pub(crate) struct ByteJoints {
    pairs: PairSet,
    /// The tokens that hold only part of one of two characters: the bytes before and after the
    /// boundary, by the last and the first of them.
    straddles: HashMap<(u8, u8), Vec<Straddle>, RandomState>,
    /// Which of the bytes 0x80 to 0xBF and 0xC0 to 0xFF are such a last and first byte.
    straddled: [u64; 64],
}

struct Straddle {
    before: Vec<u8>,
    after: Vec<u8>,
}

impl ByteJoints {
    /// Collects the pairs from the bytes of all tokens.
    pub fn new<'a>(tokens: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut pairs = Vec::new();
        let mut straddles: HashMap<(u8, u8), Vec<Straddle>, _> = HashMap::default();
        for token in tokens.filter(|token| !token.is_ascii()) {
            let mut left: &[u8] = &[];
            for right in token.chunk_by(|_, next| is_continuation(*next)) {
                if let (Some(&last @ 0x80..), Some(&first @ 0x80..)) = (left.last(), right.first()) {
                    match (code(left), code(right)) {
                        (Some(left), Some(right)) => pairs.push((left, right)),
                        _ => {
                            let straddle = Straddle { before: left.to_vec(), after: right.to_vec() };
                            straddles.entry((last, first)).or_default().push(straddle);
                        }
                    }
                }
                left = right;
            }
        }
        let mut straddled = [0; 64];
        for (last, first) in straddles.keys() {
            straddled[usize::from(last & 0x3F)] |= 1u64 << (first & 0x3F);
        }
        Self { pairs: PairSet::new(pairs), straddles, straddled }
    }

    /// Appends the places in a word at which it may be split, counted from its start, plus `start`.
    pub fn find_cuts(&self, word: &[u8], start: usize, cuts: &mut Vec<u32>) {
        let first = cuts.len();
        cuts.resize(first + word.len() / 2 + 1, 0);
        let (mut at, mut count, mut left) = (0, first, None);
        while let Some(&byte) = word.get(at) {
            let (right, length) = match byte {
                0..0x80 => (None, 1),
                _ => decode(word, at).map_or((None, 1), |(code, length)| (Some(code as u32), length)),
            };
            if let (Some(left), Some(right)) = (left, right)
                && let Some(cut) = cuts.get_mut(count)
            {
                // Written in any case, and counted only if it is one.
                *cut = (start + at) as u32;
                count += usize::from(!self.pairs.may_hold((left, right)));
                if count > first && self.may_be_straddled(word, at) && cuts[count - 1] as usize == start + at {
                    count -= usize::from(self.is_straddled(word, at));
                }
            }
            left = right;
            at += length;
        }
        cuts.truncate(count);
    }

    /// Reports whether a token may hold only part of one of the two characters at a boundary.
    #[inline]
    pub fn may_be_cut_otherwise(&self, word: &[u8], at: usize) -> bool {
        self.may_be_straddled(word, at) && self.is_straddled(word, at)
    }

    #[inline(always)]
    fn may_be_straddled(&self, word: &[u8], at: usize) -> bool {
        self.straddled[usize::from(word[at - 1] & 0x3F)] >> (word[at] & 0x3F) & 1 == 1
    }

    fn is_straddled(&self, word: &[u8], at: usize) -> bool {
        let (before, after) = word.split_at(at);
        let (Some(&last), Some(&first)) = (before.last(), after.first()) else { return true };
        self.straddles.get(&(last, first)).is_some_and(|straddles| {
            let fits = |straddle: &Straddle| before.ends_with(&straddle.before) && after.starts_with(&straddle.after);
            straddles.len() > MOST_STRADDLES || straddles.iter().any(fits)
        })
    }
}

fn is_continuation(byte: u8) -> bool {
    byte & 0xC0 == 0x80
}

/// Returns the code point of bytes that are one character.
pub(super) fn code(bytes: &[u8]) -> Option<u32> {
    let mut characters = std::str::from_utf8(bytes).ok()?.chars();
    characters.next().filter(|_| characters.next().is_none()).map(u32::from)
}

#[cfg(test)]
mod tests {
    use super::ByteJoints;

    fn cuts(tokens: &[&[u8]], word: &str) -> Vec<u32> {
        let mut cuts = Vec::new();
        ByteJoints::new(tokens.iter().copied()).find_cuts(word.as_bytes(), 100, &mut cuts);
        cuts
    }

    #[test]
    fn a_word_is_split_between_characters_that_no_token_joins() {
        assert_eq!(cuts(&["中文".as_bytes(), b"ab"], "中文中ab文中"), [106, 114]);
        assert!(cuts(&["文a".as_bytes()], "a文a").is_empty(), "ASCII is left together");
    }

    #[test]
    fn tokens_that_cut_a_character_keep_it_together() {
        let [a, b] = ["中", "文"].map(str::as_bytes);
        for (token, is_joined) in [
            ([a, &b[..1]].concat(), true),
            ([&a[1..], b].concat(), true),
            ([&a[2..], &b[..2]].concat(), true),
            ([&a[1..], "人".as_bytes()].concat(), false),
            // This lead byte is that of another character.
            ([a, "é".as_bytes()[..1].as_ref()].concat(), false),
            ([&b[2..], &b[..1]].concat(), false),
        ] {
            assert_eq!(cuts(&[&token], "中文").is_empty(), is_joined, "{token:x?}");
        }
    }
}
