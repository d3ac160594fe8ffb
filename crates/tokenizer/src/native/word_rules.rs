//! How the published patterns split ASCII text, as operations on all characters of a block at once.

use super::char_block::{BLOCK, CharBlock};

/// What the published patterns differ in. Letters, digits, white space and other characters (marks)
/// are words, and a word of letters can begin with the character before them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct WordRules {
    /// Whether any single character but a line break, letter or digit can begin a word of letters;
    /// otherwise only a space.
    pub after_any: bool,
    /// Whether a capital begins a word after a small letter.
    pub cases: bool,
    pub contractions: Contractions,
    pub digits: Digits,
    /// Whether digits, and islands, are split off before all else.
    pub digits_first: bool,
    pub islands_first: bool,
    pub tail: Tail,
    /// Whether white space up to its last line break is a word.
    pub breaks: bool,
}

/// What becomes of `'s`, `'t`, `'re`, `'ve`, `'m`, `'ll` and `'d`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Contractions {
    Nothing,
    /// They are words.
    Words,
    /// They are words, capitals too.
    AnyCaseWords,
    /// They belong to the letters before them, capitals too.
    Endings,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Digits {
    One,
    UpToThree,
    /// All, with a space before them.
    All,
}

/// The characters that follow marks in a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Tail {
    Nothing,
    Breaks,
    BreaksAndSlashes,
}

/// The pattern of islands.
pub(super) const ISLANDS: &str = "\u{E000}+";
/// What stands for islands and for far marks in patterns.
pub(super) const ISLAND_CHAR: char = '\u{E000}';
pub(super) const FAR_MARK_CHAR: char = '\u{E001}';

impl WordRules {
    /// Returns all rules that there can be.
    #[cfg(test)]
    pub fn all() -> Vec<Self> {
        use Contractions::{AnyCaseWords, Endings, Nothing, Words};
        let mut all = Vec::new();
        for (bits, contractions) in (0..16).flat_map(|bits| [Nothing, Words, AnyCaseWords, Endings].map(|c| (bits, c)))
        {
            let [after_any, cases, digits_first, breaks] = [1, 2, 4, 8].map(|bit| bits & bit != 0);
            for digits in [Digits::One, Digits::UpToThree, Digits::All] {
                // All digits are not split off first.
                if digits_first && digits == Digits::All {
                    continue;
                }
                for tail in [Tail::Nothing, Tail::Breaks, Tail::BreaksAndSlashes] {
                    let islands_first = false;
                    all.push(Self {
                        after_any,
                        cases,
                        contractions,
                        digits,
                        digits_first,
                        islands_first,
                        tail,
                        breaks,
                    });
                }
            }
        }
        all
    }

    /// Returns the patterns with these rules: one that splits off digits, and one for the rest. Two
    /// characters stand for islands and for far marks.
    pub fn patterns(self) -> (&'static str, String) {
        let contractions = "'s|'t|'re|'ve|'m|'ll|'d";
        let before = if self.after_any { "[^\\r\\nA-Za-z0-9\u{E000}\u{E001}]?" } else { " ?" };
        let mut inner = ISLANDS.to_owned() + "|";
        inner += &match self.contractions {
            Contractions::Words => format!("{contractions}|"),
            Contractions::AnyCaseWords => format!("(?i:{contractions})|"),
            Contractions::Nothing | Contractions::Endings => String::new(),
        };
        let ending = match self.contractions {
            Contractions::Endings => format!("(?i:{contractions})?"),
            _ => String::new(),
        };
        inner += &match self.cases {
            true => format!("{before}[A-Z]*[a-z]+{ending}|{before}[A-Z]+[a-z]*{ending}"),
            false => format!("{before}[A-Za-z]+{ending}"),
        };
        let digits = match self.digits {
            Digits::One => "[0-9]",
            Digits::UpToThree => "[0-9]{1,3}",
            Digits::All => " ?[0-9]+",
        };
        if !self.digits_first {
            inner = inner + "|" + digits;
        }
        inner += "| ?[^\\sA-Za-z0-9\u{E000}]+";
        inner += match self.tail {
            Tail::Nothing => "",
            Tail::Breaks => r"[\r\n]*",
            Tail::BreaksAndSlashes => r"[\r\n/]*",
        };
        inner += if self.breaks { r"|\s*[\r\n]+" } else { "" };
        inner += r"|\s+(?!\S)|\s+";
        (digits, inner)
    }

