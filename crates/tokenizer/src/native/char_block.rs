use fearless_simd::prelude::*;
use fearless_simd::{Simd, u8x64};

/// The number of characters that are looked at together.
pub(super) const BLOCK: usize = 64;

/// Kinds of characters that ASCII has not, as bytes: a letter that is a capital and a small letter, but
/// is not known before a capital; a character that is a word only with others of its kind; a mark that
/// begins no word of letters; and all that the rules do not know.
pub(super) const EITHER_CASE: u8 = 0x80;
pub(super) const ISLAND: u8 = 0x81;
pub(super) const FAR_MARK: u8 = 0x82;
pub(super) const UNKNOWN: u8 = u8::MAX;

/// A text of which each character is a byte.
pub(super) trait BlockText {
    /// Whether there are others than ASCII characters.
    const OTHERS: bool;

    /// Returns the next characters from one on, and the number of all that follow, of which more than a
    /// block do not matter. Returns `None` if too little of the text is known.
    fn block(&mut self, at: usize) -> Option<(&[u8; BLOCK], usize)>;

    /// Returns where characters begin in the text, counted from one of them.
    fn places(&self, at: usize) -> impl Fn(u8) -> u32;

    /// Returns the first character after one that begins at a place or behind it.
    fn find(&self, at: usize, place: usize) -> usize;
}

/// Neighboring characters of a text by their kind: bit 0 is for the first of them.
#[derive(Clone, Copy, Default)]
#[cfg_attr(test, derive(PartialEq, Eq, Debug))]
pub(super) struct CharBlock {
    pub letters: u64,
    pub capitals: u64,
    pub digits: u64,
    pub spaces: u64,
    /// White space: spaces, tabs and such, and line breaks.
    pub blanks: u64,
    pub breaks: u64,
    pub apostrophes: u64,
    pub slashes: u64,
    pub islands: u64,
    pub far_marks: u64,
    /// Control characters that are no white space, and what is not known.
    pub others: u64,
}

impl CharBlock {
    /// Returns the kinds of characters that are each a byte. Without `others`, only ASCII is known.
    #[inline(always)]
    pub fn new<S: Simd>(simd: S, bytes: &[u8; BLOCK], others: bool) -> Self {
        let text = u8x64::from_slice(simd, bytes);
        let is = |byte: u8| text.simd_eq(byte).to_bitmask();
        let is_between = |first: u8, last: u8| (text - first).simd_le(last - first).to_bitmask();
        let (small, capitals) = (is_between(b'a', b'z'), is_between(b'A', b'Z'));
        let spaces = is(b' ');
        let blanks = is_between(b'\t', b'\r') | spaces;
        let is_other = |kind| if others { is(kind) } else { 0 };
        let [either, islands, far_marks] = [EITHER_CASE, ISLAND, FAR_MARK].map(is_other);
        let known = is_between(b' ', b'~') | blanks | either & !(capitals >> 1) | islands | far_marks;
        Self {
            letters: small | capitals | either,
            capitals,
            digits: is_between(b'0', b'9'),
            spaces,
            blanks,
            breaks: is(b'\n') | is(b'\r'),
            apostrophes: is(b'\''),
            slashes: is(b'/'),
            islands,
            far_marks,
            others: !known,
        }
    }
}

#[cfg(test)]
mod tests {
    use fearless_simd::{Level, dispatch};

    use super::{BLOCK, CharBlock, EITHER_CASE, FAR_MARK, ISLAND};

    #[test]
    fn each_byte_is_of_its_kind() {
        for byte in 0..=u8::MAX {
            for at in [0, 15, 16, BLOCK - 1] {
                let mut bytes = [b' '; BLOCK];
                bytes[at] = byte;
                let bit = |holds: bool| u64::from(holds) << at;
                let around = !(1 << at);
                let is_blank = matches!(byte, b' ' | 9..=13);
                let expected = CharBlock {
                    letters: bit(byte.is_ascii_alphabetic()),
                    capitals: bit(byte.is_ascii_uppercase()),
                    digits: bit(byte.is_ascii_digit()),
                    spaces: around | bit(byte == b' '),
                    blanks: around | bit(is_blank),
                    breaks: bit(matches!(byte, b'\r' | b'\n')),
                    apostrophes: bit(byte == b'\''),
                    slashes: bit(byte == b'/'),
                    islands: 0,
                    far_marks: 0,
                    others: bit(!byte.is_ascii() || byte.is_ascii_control() && !is_blank),
                };
                let block = dispatch!(Level::new(), simd => CharBlock::new(simd, &bytes, false));
                assert_eq!(block, expected, "{byte}");
                let block = dispatch!(Level::baseline(), simd => CharBlock::new(simd, &bytes, false));
                assert_eq!(block, expected, "{byte}, with the fewest instructions");
                let expected = CharBlock {
                    letters: expected.letters | bit(byte == EITHER_CASE),
                    islands: bit(byte == ISLAND),
                    far_marks: bit(byte == FAR_MARK),
                    others: expected.others & !bit(matches!(byte, EITHER_CASE | ISLAND | FAR_MARK)),
                    ..expected
                };
                let block = dispatch!(Level::new(), simd => CharBlock::new(simd, &bytes, true));
                assert_eq!(block, expected, "{byte}, with others");
            }
        }
    }
}
