use super::super::Error;

/// The normalizer's table: a double-array trie from character sequences to their replacements.
pub(in super::super) struct Charsmap {
    units: Vec<u32>,
    /// The replacements, each terminated by a NUL.
    replacements: String,
}

/// The length in bytes of a replacement; the longest in Unicode's normalization forms has 33.
const LONGEST_REPLACEMENT: usize = 128;

impl Charsmap {
    /// Reads the table and walks it once, so that no lookup can leave it.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let malformed = |why: &str| Error::malformed("precompiled_charsmap", why);
        let (size, rest) = bytes.split_first_chunk().ok_or_else(|| malformed("shorter than its header"))?;
        let size = u32::from_le_bytes(*size) as usize;
        if size == 0 || !size.is_multiple_of(4) || size > rest.len() {
            return Err(malformed("the header contains an invalid size"));
        }
        let (units, replacements) = rest.split_at(size);
        let units: Vec<u32> =
            units.chunks_exact(4).map(|unit| u32::from_le_bytes([unit[0], unit[1], unit[2], unit[3]])).collect();
        let replacements = std::str::from_utf8(replacements).map_err(|_| malformed("replacements are not UTF-8"))?;
        let map = Self { units, replacements: replacements.to_owned() };
        if map.is_sound() {
            Ok(map)
        } else {
            Err(malformed("the trie points outside the table, or to a replacement that does not end"))
        }
    }

    /// Returns the length of the longest sequence that the text starts with, and its replacement.
    pub fn longest_prefix(&self, text: &str) -> Option<(usize, &str)> {
        let mut longest = None;
        let mut node = offset(self.unit(0)?);
        for (length, byte) in (1..).zip(text.bytes()) {
            node ^= usize::from(byte);
            let unit = self.unit(node)?;
            if label(unit) != u32::from(byte) {
                break;
            }
            node ^= offset(unit);
            if has_leaf(unit) {
                longest = Some((length, value(self.unit(node)?)));
            }
        }
        let (length, start) = longest?;
        let replacement = self.replacements.get(start..)?;
        Some((length, replacement.split('\0').next()?))
    }

    fn unit(&self, index: usize) -> Option<u32> {
        self.units.get(index).copied()
    }

    fn is_sound(&self) -> bool {
        let mut seen = vec![false; self.units.len()];
        let mut open = vec![offset(self.units[0])];
        while let Some(node) = open.pop() {
            for byte in 0..=u8::MAX {
                let child = node ^ usize::from(byte);
                let Some(unit) = self.unit(child) else { return false };
                if label(unit) != u32::from(byte) || std::mem::replace(&mut seen[child], true) {
                    continue;
                }
                let below = child ^ offset(unit);
                if has_leaf(unit) {
                    let Some(leaf) = self.unit(below) else { return false };
                    let Some(replacement) = self.replacements.get(value(leaf)..) else { return false };
                    let end = replacement.as_bytes().iter().take(LONGEST_REPLACEMENT + 1).position(|&byte| byte == 0);
                    if end.is_none() && replacement.len() > LONGEST_REPLACEMENT {
                        return false;
                    }
                }
                open.push(below);
            }
        }
        true
    }
}

// The bits of a unit, as packed by the darts-clone library.

fn has_leaf(unit: u32) -> bool {
    unit >> 8 & 1 == 1
}

fn value(unit: u32) -> usize {
    (unit & 0x7FFF_FFFF) as usize
}

fn label(unit: u32) -> u32 {
    unit & 0x8000_00FF
}

fn offset(unit: u32) -> usize {
    ((unit >> 10) << ((unit & 1 << 9) >> 6)) as usize
}

#[cfg(test)]
mod tests {
    use super::Charsmap;

    /// Returns a table that replaces `a` with `b` and `ab` with `cd`, packed as darts-clone does.
    fn table() -> Vec<u8> {
        const LEAF: u32 = 1 << 31;
        let unit =
            |label: u8, leaf: bool, offset: usize| u32::from(label) | u32::from(leaf) << 8 | (offset as u32) << 10;
        let mut units = vec![0_u32; 4096];
        units[0] = unit(0, false, 256);
        let a = 256 ^ usize::from(b'a');
        units[a] = unit(b'a', true, 512);
        units[a ^ 512] = LEAF;
        let ab = a ^ 512 ^ usize::from(b'b');
        units[ab] = unit(b'b', true, 1024);
        units[ab ^ 1024] = LEAF | 2;
        let mut bytes = ((units.len() * 4) as u32).to_le_bytes().to_vec();
        bytes.extend(units.iter().flat_map(|unit| unit.to_le_bytes()));
        bytes.extend(b"b\0cd\0");
        bytes
    }

    #[test]
    fn the_longest_sequence_is_replaced_and_no_other() {
        let map = Charsmap::from_bytes(&table()).unwrap();
        assert_eq!(map.longest_prefix("abc"), Some((2, "cd")));
        assert_eq!(map.longest_prefix("axc"), Some((1, "b")));
        assert_eq!(map.longest_prefix("xab"), None);
        assert_eq!(map.longest_prefix("`b"), None);
        assert_eq!(map.longest_prefix(""), None);
    }

    #[test]
    fn a_damaged_table_is_refused() {
        let whole = table();
        assert!(Charsmap::from_bytes(&whole[..3]).is_err());
        let mut short = whole.clone();
        short[0] = 1;
        assert!(Charsmap::from_bytes(&short).is_err());
        // The leaf of `a` points past the replacements.
        let mut far = whole;
        let leaf = 4 + 4 * (256 ^ usize::from(b'a') ^ 512);
        far[leaf] = 200;
        assert!(Charsmap::from_bytes(&far).is_err());
    }
}
