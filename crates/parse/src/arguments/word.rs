//! The word for the kind of a value, beside its key.

use super::{ArgumentState, Arguments, Callee, Key, take_word};
use crate::cursor::Cursor;
use crate::marks::Here;
use crate::reply::{KindWord, List};
use crate::values::{ReaderState, Types};
use crate::{Malformed, Why};

impl Arguments {
    /// Reads the word for the kind of the value.
    pub(super) fn word(
        &mut self,
        mut key: Key,
        kind: Option<usize>,
        callee: &Callee<'_>,
        cursor: &mut Cursor<'_, '_>,
    ) -> Option<ReaderState> {
        if key.word.is_empty() {
            cursor.skip_space();
        }
        let stop = word_of(callee.list, kind).and_then(|word| word.after.byte(0));
        let end = cursor.rest().bytes().position(|byte| stop.is_some_and(|(stop, _)| stop == byte));
        if let Some(state) = take_word(&mut key.word, end, callee, cursor) {
            return Some(state);
        }
        match end {
            None => {
                self.at = ArgumentState::Word(key, kind);
                Some(ReaderState::More)
            }
            Some(_) => {
                self.at = ArgumentState::WordEnd(key, kind);
                None
            }
        }
    }

    pub(super) fn word_end(
        &mut self,
        key: Key,
        kind: Option<usize>,
        callee: &Callee<'_>,
        cursor: &mut Cursor<'_, '_>,
    ) -> Option<ReaderState> {
        let word = word_of(callee.list, kind)?;
        match (cursor.marker_here(&word.afters), kind) {
            (Here::Open, _) => {
                self.at = ArgumentState::WordEnd(key, kind);
                Some(ReaderState::More)
            }
            (Here::Nothing, _) => Some(ReaderState::Bad(Why::Expected(format!("`{}`", word.after.text())))),
            (Here::Mark(end, _), kind) => {
                let found = key.word.trim();
                if !found.is_empty() && Types::of_word(&word.words, found).is_none() {
                    let span = cursor.offset().saturating_sub(key.word.len() as u64)..cursor.offset();
                    let why = Why::Expected(format!("the name of a type, found `{found}`"));
                    self.report = Some(Malformed { span, why });
                }
                cursor.at = end;
                match kind {
                    Some(number) => self.begin_value(key, number, callee),
                    None => self.at = ArgumentState::Key(key),
                }
                None
            }
        }
    }
}

/// Returns the word for the kind of a value, which follows the key of this kind of argument or
/// precedes any key.
fn word_of(list: &List, kind: Option<usize>) -> Option<&KindWord> {
    match kind {
        Some(number) => list.kinds.get(number)?.word.as_ref(),
        None => list.word.as_ref(),
    }
}
