use fearless_simd::prelude::*;
use fearless_simd::{Simd, u8x64};

/// The number of characters that are looked at together.
pub(super) const BLOCK: usize = 64;

/// Neighboring characters of a text by their kind: bit 0 is for the first of them.
#[derive(Clone, Copy, Default)]
#[cfg_attr(test, derive(PartialEq, Eq, Debug))]
pub(super) struct AsciiBlock {
    pub letters: u64,
    pub capitals: u64,
    pub digits: u64,
    pub spaces: u64,
    /// White space: spaces, tabs and such, and line breaks.
    pub blanks: u64,
    pub breaks: u64,
    pub apostrophes: u64,
    pub slashes: u64,
    /// Control characters that are no white space, and bytes that are not ASCII.
    pub others: u64,
}

impl AsciiBlock {
    #[inline(always)]
    pub fn new<S: Simd>(simd: S, bytes: &[u8; BLOCK]) -> Self {
        let text = u8x64::from_slice(simd, bytes);
        let is = |byte: u8| text.simd_eq(byte).to_bitmask();
        let is_between = |first: u8, last: u8| (text - first).simd_le(last - first).to_bitmask();
        let (small, capitals) = (is_between(b'a', b'z'), is_between(b'A', b'Z'));
        let spaces = is(b' ');
        let blanks = is_between(b'\t', b'\r') | spaces;
        Self {
            letters: small | capitals,
            capitals,
            digits: is_between(b'0', b'9'),
            spaces,
            blanks,
            breaks: is(b'\n') | is(b'\r'),
            apostrophes: is(b'\''),
            slashes: is(b'/'),
            others: !(is_between(b' ', b'~') | blanks),
        }
    }
}

#[cfg(test)]
mod tests {
    use fearless_simd::{Level, dispatch};

    use super::{AsciiBlock, BLOCK};

    #[test]
    fn each_byte_is_of_its_kind() {
        for byte in 0..=u8::MAX {
            for at in [0, 15, 16, BLOCK - 1] {
                let mut bytes = [b' '; BLOCK];
                bytes[at] = byte;
                let bit = |holds: bool| u64::from(holds) << at;
                let around = !(1 << at);
                let is_blank = matches!(byte, b' ' | 9..=13);
                let expected = AsciiBlock {
                    letters: bit(byte.is_ascii_alphabetic()),
                    capitals: bit(byte.is_ascii_uppercase()),
                    digits: bit(byte.is_ascii_digit()),
                    spaces: around | bit(byte == b' '),
                    blanks: around | bit(is_blank),
                    breaks: bit(matches!(byte, b'\r' | b'\n')),
                    apostrophes: bit(byte == b'\''),
                    slashes: bit(byte == b'/'),
                    others: bit(!byte.is_ascii() || byte.is_ascii_control() && !is_blank),
                };
                let block = dispatch!(Level::new(), simd => AsciiBlock::new(simd, &bytes));
                assert_eq!(block, expected, "{byte}");
                let block = dispatch!(Level::baseline(), simd => AsciiBlock::new(simd, &bytes));
                assert_eq!(block, expected, "{byte}, with the fewest instructions");
            }
        }
    }
}
