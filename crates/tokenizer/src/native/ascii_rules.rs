//! How the published patterns split ASCII text, as operations on all characters of a block at once.

use std::collections::{BTreeSet, HashSet};

use super::ascii_block::{AsciiBlock, BLOCK};
use super::automaton::{Automaton, DEAD, START};
use super::char_classes::CharClasses;
use super::pattern::RegexPattern;
use super::scanner::Automata;

/// What the published patterns differ in. Letters, digits, white space and other characters (marks)
/// are words, and a word of letters can begin with the character before them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct AsciiRules {
    /// Whether any single character but a line break, letter or digit can begin a word of letters;
    /// otherwise only a space.
    after_any: bool,
    /// Whether a capital begins a word after a small letter.
    cases: bool,
    contractions: Contractions,
    digits: Digits,
    /// Whether digits are split off before all else.
    digits_first: bool,
    tail: Tail,
    /// Whether white space up to its last line break is a word.
    breaks: bool,
}

/// What becomes of `'s`, `'t`, `'re`, `'ve`, `'m`, `'ll` and `'d`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Contractions {
    Nothing,
    /// They are words.
    Words,
    /// They are words, capitals too.
    AnyCaseWords,
    /// They belong to the letters before them, capitals too.
    Endings,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Digits {
    One,
    UpToThree,
    /// All, with a space before them.
    All,
}

/// The characters that follow marks in a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Tail {
    Nothing,
    Breaks,
    BreaksAndSlashes,
}

impl AsciiRules {
    /// Returns the rules that split ASCII text as these patterns do, if there are such rules. A text with
    /// control characters that are no white space is left to the patterns.
    pub fn of(automata: &Automata<'_>) -> Option<Self> {
        let outer: Vec<_> = automata.outer.iter().filter(|outer| reads_ascii(outer, automata.classes)).collect();
        let digits_first = !outer.is_empty();
        let length = |automaton: &Automaton, text: &str| {
            automaton.find(automata.classes, text, 0, text.len()).0.unwrap_or_default()
        };
        let ends = |text| length(automata.inner, text);
        let rules = Self {
            after_any: ends("(a") == 2,
            cases: ends("aA") == 1,
            contractions: match (ends("a's"), ends("'sa"), ends("'Sa")) {
                (3, ..) => Contractions::Endings,
                (_, 2, 2) => Contractions::AnyCaseWords,
                (_, 2, _) => Contractions::Words,
                _ => Contractions::Nothing,
            },
            digits: match outer.first().map_or_else(|| ends("1234"), |outer| length(outer, "1234")) {
                1 => Digits::One,
                3 => Digits::UpToThree,
                _ => Digits::All,
            },
            digits_first,
            tail: match ends("(\n/") {
                3 => Tail::BreaksAndSlashes,
                2 => Tail::Breaks,
                _ => Tail::Nothing,
            },
            breaks: ends("\n\na") == 2,
        };
        // What was asked above is only a guess.
        let (outer_pattern, inner_pattern) = rules.patterns();
        let proved = |automaton: &Automaton, pattern: &str, with_digits: bool| {
            let pattern = RegexPattern::parse(pattern).ok()?;
            let classes = CharClasses::new(pattern.sets.iter()).ok()?;
            let model = Automaton::new(&pattern, &classes, 0).ok()?;
            agree((automaton, automata.classes), (&model, &classes), with_digits).then_some(())
        };
        if let [outer] = outer[..] {
            proved(outer, outer_pattern, true)?;
        }
        (outer.len() < 2).then_some(())?;
        proved(automata.inner, &inner_pattern, !digits_first)?;
        (!digits_first || rules.keep_digits_together(automata)).then_some(())?;
        Some(rules)
    }

