//! Patterns as one table that finds the ends of words in a single pass.
//!
//! An automaton finds one match and starts again where it ended. Nearly always, that is where it
//! stopped reading, or there is only a run of one character between. The table has the steps of
//! starting again in it, so that each character is read once, and what to do does not depend on
//! the text. Where more has to be read again, it says so, and [`Automata::next_word`] reads it.

use std::collections::HashMap;

use super::automaton::{Automaton, DEAD, START, TooHard};
use super::char_classes::{CharClasses, decode};

/// The most cells of a table; those of published tokenizers have a few thousand.
const MOST_CELLS: usize = 1 << 15;

/// The table of all states.
pub(crate) struct Scanner {
    /// `[state][column]`: the row of the next state, and the flags. No row and column are beyond
    /// its length.
    cells: Box<[u32; CELLS]>,
    /// The state of each row.
    states: Vec<ScannerState>,
    rows: HashMap<ScannerState, u32>,
    /// The number of character classes. ASCII characters have the columns up to it, others the
    /// next ones, and the end of the text the next. The last is for the later bytes of a character,
    /// which change nothing.
    classes: usize,
    /// The column of each byte, or `MIXED` if the next bytes tell.
    columns: [u8; 256],
    width: usize,
    /// For the columns of two neighboring characters, the row before the second if a word begins
    /// there whatever precedes them; otherwise `NO_ROW`.
    word_starts: Vec<u32>,
}

const CELLS: usize = 2 * MOST_CELLS;
/// The bytes whose columns are read together.
const CHUNK: usize = 16;

/// A word ends before the character.
pub(super) const END: u32 = 1 << 31;
/// A word ends before the character before it, which is one byte.
pub(super) const BACK: u32 = 1 << 30;
/// A word ends at the mark.
pub(super) const AT_MARK: u32 = 1 << 29;
/// The mark is set before the character.
pub(super) const SET_MARK: u32 = 1 << 28;
/// The text has to be read again from the last end of a word.
pub(super) const STOP: u32 = 1 << 27;
/// The bits that hold a row.
pub(super) const ROW: u32 = MOST_CELLS as u32 - 1;
const NO_ROW: u32 = u32::MAX;
/// Not the column of a byte.
const MIXED: u8 = u8::MAX;

/// The states of all patterns.
#[derive(Clone, PartialEq, Eq, Hash)]
struct ScannerState {
    outer: Vec<Outer>,
    inner: u32,
    backlog: Backlog,
}

/// The state of a pattern that splits the text before the last pattern does.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Outer {
    /// At the start of a part.
    Begin,
    /// In text between its matches.
    Gap,
    /// In a match.
    Match(u32),
}

/// The characters behind the last end of a match. They are read again if no longer match is found.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Backlog {
    /// There is no match, or the next character ends one in any case.
    Nothing,
    /// There is no match, and one character of the word was read.
    First,
    /// The word is text between matches, and at most one character was read as the start of one.
    Gap,
    /// One ASCII character of this class.
    One(usize),
    /// Two or more of them.
    Run(usize),
    Unknown,
}

/// A character, or the end of a text.
#[derive(Clone, Copy)]
enum NextCharacter {
    Character { class: usize, is_ascii: bool },
    End,
}

/// What an input leads to.
struct Effect {
    flags: u32,
    inner: u32,
    backlog: Backlog,
}

/// The automata of the patterns.
pub(crate) struct Automata<'a> {
    pub outer: Vec<&'a Automaton>,
    pub inner: &'a Automaton,
    pub classes: &'a CharClasses,
}

impl Scanner {
    /// Builds the table, or returns `None` if it would be too large or if a pattern before the last
    /// has to look ahead.
    pub fn new(automata: &Automata<'_>) -> Option<Self> {
        let looks_ahead = |outer: &&Automaton| outer.later_states().any(|state| !outer.always_matches(state));
        if automata.outer.iter().any(looks_ahead) {
            return None;
        }
        let classes = automata.classes.count();
        let width = 2 * classes + 2;
        if width > usize::from(MIXED) {
            return None;
        }
        let mut scanner = Self {
            cells: vec![0; CELLS].try_into().ok()?,
            states: Vec::new(),
            rows: HashMap::new(),
            classes,
            columns: std::array::from_fn(|byte| column(automata.classes, byte).unwrap_or(MIXED)),
            width,
            word_starts: Vec::new(),
        };
        scanner.row(ScannerState::at_start(vec![Outer::Begin; automata.outer.len()]));
        let mut filled = 0;
        while let Some(state) = scanner.states.get(filled / width).cloned() {
            if filled + width > MOST_CELLS {
                return None;
            }
            // Reading can start again in any state of the outer patterns.
            scanner.row(ScannerState::at_start(state.outer.clone()));
            scanner.cells[filled + width - 1] = filled as u32;
            for column in 0..width - 1 {
                let effect = scanner.input(column).and_then(|input| automata.advance(&state, input));
                scanner.cells[filled + column] = match effect {
                    Some((flags, next)) => flags | scanner.row(next),
                    None => STOP,
                };
            }
            filled += width;
        }
        scanner.word_starts = scanner.find_word_starts();
        Some(scanner)
    }

