use std::fmt::Write;

use rolecall_conversation::json::escape_into;

use super::{State, Step, bad};
use crate::JsonPolicy;

/// A string in quotes as Python spells it, which takes in JSON's: what stands between its quotes becomes that of a JSON string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Quoted {
    spelling: Spelling,
    is_triple: bool,
    at: At,
}

/// How a string begins, and what its escapes mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spelling {
    /// The quote.
    pub(super) quote: char,
    /// Whether a backslash is a backslash.
    pub(super) is_raw: bool,
    /// Whether `\/` in double quotes is a slash.
    pub(super) is_json: bool,
    /// Whether a line may end inside.
    pub(super) policy: JsonPolicy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// Behind the first quote.
    Opened,
    /// Behind the second: the string is empty, or a third opens a long one.
    OpenedTwice,
    Text,
    /// Behind so many quotes that may close a long string.
    Closing(usize),
    Escape,
    /// Behind a backslash that is one.
    RawEscape,
    /// So many digits of a `\u`, which are given as they come.
    Unicode(u8),
    /// So many digits of a character's number.
    Code {
        code: u32,
        left: u8,
    },
    /// Up to so many octal digits.
    Octal {
        code: u32,
        left: u8,
    },
    Done,
}

impl Quoted {
    /// Begins behind the first quote.
    pub(super) fn new(spelling: Spelling) -> Quoted {
        Quoted { spelling, is_triple: false, at: At::Opened }
    }

    /// Takes the next piece.
    pub(super) fn push(&mut self, text: &str, out: &mut String) -> Step {
        let mut at = 0;
        loop {
            if self.at == At::Done {
                return Step { used: at, state: State::Done };
            }
            if self.at == At::Text {
                at += self.plain(&text[at..], out);
            }
            let Some(character) = text[at..].chars().next() else { return Step { used: at, state: State::More } };
            match self.next(character, out) {
                Ok(true) => at += character.len_utf8(),
                Ok(false) => {}
                Err(expected) => return bad(at, expected, text),
            }
        }
    }

    /// Whether the string is whole if nothing follows.
    pub(super) fn end(&mut self) -> bool {
        self.at == At::Done || self.at == At::OpenedTwice
    }

    /// Gives what needs a closer look by nobody, and says how much that was.
    fn plain(&self, text: &str, out: &mut String) -> usize {
        let quote = self.spelling.quote as u8;
        let run = text.bytes().position(|byte| byte == quote || byte == b'\\' || byte == b'\n' || byte == b'\r');
        let run = run.unwrap_or(text.len());
        escape_into(out, &text[..run], false);
        run
    }

    /// Goes on by a character; false if it was only looked at.
    fn next(&mut self, character: char, out: &mut String) -> Result<bool, &'static str> {
        let quote = self.spelling.quote;
        match self.at {
            At::Opened if character == quote => self.at = At::OpenedTwice,
            At::OpenedTwice if character == quote => {
                self.is_triple = true;
                self.at = At::Text;
            }
            At::Opened => {
                self.at = At::Text;
                return Ok(false);
            }
            At::OpenedTwice | At::Done => {
                self.at = At::Done;
                return Ok(false);
            }
            At::Text if character == quote => self.at = if self.is_triple { At::Closing(1) } else { At::Done },
            At::Text if character == '\\' && self.spelling.is_raw => {
                out.push_str("\\\\");
                self.at = At::RawEscape;
            }
            At::Text if character == '\\' => self.at = At::Escape,
            At::Text => return self.line_end(character, out),
            At::Closing(2) if character == quote => self.at = At::Done,
            At::Closing(seen) if character == quote => self.at = At::Closing(seen + 1),
            At::Closing(seen) => {
                let mut utf8 = [0; 4];
                (0..seen).for_each(|_| escape_into(out, quote.encode_utf8(&mut utf8), false));
                self.at = At::Text;
                return Ok(false);
            }
            At::RawEscape => {
                give(character, out);
                self.at = At::Text;
            }
            At::Escape => return self.escape(character, out),
            At::Unicode(left) => {
                if !character.is_ascii_hexdigit() {
                    return Err("four hexadecimal digits behind `\\u`");
                }
                out.push(character);
                self.at = if left > 1 { At::Unicode(left - 1) } else { At::Text };
            }
            At::Code { code, left } => {
                let digit = character.to_digit(16).ok_or("a hexadecimal digit of a character's number")?;
                self.number(code * 16 + digit, left - 1, out)?;
            }
            At::Octal { code, left } => match character.to_digit(8) {
                Some(digit) if left > 0 => self.at = At::Octal { code: code * 8 + digit, left: left - 1 },
                _ => {
                    self.number(code, 0, out)?;
                    return Ok(false);
                }
            },
        }
        Ok(true)
    }

    /// A line's end, which Python allows in long strings only.
    fn line_end(&self, character: char, out: &mut String) -> Result<bool, &'static str> {
        if self.spelling.policy == JsonPolicy::Strict && !self.is_triple {
            return Err("the string's end on its line");
        }
        give(character, out);
        Ok(true)
    }

    fn escape(&mut self, character: char, out: &mut String) -> Result<bool, &'static str> {
        self.at = At::Text;
        match character {
            '\n' => {}
            '\\' | '\'' | '"' => give(character, out),
            'a' => give('\u{7}', out),
            'b' => give('\u{8}', out),
            'f' => give('\u{c}', out),
            'n' => give('\n', out),
            'r' => give('\r', out),
            't' => give('\t', out),
            'v' => give('\u{b}', out),
            'x' => self.at = At::Code { code: 0, left: 2 },
            'U' => self.at = At::Code { code: 0, left: 8 },
            // JSON's escape is kept as it is, a half of a pair of surrogates too.
            'u' => {
                out.push_str("\\u");
                self.at = At::Unicode(4);
            }
            '0'..='7' => {
                self.at = At::Octal { code: 0, left: 3 };
                return Ok(false);
            }
            'N' => return Err("an escape without a character's name"),
            '/' if self.spelling.is_json && self.spelling.quote == '"' => out.push_str("\\/"),
            // An unknown escape stays as it is written, as in Python.
            _ => {
                out.push_str("\\\\");
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Goes on in a character's number, or gives the character.
    fn number(&mut self, code: u32, left: u8, out: &mut String) -> Result<(), &'static str> {
        if left > 0 {
            self.at = At::Code { code, left };
            return Ok(());
        }
        self.at = At::Text;
        match char::from_u32(code) {
            Some(character) => give(character, out),
            // Python's strings may hold halves of surrogates, and so may JSON's escapes.
            None if code <= 0xffff => {
                let _ = write!(out, "\\u{code:04x}");
            }
            None => return Err("the number of a character"),
        }
        Ok(())
    }
}

fn give(character: char, out: &mut String) {
    escape_into(out, character.encode_utf8(&mut [0; 4]), false);
}
