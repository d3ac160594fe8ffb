use std::collections::HashMap;

use regex_syntax::hir::ClassUnicode;

pub(super) const BLOCK: usize = 128;
const CODE_POINTS: usize = char::MAX as usize + 1;

/// Character classes for a pattern: characters that are in the same sets are in one class.
pub(crate) struct CharClasses {
    ascii: [u8; BLOCK],
    table: CharTable,
    /// For each class, the sets that contain it, as a bit set.
    members: Vec<u128>,
}

/// A byte for each code point.
pub(crate) struct CharTable {
    /// For each block of code points, the index of its block in `bytes`.
    blocks: Vec<u16>,
    bytes: Vec<u8>,
}

impl CharTable {
    /// Returns a table with another byte for each.
    pub fn map(&self, byte: impl Fn(u8) -> u8) -> Self {
        Self { blocks: self.blocks.clone(), bytes: self.bytes.iter().copied().map(byte).collect() }
    }

    #[inline(always)]
    pub fn of(&self, code: usize) -> Option<u8> {
        let block = usize::from(*self.blocks.get(code / BLOCK)?);
        self.bytes.get(block * BLOCK + code % BLOCK).copied()
    }
}

impl CharClasses {
    /// Returns an error if there are more sets or classes than the tables can hold.
    pub fn new<'a>(sets: impl Iterator<Item = &'a ClassUnicode>) -> Result<Self, String> {
        let too_many = || "a pattern with too many sets of characters".to_owned();
        // A bit changes where a set begins or ends.
        let mut changes: Vec<(u32, u128)> = Vec::new();
        for (at, set) in sets.enumerate() {
            if at >= u128::BITS as usize {
                return Err(too_many());
            }
            for range in set.ranges() {
                changes.push((u32::from(range.start()), 1 << at));
                changes.push((u32::from(range.end()) + 1, 1 << at));
            }
        }
        changes.sort_unstable();
        let mut flat = vec![0u8; CODE_POINTS];
        let mut members = Vec::new();
        let mut known: HashMap<u128, u8> = HashMap::new();
        let (mut from, mut now) = (0, 0u128);
        for (at, bits) in changes.into_iter().chain([(CODE_POINTS as u32, 0)]) {
            let at = at as usize;
            if from < at {
                let next = u8::try_from(members.len()).map_err(|_| too_many())?;
                let class = *known.entry(now).or_insert(next);
                if class == next {
                    members.push(now);
                }
                flat[from..at].fill(class);
                from = at;
            }
            now ^= bits;
        }
        let mut blocks = Vec::with_capacity(CODE_POINTS / BLOCK);
        let mut classes = Vec::new();
        let mut seen: HashMap<&[u8], u16> = HashMap::new();
        for block in flat.chunks(BLOCK) {
            let place = seen.entry(block).or_insert_with(|| {
                classes.extend_from_slice(block);
                (classes.len() / BLOCK - 1) as u16
            });
            blocks.push(*place);
        }
        let mut ascii = [0; BLOCK];
        ascii.copy_from_slice(&flat[..BLOCK]);
        Ok(Self { ascii, table: CharTable { blocks, bytes: classes }, members })
    }

    /// Returns the number of classes, which are numbered from 0.
    pub fn count(&self) -> usize {
        self.members.len()
    }

    pub fn is_in(&self, class: usize, set: usize) -> bool {
        self.members.get(class).is_some_and(|members| members >> set & 1 == 1)
    }

    /// Returns the class of each ASCII character.
    pub fn ascii(&self) -> &[u8; BLOCK] {
        &self.ascii
    }

    /// Returns the class of a code point.
    #[inline]
    pub fn of(&self, code: usize) -> Option<usize> {
        self.table.of(code).map(usize::from)
    }

    /// Returns the class of each code point.
    pub fn table(&self) -> &CharTable {
        &self.table
    }

    /// Returns the class and the length of the character at byte `at`.
    #[inline]
    pub fn at(&self, text: &str, at: usize) -> Option<(usize, usize)> {
        let byte = *text.as_bytes().get(at)?;
        if let Some(class) = self.ascii.get(usize::from(byte)) {
            return Some((usize::from(*class), 1));
        }
        let (code, length) = decode(text.as_bytes(), at)?;
        Some((self.of(code)?, length))
    }
}

/// Returns the code point and the length of the multi-byte character at byte `at`.
#[inline]
pub(crate) fn decode(bytes: &[u8], at: usize) -> Option<(usize, usize)> {
    let bits = |ahead: usize| bytes.get(at + ahead).map(|byte| usize::from(byte & 0x3F));
    let first = usize::from(*bytes.get(at)?);
    Some(match first {
        0xF0.. => ((first & 0x07) << 18 | bits(1)? << 12 | bits(2)? << 6 | bits(3)?, 4),
        0xE0.. => ((first & 0x0F) << 12 | bits(1)? << 6 | bits(2)?, 3),
        _ => ((first & 0x1F) << 6 | bits(1)?, 2),
    })
}