    fn input(&self, column: usize) -> Option<NextCharacter> {
        let is_ascii = column < self.classes;
        match column {
            _ if column < 2 * self.classes => Some(NextCharacter::Character { class: column % self.classes, is_ascii }),
            _ if column == self.end_column() => Some(NextCharacter::End),
            _ => None,
        }
    }

    fn row(&mut self, state: ScannerState) -> u32 {
        let next = (self.states.len() * self.width) as u32;
        *self.rows.entry(state).or_insert_with_key(|state| {
            self.states.push(state.clone());
            next
        })
    }

    fn find_word_starts(&self) -> Vec<u32> {
        let columns = self.end_column();
        let mut word_starts = vec![NO_ROW; columns * columns];
        for left in 0..columns {
            let rows = (0..self.states.len()).map(|state| self.cells[state * self.width + left]);
            let rows: Vec<u32> = rows.filter(|cell| cell & STOP == 0).map(|cell| cell & ROW).collect();
            let ends_alike = rows.iter().all(|&row| self.cells[row as usize + columns] & !ROW == END);
            for right in (0..columns).filter(|_| ends_alike) {
                let mut cells = rows.iter().map(|&row| self.cells[row as usize + right]);
                if let Some(first) = cells.next()
                    && first & !ROW == END
                    && cells.all(|cell| cell == first)
                    && self.cells[right] & (STOP | ROW) == first & ROW
                {
                    word_starts[left * columns + right] = rows[0];
                }
            }
        }
        word_starts
    }

    /// Returns the first place between two positions at which a word begins, whatever precedes it, and
    /// the row before it. Such a place may also be the end of a text, or its start.
    pub fn find_word_start(&self, classes: &CharClasses, text: &str, from: usize, to: usize) -> Option<(usize, u32)> {
        let mut at = (0..from).rev().find(|&at| text.is_char_boundary(at))?;
        let mut left = None;
        while at < to {
            let (right, length) = self.read_column(classes, text, at)?;
            if let Some(left) = left
                && let Some(&row) = self.word_starts.get(left * self.end_column() + right)
                && row != NO_ROW
                && at >= from
            {
                return Some((at, row));
            }
            left = Some(right);
            at += length;
        }
        None
    }

    /// Writes the columns of the bytes from `start` on.
    pub fn fill_columns(&self, classes: &CharClasses, text: &str, start: usize, columns: &mut [u8]) {
        let bytes = text.as_bytes().get(start..).unwrap_or_default();
        for (column, &byte) in columns.iter_mut().zip(bytes) {
            *column = self.columns[usize::from(byte)];
        }
        for (chunk, start) in columns.chunks_mut(CHUNK).zip((start..).step_by(CHUNK)) {
            let mut mixed = chunk.iter().rev().fold(0u64, |bits, &column| bits << 1 | u64::from(column == MIXED));
            while mixed != 0 {
                let at = mixed.trailing_zeros() as usize;
                if let Some((column, _)) = self.read_column(classes, text, start + at) {
                    chunk[at] = column as u8;
                }
                mixed &= mixed - 1;
            }
        }
    }

    /// Returns the column of a byte, and the length of the character that begins with it.
    #[inline]
    pub fn read_column(&self, classes: &CharClasses, text: &str, at: usize) -> Option<(usize, usize)> {
        match *text.as_bytes().get(at)? {
            byte @ 0..0x80 => Some((usize::from(self.columns[usize::from(byte)]), 1)),
            0x80..0xC0 => Some((self.width - 1, 1)),
            _ => {
                let (code, length) = decode(text.as_bytes(), at)?;
                Some((self.classes + classes.of(code)?, length))
            }
        }
    }

    /// Returns the cell for a column.
    #[inline(always)]
    pub fn cell(&self, row: u32, column: usize) -> u32 {
        self.cells[((row & ROW) as usize + column) % CELLS]
    }

    pub fn end_column(&self) -> usize {
        2 * self.classes
    }

    /// Returns the row at the start of a text.
    pub fn first_row(&self) -> u32 {
        0
    }

