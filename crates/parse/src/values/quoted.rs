use std::fmt::Write;

use rolecall_conversation::json::escape_into;

use super::{ReaderState, ValueStep, bad};
use crate::JsonPolicy;

/// Converts a quoted Python string, a superset of JSON's, to the contents of a JSON string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QuotedString {
    spelling: Spelling,
    is_triple: bool,
    at: QuotedState,
}

/// The delimiter of a string and the meaning of its escapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spelling {
    /// The quote.
    pub(super) quote: char,
    /// Whether backslashes are literal.
    pub(super) is_raw: bool,
    /// Whether `\/` in double quotes is an escaped slash.
    pub(super) is_json: bool,
    /// Whether the string may contain a line break.
    pub(super) policy: JsonPolicy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QuotedState {
    /// After the first quote.
    Opened,
    /// After the second quote. The string is empty, or a third quote opens a triple-quoted string.
    OpenedTwice,
    Text,
    /// After this many quotes that may close a triple-quoted string.
    Closing(usize),
    Escape,
    /// After a literal backslash.
    RawEscape,
    /// Within a `\u` escape, with this many digits left. Digits are output as they arrive.
    Unicode(u8),
    /// Within a character code, with this many digits left.
    Code {
        code: u32,
        left: u8,
    },
    /// Within an octal escape, with up to this many digits left.
    Octal {
        code: u32,
        left: u8,
    },
    Done,
}

impl QuotedString {
    /// Creates a reader that starts after the first quote.
    pub(super) fn new(spelling: Spelling) -> QuotedString {
        QuotedString { spelling, is_triple: false, at: QuotedState::Opened }
    }

    /// Reads the next piece.
    pub(super) fn push(&mut self, text: &str, out: &mut String) -> ValueStep {
        let mut at = 0;
        loop {
            if self.at == QuotedState::Done {
                return ValueStep { used: at, state: ReaderState::Done };
            }
            let run = self.plain_run(&text[at..]);
            escape_into(out, &text[at..at + run], false);
            at += run;
            let Some(character) = text[at..].chars().next() else {
                return ValueStep { used: at, state: ReaderState::More };
            };
            match self.next(character, out) {
                Ok(true) => at += character.len_utf8(),
                Ok(false) => {}
                Err(expected) => return bad(at, expected, text),
            }
        }
    }

    /// Reports whether the string is complete if the input ends here.
    pub(super) fn end(&mut self) -> bool {
        self.at == QuotedState::Done || self.at == QuotedState::OpenedTwice
    }

    /// Returns the length of the start of a text that has no special meaning in the open string.
    pub(super) fn plain_run(&self, text: &str) -> usize {
        if self.at != QuotedState::Text {
            return 0;
        }
        let quote = self.spelling.quote as u8;
        let run = text.bytes().position(|byte| byte == quote || byte == b'\\' || byte == b'\n' || byte == b'\r');
        run.unwrap_or(text.len())
    }

    /// Reads a character. Returns `false` if the character was not used.
    fn next(&mut self, character: char, out: &mut String) -> Result<bool, &'static str> {
        let quote = self.spelling.quote;
        match self.at {
            QuotedState::Opened if character == quote => self.at = QuotedState::OpenedTwice,
            QuotedState::OpenedTwice if character == quote => {
                self.is_triple = true;
                self.at = QuotedState::Text;
            }
            QuotedState::Opened => {
                self.at = QuotedState::Text;
                return Ok(false);
            }
            QuotedState::OpenedTwice | QuotedState::Done => {
                self.at = QuotedState::Done;
                return Ok(false);
            }
            QuotedState::Text if character == quote => {
                self.at = if self.is_triple { QuotedState::Closing(1) } else { QuotedState::Done }
            }
            QuotedState::Text if character == '\\' && self.spelling.is_raw => {
                out.push_str("\\\\");
                self.at = QuotedState::RawEscape;
            }
            QuotedState::Text if character == '\\' => self.at = QuotedState::Escape,
            QuotedState::Text => return self.line_end(character, out),
            QuotedState::Closing(2) if character == quote => self.at = QuotedState::Done,
            QuotedState::Closing(seen) if character == quote => self.at = QuotedState::Closing(seen + 1),
            QuotedState::Closing(seen) => {
                let mut utf8 = [0; 4];
                (0..seen).for_each(|_| escape_into(out, quote.encode_utf8(&mut utf8), false));
                self.at = QuotedState::Text;
                return Ok(false);
            }
            QuotedState::RawEscape => {
                give(character, out);
                self.at = QuotedState::Text;
            }
            QuotedState::Escape => return self.escape(character, out),
            QuotedState::Unicode(left) => {
                if !character.is_ascii_hexdigit() {
                    return Err("four hexadecimal digits after `\\u`");
                }
                out.push(character);
                self.at = if left > 1 { QuotedState::Unicode(left - 1) } else { QuotedState::Text };
            }
            QuotedState::Code { code, left } => {
                let digit = character.to_digit(16).ok_or("a hexadecimal digit of a character code")?;
                self.number(code * 16 + digit, left - 1, out)?;
            }
            QuotedState::Octal { code, left } => match character.to_digit(8) {
                Some(digit) if left > 0 => self.at = QuotedState::Octal { code: code * 8 + digit, left: left - 1 },
                _ => {
                    self.number(code, 0, out)?;
                    return Ok(false);
                }
            },
        }
        Ok(true)
    }

    /// Reads a line break. Python allows it only in triple-quoted strings.
    fn line_end(&self, character: char, out: &mut String) -> Result<bool, &'static str> {
        if self.spelling.policy == JsonPolicy::Strict && !self.is_triple {
            return Err("the end of the string on the same line");
        }
        give(character, out);
        Ok(true)
    }

    fn escape(&mut self, character: char, out: &mut String) -> Result<bool, &'static str> {
        self.at = QuotedState::Text;
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
            'x' => self.at = QuotedState::Code { code: 0, left: 2 },
            'U' => self.at = QuotedState::Code { code: 0, left: 8 },
            // Keep a JSON escape unchanged, even an unpaired surrogate.
            'u' => {
                out.push_str("\\u");
                self.at = QuotedState::Unicode(4);
            }
            '0'..='7' => {
                self.at = QuotedState::Octal { code: 0, left: 3 };
                return Ok(false);
            }
            'N' => return Err("an escape other than `\\N`"),
            '/' if self.spelling.is_json && self.spelling.quote == '"' => out.push_str("\\/"),
            // Like Python, keep the backslash of an unknown escape.
            _ => {
                out.push_str("\\\\");
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Continues a character code, or outputs the character if the code is complete.
    fn number(&mut self, code: u32, left: u8, out: &mut String) -> Result<(), &'static str> {
        if left > 0 {
            self.at = QuotedState::Code { code, left };
            return Ok(());
        }
        self.at = QuotedState::Text;
        match char::from_u32(code) {
            Some(character) => give(character, out),
            // Strings in Python may contain unpaired surrogates, and so may JSON's escapes.
            None if code <= 0xffff => {
                let _ = write!(out, "\\u{code:04x}");
            }
            None => return Err("a valid character code"),
        }
        Ok(())
    }
}

fn give(character: char, out: &mut String) {
    escape_into(out, character.encode_utf8(&mut [0; 4]), false);
}
