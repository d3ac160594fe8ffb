use std::collections::HashMap;

use super::char_classes::decode;
use super::merges::Symbols;

/// The symbols of a word before merging.
pub(crate) enum Alphabet {
    /// One symbol per byte.
    Bytes(Box<[u32; 256]>),
    Characters(Characters),
}

/// One symbol per character, and a replacement for characters that have none.
pub(crate) struct Characters {
    /// By code point, for the first code points; `NONE` if there is no symbol.
    first: Box<[u32; FIRST]>,
    others: HashMap<u32, u32>,
    otherwise: Otherwise,
    /// The character that represents a space in the vocabulary, if spaces are replaced.
    space: Option<char>,
}

/// The replacement for a character without a symbol.
pub(crate) enum Otherwise {
    Bytes(Box<[u32; 256]>),
    /// The unknown token; if `fused` is set, several in a row become one.
    Unknown {
        id: u32,
        fused: bool,
    },
}

const FIRST: usize = 0x800;
const NONE: u32 = u32::MAX;

impl Characters {
    pub fn new(symbols: impl Iterator<Item = (char, u32)>, otherwise: Otherwise, space: Option<char>) -> Self {
        let mut characters = Self { first: Box::new([NONE; FIRST]), others: HashMap::new(), otherwise, space };
        for (c, id) in symbols {
            // A space in the text maps to its replacement, never to the vocabulary's own space.
            if space.is_none() || c != ' ' {
                characters.set(c, id);
            }
            if Some(c) == space {
                characters.set(' ', id);
            }
        }
        characters
    }

    fn set(&mut self, c: char, id: u32) {
        match self.first.get_mut(c as usize) {
            Some(known) => *known = id,
            None => {
                self.others.insert(u32::from(c), id);
            }
        }
    }

    fn id(&self, code: usize) -> u32 {
        match self.first.get(code) {
            Some(&id) => id,
            None => self.others.get(&(code as u32)).copied().unwrap_or(NONE),
        }
    }

    fn fill(&self, bytes: &[u8], word: &mut Symbols) {
        let mut was_unknown = false;
        let mut at = 0;
        while at < bytes.len() {
            let (code, length) = match bytes[at] {
                byte @ 0..0x80 => (usize::from(byte), 1),
                _ => decode(bytes, at).unwrap_or((0, 1)),
            };
            let end = at + length;
            let id = self.id(code);
            let is_unknown = id == NONE;
            match &self.otherwise {
                _ if !is_unknown => word.push(id, end),
                Otherwise::Bytes(ids) => {
                    for (place, &byte) in (at + 1..).zip(&bytes[at..end]) {
                        word.push(ids[usize::from(byte)], place);
                    }
                }
                Otherwise::Unknown { fused: true, .. } if was_unknown => {
                    if let Some(last) = word.ends.last_mut() {
                        *last = end as u32;
                    }
                }
                Otherwise::Unknown { id, .. } => word.push(*id, end),
            }
            was_unknown = is_unknown;
            at = end;
        }
    }
}

impl Alphabet {
    /// Fills `word` with the symbols of a word before merging.
    #[inline]
    pub fn fill(&self, bytes: &[u8], word: &mut Symbols) {
        word.clear();
        match self {
            Self::Bytes(ids) => {
                word.ids.extend(bytes.iter().map(|&byte| ids[usize::from(byte)]));
                word.ends.extend(1..=bytes.len() as u32);
            }
            Self::Characters(characters) => characters.fill(bytes, word),
        }
    }

    /// Returns the length of the first unit of a text, which cannot be split.
    pub fn first_length(&self, bytes: &[u8]) -> usize {
        match (self, bytes.first()) {
            (_, None) => 0,
            (Self::Bytes(_), _) | (_, Some(0..0x80)) => 1,
            (Self::Characters(_), _) => decode(bytes, 0).map_or(1, |(_, length)| length),
        }
    }

    /// Returns the character that represents a space in the merged text.
    pub fn space(&self) -> Option<char> {
        match self {
            Self::Bytes(_) => None,
            Self::Characters(characters) => characters.space,
        }
    }
}