    /// Returns the states of the outer patterns in a row.
    pub fn outer(&self, row: u32) -> &[Outer] {
        self.states.get(row as usize / self.width).map_or(&[], |state| &state.outer)
    }

    /// Returns the row at the start of a word.
    pub fn restart(&self, outer: &[Outer]) -> u32 {
        self.rows.get(&ScannerState::at_start(outer.to_vec())).copied().unwrap_or_default()
    }
}

/// Returns the column of a byte, if it tells.
fn column(classes: &CharClasses, byte: usize) -> Option<u8> {
    let all = match byte {
        0..0x80 => return Some(classes.ascii()[byte]),
        0x80..0xC0 => return Some(2 * classes.count() as u8 + 1),
        0xC2..=0xDF => (byte & 0x1F) << 6..((byte & 0x1F) + 1) << 6,
        // Most Chinese characters are among those with these bytes.
        0xE1..=0xEF => (byte & 0x0F) << 12..((byte & 0x0F) + 1) << 12,
        _ => return None,
    };
    let class = classes.of(all.start)?;
    all.into_iter().all(|code| classes.of(code) == Some(class)).then_some((classes.count() + class) as u8)
}

impl ScannerState {
    fn at_start(outer: Vec<Outer>) -> Self {
        Self { outer, inner: START, backlog: Backlog::Nothing }
    }
}

