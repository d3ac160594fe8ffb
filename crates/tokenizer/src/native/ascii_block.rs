use wide::u8x16;

/// The number of characters that are looked at together.
pub(super) const BLOCK: usize = 64;
const PART: usize = 16;

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
    pub fn new(bytes: &[u8; BLOCK]) -> Self {
        let mut block = Self::default();
        let (parts, _) = bytes.as_chunks::<PART>();
        for (at, part) in parts.iter().enumerate() {
            let part = u8x16::new(*part);
            let put = |mask: &mut u64, found: u8x16| *mask |= u64::from(found.to_bitmask()) << (at * PART);
            let is = |byte: u8| part.simd_eq(u8x16::splat(byte));
            let letters = is_between(part | u8x16::splat(0x20), b'a', b'z');
            let breaks = is(b'\n') | is(b'\r');
            let spaces = is(b' ');
            let blanks = is_between(part, b'\t', b'\r') | spaces;
            put(&mut block.letters, letters);
            put(&mut block.capitals, letters & part.simd_eq(part & u8x16::splat(!0x20)));
            put(&mut block.digits, is_between(part, b'0', b'9'));
            put(&mut block.spaces, spaces);
            put(&mut block.blanks, blanks);
            put(&mut block.breaks, breaks);
            put(&mut block.apostrophes, is(b'\''));
            put(&mut block.slashes, is(b'/'));
            put(&mut block.others, !(is_between(part, b' ', b'~') | blanks));
        }
        block
    }
}

#[inline(always)]
fn is_between(bytes: u8x16, first: u8, last: u8) -> u8x16 {
    let from_first = bytes - u8x16::splat(first);
    from_first.simd_le(u8x16::splat(last - first))
}

#[cfg(test)]
mod tests {
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
                assert_eq!(AsciiBlock::new(&bytes), expected, "{byte}");
            }
        }
    }
}
