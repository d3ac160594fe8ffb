use super::super::Error;

/// The normalizer's table: a double-array trie from character sequences to their replacements.
pub(in super::super) struct Charsmap {
    units: Vec<u32>,
    /// The replacements, each ended by a NUL.
    replacements: String,
}

/// Bytes that one sequence may become; the longest of Unicode's normal forms has 33.
const LONGEST_REPLACEMENT: usize = 128;

impl Charsmap {
    /// Reads the table and walks it once, so that no lookup can leave it.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let malformed = |why: &str| Error::malformed("precompiled_charsmap", why);
        let (size, rest) = bytes.split_first_chunk().ok_or_else(|| malformed("shorter than its header"))?;
        let size = u32::from_le_bytes(*size) as usize;
        if size == 0 || !size.is_multiple_of(4) || size > rest.len() {
            return Err(malformed("its header claims a size that cannot be"));
        }
        let (units, replacements) = rest.split_at(size);
        let units: Vec<u32> =
            units.chunks_exact(4).map(|unit| u32::from_le_bytes([unit[0], unit[1], unit[2], unit[3]])).collect();
        let replacements = std::str::from_utf8(replacements).map_err(|_| malformed("replacements are not UTF-8"))?;
        let map = Self { units, replacements: replacements.to_owned() };
        if map.is_sound() {
            Ok(map)
        } else {
            Err(malformed("its trie points out of the table, or to a replacement without end"))
        }
    }

    /// The length of the longest sequence that the text starts with, and its replacement.
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

// The bits of a unit, as the darts-clone library packs them.

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