impl Automata<'_> {
    /// Returns the flags and the next state, or `None` if the text has to be read again.
    fn advance(&self, state: &ScannerState, input: NextCharacter) -> Option<(u32, ScannerState)> {
        let mut outer = state.outer.clone();
        let is_edge = match input {
            NextCharacter::Character { class, .. } => self.advance_outer(&mut outer, class),
            NextCharacter::End => false,
        };
        let is_word_start = state.inner == START && state.backlog == Backlog::Nothing;
        let mut effect = if is_edge && !is_word_start {
            let Effect { flags, .. } = self.advance_inner(state.inner, state.backlog, NextCharacter::End)?;
            Effect { flags, ..self.restarted(input)? }
        } else {
            self.advance_inner(state.inner, state.backlog, input)?
        };
        if outer != state.outer || is_edge {
            // Whoever reads a character again has to know the outer states before it.
            effect.backlog = match effect.backlog {
                Backlog::One(_) | Backlog::Run(_) => Backlog::Unknown,
                backlog => backlog,
            };
        }
        let always_matches = self.inner.always_matches(effect.inner);
        let backlog = if always_matches { Backlog::Nothing } else { effect.backlog };
        Some((effect.flags, ScannerState { outer, inner: effect.inner, backlog }))
    }

    /// Advances the outer patterns. Returns whether a part begins before the character.
    pub fn advance_outer(&self, states: &mut [Outer], class: usize) -> bool {
        let mut is_edge = false;
        for (automaton, state) in self.outer.iter().zip(states) {
            if is_edge {
                *state = Outer::Begin;
            }
            let was = *state;
            let in_match = match was {
                Outer::Match(state) => automaton.step(state, class).next,
                Outer::Begin | Outer::Gap => DEAD,
            };
            let next = if in_match == DEAD { automaton.step(START, class).next } else { in_match };
            *state = if next == DEAD { Outer::Gap } else { Outer::Match(next) };
            is_edge |= match was {
                Outer::Begin => false,
                Outer::Gap => next != DEAD,
                Outer::Match(_) => in_match == DEAD,
            };
        }
        is_edge
    }

    fn advance_inner(&self, inner: u32, backlog: Backlog, input: NextCharacter) -> Option<Effect> {
        let class = match input {
            NextCharacter::Character { class, .. } => class,
            NextCharacter::End => self.inner.end(),
        };
        let step = self.inner.step(inner, class);
        if step.next != DEAD {
            if backlog == Backlog::Gap {
                // A longer start of a match may be one, or more text between matches.
                return if inner == START { self.after_gap(class) } else { None };
            }
            let backlog = match (step.matched, input, backlog) {
                _ if inner == START => Backlog::First,
                (true, NextCharacter::Character { class, is_ascii: true }, _) => Backlog::One(class),
                (true, ..) => Backlog::Unknown,
                (false, _, Backlog::Nothing | Backlog::First) => Backlog::Nothing,
                (
                    false,
                    NextCharacter::Character { class, is_ascii: true },
                    Backlog::One(same) | Backlog::Run(same),
                ) if same == class => Backlog::Run(class),
                (false, ..) => Backlog::Unknown,
            };
            let flags = if step.matched { SET_MARK } else { 0 };
            return Some(Effect { flags, inner: step.next, backlog });
        }
        if step.matched {
            if backlog == Backlog::Gap {
                // Two words end: the text between matches, and this match.
                return None;
            }
            let restarted = self.restarted(input)?;
            return Some(Effect { flags: END | restarted.flags, ..restarted });
        }
        let (flag, again) = match (backlog, input) {
            (Backlog::First | Backlog::Gap, NextCharacter::End) => {
                return Some(Effect { flags: END, inner: START, backlog: Backlog::Nothing });
            }
            (Backlog::First | Backlog::Gap, _) => return self.after_gap(class),
            // The first character of the word is no match.
            (Backlog::Nothing, _) if inner == START => return self.after_gap(class),
            (Backlog::Nothing | Backlog::Unknown, _) => return None,
            (Backlog::One(class), _) => (BACK, self.restarted(NextCharacter::Character { class, is_ascii: true })?),
            (Backlog::Run(class), _) => (AT_MARK, self.after_run(class)?),
        };
        let effect = self.advance_inner(again.inner, again.backlog, input)?;
        // The mark is where the character before this one begins, but was not set there.
        if matches!(effect.backlog, Backlog::Run(_)) || effect.flags & flag != 0 {
            return None;
        }
        Some(Effect { flags: flag | effect.flags, ..effect })
    }

    /// Returns the effect of an input at the start of a word.
    fn restarted(&self, input: NextCharacter) -> Option<Effect> {
        let NextCharacter::Character { class, .. } = input else {
            return Some(Effect { flags: 0, inner: START, backlog: Backlog::Nothing });
        };
        let step = self.inner.step(START, class);
        (step.next != DEAD).then_some(Effect { flags: 0, inner: step.next, backlog: Backlog::First })
    }

    /// Returns the effect of a character behind text between matches.
    fn after_gap(&self, class: usize) -> Option<Effect> {
        let next = self.inner.step(START, class).next;
        Some(match next {
            DEAD => Effect { flags: 0, inner: START, backlog: Backlog::Gap },
            // Only a match that is certain ends the word before it.
            _ if self.inner.always_matches(next) => Effect { flags: END, inner: next, backlog: Backlog::Nothing },
            _ => Effect { flags: 0, inner: next, backlog: Backlog::Gap },
        })
    }

    /// Returns the state after two or more characters of a class from the start of a word, if it
    /// does not depend on their number.
    fn after_run(&self, class: usize) -> Option<Effect> {
        let first = self.inner.step(START, class);
        let second = self.inner.step(first.next, class);
        let third = self.inner.step(second.next, class);
        if first.next == DEAD || second.next == DEAD || second != third {
            return None;
        }
        let backlog = if second.matched { Backlog::One(class) } else { Backlog::Nothing };
        Some(Effect { flags: 0, inner: second.next, backlog })
    }

    /// Returns the end of the word that starts at `start`, in a text that ends at `end`, and how far
    /// the search looked. `outer` are the states before the word, and then those after it.
    pub fn next_word(
        &self,
        text: &str,
        start: usize,
        end: usize,
        outer: &mut Vec<Outer>,
        patience: &mut usize,
    ) -> Result<(usize, usize), TooHard> {
        let (found, looked) = self.find(text, start, end, outer);
        if let Some(at) = found {
            return Ok((at, looked));
        }
        // Text between matches, up to the next match or the end of the part.
        let (mut at, mut looked) = (start, looked);
        while let Some((class, length)) = self.classes.at(text, at)
            && at < end
        {
            let before = outer.clone();
            let is_edge = self.advance_outer(outer, class);
            if at > start {
                let mut ahead = before.clone();
                let (found, looks) = self.find(text, at, end, &mut ahead);
                // A match may be sought in vain at each place.
                *patience = patience.checked_sub(looks - at).ok_or(TooHard)?;
                looked = looked.max(looks);
                if is_edge || found.is_some() {
                    *outer = before;
                    break;
                }
            }
            at += length;
        }
        Ok((at.min(end), looked))
    }

    fn find(&self, text: &str, start: usize, end: usize, outer: &mut Vec<Outer>) -> (Option<usize>, usize) {
        let mut found = None;
        let (mut inner, mut at) = (START, start);
        let mut states = outer.clone();
        loop {
            let before = if self.outer.is_empty() { Vec::new() } else { states.clone() };
            let (class, length) = match self.classes.at(text, at) {
                Some((class, length)) if at < end && !(self.advance_outer(&mut states, class) && at > start) => {
                    (class, length)
                }
                _ => (self.inner.end(), 0),
            };
            let step = self.inner.step(inner, class);
            if step.matched {
                found = Some(at);
                *outer = before;
            }
            inner = step.next;
            if inner == DEAD || length == 0 {
                return (found, at);
            }
            at += length;
        }
    }
}