    /// Reports whether the digits that are split off together are not split again.
    fn keep_digits_together(self, automata: &Automata<'_>) -> bool {
        let longest = match self.digits {
            Digits::One => 1,
            Digits::UpToThree => 3,
            Digits::All => return false,
        };
        let is_one_word = |digits: &str| {
            let find = |at| automata.inner.find(automata.classes, digits, at, digits.len()).0;
            // Without a match, it is text between matches.
            find(0).map_or_else(|| (1..digits.len()).all(|at| find(at).is_none()), |end| end == digits.len())
        };
        let bound = 10usize.pow(longest);
        (1..=longest as usize).all(|length| {
            (0..bound).map(|number| format!("{number:03}")).all(|digits| is_one_word(&digits[3 - length..]))
        })
    }

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
                    all.push(Self { after_any, cases, contractions, digits, digits_first, tail, breaks });
                }
            }
        }
        all
    }

    #[cfg(test)]
    pub fn digits_first(self) -> bool {
        self.digits_first
    }

    /// Returns the patterns with these rules: one that splits off digits, and one for the rest.
    pub fn patterns(self) -> (&'static str, String) {
        let contractions = "'s|'t|'re|'ve|'m|'ll|'d";
        let before = if self.after_any { r"[^\r\nA-Za-z0-9]?" } else { " ?" };
        let mut inner = match self.contractions {
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
        inner += r"| ?[^\sA-Za-z0-9]+";
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
    /// out, as is what depends on later text or on characters that are not ASCII; and whether that is
    /// all of the `rest` of the text.
    #[inline(always)]
    pub fn word_starts(self, block: &AsciiBlock, bytes: &[u8; BLOCK], rest: usize) -> (u64, bool) {
        let known = block.others.trailing_zeros() as usize;
        self.starts_in(block, bytes, known.min(rest), known >= rest)
    }

    /// Looks only at the first `count` characters, all of them ASCII.
    #[inline(always)]
    fn starts_in(self, block: &AsciiBlock, bytes: &[u8; BLOCK], count: usize, is_end: bool) -> (u64, bool) {
        let visible = first_bits(count);
        let [letters, digits, blanks] = [block.letters, block.digits, block.blanks].map(|mask| mask & visible);
        let [breaks, spaces] = [block.breaks, block.spaces].map(|mask| mask & visible);
        let marks = visible & !(letters | digits | blanks);
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
        let joined = if self.after_any { blanks & !breaks | lone_marks } else { spaces };
        let mut starts = mark_starts | letters & !(letters << 1) & !(joined << 1) | blanks & !(blanks << 1);
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
        let others = visible & !block.blanks & !if self.digits_first { digits } else { 0 };
        let mut last_blanks = blanks & others >> 1;
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
        let certain = self.certain([letters, digits, marks, visible & block.blanks], block, count);
        (starts & certain & !1, false)
    }

    /// Looks only at the characters before a slash in a tail.
    #[cold]
    fn before_slash(self, block: &AsciiBlock, bytes: &[u8; BLOCK], count: usize) -> (u64, bool) {
        self.starts_in(block, bytes, count, false)
    }

    /// Returns the bits of the places where more text does not matter: up to the last run of
    /// characters of a kind.
    #[inline(always)]
    fn certain(self, kinds: [u64; 4], block: &AsciiBlock, count: usize) -> u64 {
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
fn after_last_breaks(others: u64, breaks: u64) -> u64 {
    let mut after = others & breaks << 1;
    let mut more = others.wrapping_add(after) & !others & breaks;
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

/// Returns the ASCII characters of which blocks know the kind, each with its class.
fn known_characters(classes: &CharClasses) -> impl Iterator<Item = (u8, usize)> + '_ {
    let known = |byte: &u8| matches!(byte, 9..=13 | b' '..=b'~');
    (0..128).filter(known).map(|byte| (byte, usize::from(classes.ascii()[usize::from(byte)])))
}

fn reads_ascii(automaton: &Automaton, classes: &CharClasses) -> bool {
    let mut states = std::iter::once(START).chain(automaton.later_states());
    states.any(|state| known_characters(classes).any(|(_, class)| automaton.step(state, class).next != DEAD))
}

/// Reports whether two automata do the same with all text of known characters, with or without
/// digits.
fn agree(left: (&Automaton, &CharClasses), right: (&Automaton, &CharClasses), with_digits: bool) -> bool {
    let mut pairs = BTreeSet::from([(left.0.end(), right.0.end())]);
    for ((byte, class), (_, other)) in known_characters(left.1).zip(known_characters(right.1)) {
        if with_digits || !byte.is_ascii_digit() {
            pairs.insert((class, other));
        }
    }
    let mut seen = HashSet::from([(START, START)]);
    let mut open = vec![(START, START)];
    while let Some((state, other)) = open.pop() {
        for &(class, other_class) in &pairs {
            let (step, other_step) = (left.0.step(state, class), right.0.step(other, other_class));
            if step.matched != other_step.matched || (step.next == DEAD) != (other_step.next == DEAD) {
                return false;
            }
            let next = (step.next, other_step.next);
            if step.next != DEAD && seen.insert(next) {
                open.push(next);
            }
        }
    }
    true
}
