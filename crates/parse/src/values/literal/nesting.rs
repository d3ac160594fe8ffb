//! Lists, dicts, parentheses and arguments: what begins in them, and what separates and closes them.

use super::{Frame, LiteralReader, LiteralState, MAX_DEPTH, Syntax, TakeResult, UNKNOWN, expected, opens_string};
use crate::Why;

impl LiteralReader {
    /// Begins a key of a dict.
    pub(super) fn key(&mut self, character: char, out: &mut String) -> TakeResult<bool> {
        match character {
            '[' | '{' | '(' => expected("a string or a number as a key", character),
            _ => self.begin(character, true, out),
        }
    }

    /// Begins a value or a key.
    pub(super) fn begin(&mut self, character: char, key: bool, out: &mut String) -> TakeResult<bool> {
        let mark = match &self.syntax {
            Syntax::Marked(mark) => mark.character(0),
            _ => None,
        };
        match character {
            '[' | '{' | '(' => return self.open(character, out),
            _ if mark == Some(character) => {
                self.give_between(out);
                self.sink(out).push('"');
                self.at = LiteralState::MarkOpen { seen: 0, key };
            }
            _ if opens_string(character) => {
                self.give_between(out);
                self.open_string(character, false, key, out);
                return Ok(true);
            }
            ':' if key => return expected("a key", character),
            _ if key && mark.is_some() => {
                self.give_between(out);
                self.sink(out).push('"');
                self.at = LiteralState::BareKey;
            }
            '0'..='9' | '-' | '+' | '.' => self.at = LiteralState::Number { key },
            _ if character.is_alphabetic() || character == '_' => self.at = LiteralState::Word { key },
            _ => return expected(if key { "a key" } else { "a literal" }, character),
        }
        Ok(false)
    }

    /// Opens a list, a dict or parentheses.
    pub(super) fn open(&mut self, bracket: char, out: &mut String) -> TakeResult<bool> {
        if self.frames.len() == MAX_DEPTH {
            return Err((0, Why::TooDeep));
        }
        self.give_between(out);
        self.at = LiteralState::Item;
        match bracket {
            '(' => {
                self.held.open += 1;
                self.frames.push(Frame::Round { place: self.held.text.len() });
                self.held.text.push_str(UNKNOWN);
            }
            '{' => {
                self.frames.push(Frame::Dict);
                self.sink(out).push('{');
                self.at = LiteralState::Key;
            }
            _ => {
                self.frames.push(Frame::List);
                self.sink(out).push('[');
            }
        }
        Ok(true)
    }

    /// Reads the text after a value.
    pub(super) fn separator(&mut self, character: char, out: &mut String) -> TakeResult<bool> {
        match (self.frames.last(), character) {
            (None, ',') => {
                self.between.comma = matches!(self.syntax, Syntax::Arguments { any: true });
                self.at = LiteralState::Argument;
            }
            (None, ')') => {
                self.close_arguments(out);
                return Ok(false);
            }
            (None, _) => return expected("`,` or `)` after an argument", character),
            (Some(Frame::Keywords), ',') => {
                self.between.comma = true;
                self.at = LiteralState::Argument;
            }
            (Some(Frame::Dict | Frame::Splat), ',') => {
                self.between.comma = true;
                self.at = LiteralState::Key;
            }
            (Some(frame), ',') => {
                if let Frame::Round { place } = *frame {
                    self.frames.pop();
                    self.frames.push(Frame::Tuple);
                    self.held.text.replace_range(place..=place, "[");
                    self.held.open -= 1;
                    self.held.flush(out);
                }
                self.between.comma = true;
                self.at = LiteralState::Item;
            }
            (Some(_), _) => return self.close(character, out),
        }
        Ok(true)
    }

    /// Closes the innermost list, dict or parentheses.
    pub(super) fn close(&mut self, bracket: char, out: &mut String) -> TakeResult<bool> {
        let Some(frame) = self.frames.last().copied() else { return Ok(false) };
        match (frame, bracket) {
            (Frame::List, ']')
            | (Frame::Dict | Frame::Splat, '}')
            | (Frame::Round { .. } | Frame::Tuple | Frame::Keywords, ')') => {}
            (Frame::List, _) => return expected("`,` or `]`", bracket),
            (Frame::Dict | Frame::Splat, _) => return expected("`,` or `}`", bracket),
            _ => return expected("`,` or `)`", bracket),
        }
        self.between.comma = false;
        self.between.space.clear();
        match frame {
            Frame::List | Frame::Tuple => self.sink(out).push(']'),
            Frame::Dict | Frame::Keywords => self.sink(out).push('}'),
            Frame::Splat => {}
            Frame::Round { place } => {
                if self.at == LiteralState::Item {
                    self.held.text.replace_range(place..=place, "[");
                    self.held.text.push(']');
                }
                self.held.open -= 1;
                self.held.flush(out);
            }
        }
        self.frames.pop();
        self.at = self.behind_value();
        Ok(true)
    }
}