    /// Returns where words begin in a block, of which the first character begins a word and is left
    /// out, as is what depends on later text or on characters that are not known; and whether that is
    /// all of the `rest` of the text.
    #[inline(always)]
    pub fn word_starts(self, block: &CharBlock, bytes: &[u8; BLOCK], rest: usize) -> (u64, bool) {
        let known = block.others.trailing_zeros() as usize;
        self.starts_in(block, bytes, known.min(rest), known >= rest)
    }

    /// Looks only at the first `count` characters, all of them known.
    #[inline(always)]
    fn starts_in(self, block: &CharBlock, bytes: &[u8; BLOCK], count: usize, is_end: bool) -> (u64, bool) {
        let visible = first_bits(count);
        let [letters, digits, blanks] = [block.letters, block.digits, block.blanks].map(|mask| mask & visible);
        let [breaks, spaces] = [block.breaks, block.spaces].map(|mask| mask & visible);
        let islands = block.islands & visible;
        let marks = visible & !(letters | digits | blanks | islands);
        // Adding the first bit of a run clears the run, and sets the bit behind it.
        let in_tail = match self.tail {
            Tail::Nothing => 0,
            Tail::Breaks | Tail::BreaksAndSlashes => breaks & !breaks.wrapping_add(breaks & marks << 1),
        };
        if self.tail == Tail::BreaksAndSlashes {
            let slashes = block.slashes & marks & in_tail << 1;
            if slashes != 0 {
                return self.before_slash(block, bytes, slashes.trailing_zeros() as usize);
            }
        }

        let mark_starts = marks & !(marks << 1) & !(spaces << 1);
        let lone_marks = mark_starts & !(marks >> 1);
        let blanks = blanks & !in_tail;
        let joined = if self.after_any { blanks & !breaks | lone_marks & !block.far_marks } else { spaces };
        let mut starts = mark_starts | letters & !(letters << 1) & !(joined << 1) | blanks & !(blanks << 1);
        starts |= islands & !(islands << 1);
        if self.cases {
            starts |= block.capitals & (letters & !block.capitals) << 1;
        }
        let digit_starts = digits & !(digits << 1);
        match self.digits {
            Digits::One => starts |= digits,
            Digits::All => starts |= digit_starts & !(spaces << 1),
            Digits::UpToThree => {
                let after_three = digits & digits << 1 & digits << 2 & digits << 3;
                let mut next = digit_starts;
                while next != 0 {
                    starts |= next;
                    next = next << 3 & after_three;
                }
            }
        }
        let first = |kind, is_first| if is_first { kind } else { 0 };
        let split_off = first(digits, self.digits_first) | first(islands, self.islands_first);
        let mut last_blanks = blanks & (visible & !block.blanks & !split_off) >> 1;
        if self.breaks {
            last_blanks &= !breaks;
            starts |= after_last_breaks(blanks & !breaks, breaks & !in_tail);
        }
        starts |= last_blanks;

        let apostrophes = block.apostrophes & lone_marks & letters >> 1;
        if apostrophes != 0 {
            match self.contractions {
                Contractions::Nothing => {}
                Contractions::Words | Contractions::AnyCaseWords => {
                    starts = self.split_contractions(starts, apostrophes, bytes, count);
                }
                Contractions::Endings => {
                    starts = self.join_contractions(starts, apostrophes & letters << 1, bytes, count);
                }
            }
        }
        if is_end {
            return (starts & visible & !1, true);
        }
        let certain = self.certain([letters, digits, marks, visible & block.blanks, islands], block, count);
        (starts & certain & !1, false)
    }

