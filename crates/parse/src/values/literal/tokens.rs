//! Names, words, numbers and strings of a literal.

use super::super::nest::MAX_DEPTH;
use super::super::quoted::{QuotedString, Spelling};
use super::sum::evaluate;
use super::{Frame, LiteralReader, LiteralState, SHOWN, Syntax, TakeResult, expected, is_space, opens_string};
use crate::{JsonPolicy, Why};
use rolecall_conversation::json::write_string;
use rolecall_format::codec::python;

/// The beginning of a dict that is written as a call.
const DICT: &str = "dict(";

impl LiteralReader {
    pub(super) fn argument(&mut self, character: char, out: &mut String) -> TakeResult<bool> {
        match character {
            ')' if !self.frames.is_empty() => self.close(character, out),
            ')' => {
                self.close_arguments(out);
                Ok(false)
            }
            '*' => {
                self.at = LiteralState::Star;
                Ok(true)
            }
            _ if self.is_of_name(character) => {
                self.at = LiteralState::Name;
                Ok(false)
            }
            _ => expected("a keyword argument", character),
        }
    }

    /// Reports whether an argument's name may contain this character. Templates print keys without
    /// quotes, so the lenient policy allows all characters that neither end a name nor begin a
    /// value.
    pub(super) fn is_of_name(&self, character: char) -> bool {
        match self.policy {
            JsonPolicy::Strict => {
                let is_first = self.token.is_empty();
                character == '_' || character.is_alphabetic() || (character.is_alphanumeric() && !is_first)
            }
            JsonPolicy::Lenient => {
                !is_space(character) && !character.is_control() && !"=,()[]{}'\"".contains(character)
            }
        }
    }

    pub(super) fn name(&mut self, character: char, out: &mut String) -> TakeResult<bool> {
        match character {
            '=' => self.give_name(out),
            _ if is_space(character) => self.at = LiteralState::Equals,
            _ if self.is_of_name(character) => self.token.push(character),
            _ => return expected("`=` after an argument's name", character),
        }
        Ok(true)
    }

    pub(super) fn give_name(&mut self, out: &mut String) {
        self.give_between(out);
        let name = std::mem::take(&mut self.token);
        let sink = self.sink(out);
        write_string(sink, &name, false);
        sink.push_str(": ");
        self.at = LiteralState::Value;
    }

    pub(super) fn close_arguments(&mut self, out: &mut String) {
        self.between.comma = false;
        self.give_between(out);
        out.push('}');
        self.at = LiteralState::Done;
    }

    /// Continues a word, which ends as soon as it is complete.
    pub(super) fn word(&mut self, character: char, key: bool, out: &mut String) -> TakeResult<bool> {
        const WORDS: [(&str, &str); 6] = [
            ("None", "null"),
            ("True", "true"),
            ("False", "false"),
            ("null", "null"),
            ("true", "true"),
            ("false", "false"),
        ];
        const PREFIXES: [&str; 4] = ["r", "R", "u", "U"];
        if opens_string(character) && PREFIXES.contains(&self.token.as_str()) {
            let is_raw = self.token.eq_ignore_ascii_case("r");
            self.token.clear();
            self.give_between(out);
            self.open_string(character, is_raw, key, out);
            return Ok(true);
        }
        self.token.push(character);
        let may_call = !key && matches!(self.syntax, Syntax::Arguments { .. }) && DICT.starts_with(&self.token);
        if may_call && self.token == DICT {
            self.token.clear();
            return self.keywords(out);
        }
        if let Some((_, json)) = WORDS.iter().find(|(word, _)| *word == self.token) {
            self.token.clear();
            self.give_scalar(json, key, out);
        } else if !WORDS.iter().any(|(word, _)| word.starts_with(&self.token))
            && !PREFIXES.contains(&self.token.as_str())
            && !may_call
        {
            let why = Why::BadValue(format!("expected a literal, found `{}`", self.token));
            self.token.pop();
            return Err((0, why));
        }
        Ok(true)
    }

    /// Opens a dict that is written as a call with keyword arguments.
    fn keywords(&mut self, out: &mut String) -> TakeResult<bool> {
        if self.frames.len() == MAX_DEPTH {
            return Err((0, Why::TooDeep));
        }
        self.give_between(out);
        self.frames.push(Frame::Keywords);
        self.sink(out).push('{');
        self.at = LiteralState::Argument;
        Ok(true)
    }

    /// Ends arithmetic.
    pub(super) fn sum(&mut self, out: &mut String) -> TakeResult<()> {
        let token = std::mem::take(&mut self.token);
        let number = python::number(token.trim()).map(|number| number.spelling().to_owned());
        let Some(number) = number.or_else(|| evaluate(&token)) else {
            let start: String = token.chars().take(SHOWN).collect();
            self.token = token;
            return Err((0, Why::BadValue(format!("expected a number, found `{start}`"))));
        };
        self.give_scalar(&number, false, out);
        Ok(())
    }

    /// Ends a number.
    pub(super) fn number(&mut self, key: bool, out: &mut String) -> TakeResult<()> {
        let token = std::mem::take(&mut self.token);
        let Some(number) = python::number(&token) else {
            let start: String = token.chars().take(SHOWN).collect();
            self.token = token;
            return Err((0, Why::BadValue(format!("expected a number, found `{start}`"))));
        };
        self.give_scalar(number.spelling(), key, out);
        Ok(())
    }

    /// Outputs a word or a number. A key becomes a string.
    pub(super) fn give_scalar(&mut self, json: &str, key: bool, out: &mut String) {
        self.give_between(out);
        let quote = if key { "\"" } else { "" };
        let sink = self.sink(out);
        sink.extend([quote, json, quote]);
        self.at = if key { LiteralState::Colon } else { self.behind_value() };
    }

    pub(super) fn open_string(&mut self, quote: char, is_raw: bool, key: bool, out: &mut String) {
        self.sink(out).push('"');
        self.quote(quote, is_raw, key);
    }

    pub(super) fn quote(&mut self, quote: char, is_raw: bool, key: bool) {
        let is_json = !matches!(self.syntax, Syntax::Arguments { .. });
        let quoted = QuotedString::new(Spelling { quote, is_raw, is_json, policy: self.policy });
        self.at = LiteralState::Quoted { quoted, key };
    }

    pub(super) fn close_string(&mut self, key: bool, out: &mut String) {
        let mut space = std::mem::take(&mut self.between.space);
        if !self.keeps_space() {
            space.clear();
        }
        let sink = self.sink(out);
        sink.push('"');
        sink.push_str(&space);
        self.at = if key { LiteralState::Colon } else { self.behind_value() };
    }
}