    /// Looks only at the characters before a slash in a tail.
    #[cold]
    fn before_slash(self, block: &CharBlock, bytes: &[u8; BLOCK], count: usize) -> (u64, bool) {
        self.starts_in(block, bytes, count, false)
    }

    /// Returns the bits of the places where more text does not matter: up to the last run of
    /// characters of a kind.
    #[inline(always)]
    fn certain(self, kinds: [u64; 5], block: &CharBlock, count: usize) -> u64 {
        let visible = first_bits(count);
        let Some(last) = count.checked_sub(1) else { return 0 };
        let run = kinds.into_iter().find(|kind| kind >> last & 1 == 1).unwrap_or_default();
        let start = u64::BITS - (visible & !run).leading_zeros();
        let certain = first_bits(start as usize + 1);
        // Whether a word ends before an apostrophe, or behind it, depends on the next two letters.
        let open = block.apostrophes & visible & !first_bits(count.saturating_sub(2));
        match self.contractions {
            Contractions::Nothing => certain,
            Contractions::Words | Contractions::AnyCaseWords => {
                certain & first_bits(open.trailing_zeros() as usize + 1)
            }
            Contractions::Endings => certain & first_bits((open & kinds[0] << 1).trailing_zeros() as usize),
        }
    }

    /// Begins a word after each contraction.
    fn split_contractions(self, mut starts: u64, mut apostrophes: u64, bytes: &[u8; BLOCK], count: usize) -> u64 {
        while apostrophes != 0 {
            let at = apostrophes.trailing_zeros() as usize;
            apostrophes &= apostrophes - 1;
            let length = contraction(bytes, at, count, self.contractions != Contractions::Words);
            if length > 0 {
                starts = starts & !first_bits(at + length) | starts & first_bits(at + 1);
                starts |= bit(at + length);
            }
        }
        starts
    }

    /// Joins each contraction with the word before it.
    fn join_contractions(self, mut starts: u64, mut apostrophes: u64, bytes: &[u8; BLOCK], count: usize) -> u64 {
        let mut after = 0;
        while apostrophes != 0 {
            let at = apostrophes.trailing_zeros() as usize;
            apostrophes &= apostrophes - 1;
            let length = contraction(bytes, at, count, true);
            // A word has one contraction.
            if length > 0 && at != after {
                starts = starts & !first_bits(at + length) | starts & first_bits(at);
                after = at + length;
                starts |= bit(after);
            }
        }
        starts
    }
}

/// Returns the length of the contraction at an apostrophe, or 0.
fn contraction(bytes: &[u8; BLOCK], at: usize, count: usize, any_case: bool) -> usize {
    let letter = |ahead: usize| {
        let byte = bytes[..count].get(at + ahead).copied().unwrap_or_default();
        if any_case { byte.to_ascii_lowercase() } else { byte }
    };
    match (letter(1), letter(2)) {
        (b's' | b't' | b'm' | b'd', _) => 2,
        (b'r' | b'v', b'e') | (b'l', b'l') => 3,
        _ => 0,
    }
}

/// Returns where white space goes on after its last line breaks.
#[inline(always)]
fn after_last_breaks(blanks: u64, breaks: u64) -> u64 {
    let mut after = blanks & breaks << 1;
    let mut more = blanks.wrapping_add(after) & !blanks & breaks;
    while more != 0 {
        let before = after & (more & more.wrapping_neg()).wrapping_sub(1);
        after ^= before.checked_ilog2().map_or(0, |last| 1 << last);
        more &= more - 1;
    }
    after
}

#[inline(always)]
fn first_bits(count: usize) -> u64 {
    1u64.checked_shl(count as u32).unwrap_or_default().wrapping_sub(1)
}

#[inline(always)]
fn bit(at: usize) -> u64 {
    1u64.checked_shl(at as u32).unwrap_or_default()
}
