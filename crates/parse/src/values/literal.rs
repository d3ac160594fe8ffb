mod nesting;
mod sum;
mod tokens;

use rolecall_conversation::json::escape_into;

use super::marked::StringMarker;
use super::nest::MAX_DEPTH;
use super::quoted::QuotedString;
use super::{ReaderState, ValueStep};
use crate::{JsonPolicy, Why};

/// Converts values in the spelling of Python or JSON to JSON: a single value, or keyword arguments
/// up to the closing `)`.
///
/// ```text
/// city='Oslo', deep={'a': [None, True]}    ->  {"city": "Oslo", "deep": {"a": [null, true]}}
/// days=7*2, deep=dict(a='x' + 'y')         ->  {"days": 14, "deep": {"a": "xy"}}
/// {city:<|"|>Oslo<|"|>,days:3}             ->  {"city": "Oslo", "days": 3}
/// ```
#[derive(Clone, Debug)]
pub(crate) struct LiteralReader {
    syntax: Syntax,
    policy: JsonPolicy,
    /// The maximum number of bytes to hold back.
    cap: usize,
    at: LiteralState,
    /// The open brackets, outermost first.
    frames: Vec<Frame>,
    /// The unfinished word, number or name.
    token: String,
    between: Between,
    held: HeldOutput,
}

/// The kind of value and its spelling.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Syntax {
    /// A single value. Its white space is kept.
    Value,
    /// Keyword arguments.
    Arguments {
        /// Whether any argument was output.
        any: bool,
    },
    /// A single value with bare keys, and with strings between markers.
    Marked(StringMarker),
}

/// The position in the grammar.
#[derive(Clone, Debug, PartialEq, Eq)]
enum LiteralState {
    Value,
    /// Before an item of a list or a tuple, or its end.
    Item,
    /// Before a key of a dict, or its end.
    Key,
    Colon,
    /// Before a comma or the closing bracket.
    Next,
    /// Before a keyword argument, or the end of all.
    Argument,
    Name,
    /// Before the `=` after a name.
    Equals,
    /// Before the second of two stars.
    Star,
    /// Before the dict after two stars.
    Splat,
    Word {
        key: bool,
    },
    Number {
        key: bool,
    },
    /// In arithmetic with numbers, inside this many parentheses.
    Sum {
        open: usize,
    },
    BareKey,
    Quoted {
        quoted: QuotedString,
        key: bool,
    },
    /// After a string. Another string may follow and is joined to it.
    BehindString {
        key: bool,
    },
    /// After the plus between two strings.
    BehindPlus {
        key: bool,
    },
    /// After the prefix letter of another string.
    BehindPrefix {
        is_raw: bool,
        key: bool,
    },
    /// Within the marker that opens a string, after this many characters.
    MarkOpen {
        seen: usize,
        key: bool,
    },
    MarkedText {
        seen: usize,
        key: bool,
    },
    Done,
}

/// An open bracket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Frame {
    List,
    Dict,
    /// A dict after two stars, whose entries are arguments.
    Splat,
    /// `dict(` and keyword arguments.
    Keywords,
    /// Parentheses, which become a tuple if a comma follows. `place` is the position reserved for
    /// their bracket in the held text.
    Round {
        place: usize,
    },
    Tuple,
}

/// The text between two values, output with the second value.
#[derive(Clone, Debug, Default)]
struct Between {
    comma: bool,
    space: String,
}

/// Output that is held back until the meaning of the enclosing parentheses is known.
#[derive(Clone, Debug, Default)]
struct HeldOutput {
    text: String,
    /// The same text as read.
    raw: String,
    /// The number of parentheses whose meaning is unknown.
    open: usize,
}

/// A placeholder in the held text for a bracket. There are no other NULs, because strings escape
/// them.
const UNKNOWN: &str = "\0";

/// The maximum number of characters of an invalid number to show.
const SHOWN: usize = 40;

impl LiteralReader {
    /// Creates a reader for one value in the spelling of JSON or Python. It skips leading white
    /// space.
    pub(crate) fn value(policy: JsonPolicy, cap: usize) -> LiteralReader {
        LiteralReader::new(Syntax::Value, LiteralState::Value, policy, cap)
    }

    /// Creates a reader for keyword arguments. It stops before the closing parenthesis.
    pub(crate) fn arguments(policy: JsonPolicy, cap: usize) -> LiteralReader {
        LiteralReader::new(Syntax::Arguments { any: false }, LiteralState::Argument, policy, cap)
    }

    /// Creates a reader for one value with bare keys, and with strings between markers.
    pub(crate) fn marked(mark: &str, policy: JsonPolicy, cap: usize) -> LiteralReader {
        LiteralReader::new(Syntax::Marked(StringMarker::new(mark)), LiteralState::Value, policy, cap)
    }

    fn new(syntax: Syntax, at: LiteralState, policy: JsonPolicy, cap: usize) -> LiteralReader {
        let (between, held) = Default::default();
        LiteralReader { syntax, policy, cap, at, frames: Vec::new(), token: String::new(), between, held }
    }

    /// Returns the text that was read but produced no output yet.
    pub(crate) fn unsaid(&self) -> String {
        if self.held.open > 0 { self.held.raw.clone() } else { self.token.clone() }
    }

    /// Reports whether a text only continues an open string.
    pub(crate) fn is_plain(&self, text: &str) -> bool {
        match (&self.at, &self.syntax) {
            _ if self.held.open > 0 => false,
            (LiteralState::Quoted { quoted, .. }, _) => quoted.plain_run(text) == text.len(),
            (LiteralState::MarkedText { seen: 0, .. }, Syntax::Marked(mark)) => mark.is_plain(text),
            _ => false,
        }
    }

    /// Reads the next piece.
    pub(crate) fn push(&mut self, text: &str, out: &mut String) -> ValueStep {
        let mut at = 0;
        let state = loop {
            if self.at == LiteralState::Done {
                break ReaderState::Done;
            }
            let rest = &text[at..];
            let Some(character) = rest.chars().next() else { break ReaderState::More };
            let used = match self.at {
                // Held text is measured after each character, so that the cap applies at the same
                // character however the text is cut.
                LiteralState::Quoted { .. } | LiteralState::MarkedText { .. } if self.held.open > 0 => {
                    self.string(&rest[..character.len_utf8()], out)
                }
                LiteralState::Quoted { .. } | LiteralState::MarkedText { .. } => self.string(rest, out),
                _ => self.next(character, out).map(|is_used| if is_used { character.len_utf8() } else { 0 }),
            };
            let (used, why) = match used {
                Ok(used) => (used, None),
                Err((used, why)) => (used, Some(why)),
            };
            match self.held.open {
                0 => self.held.raw.clear(),
                _ => self.held.raw.push_str(&rest[..used]),
            }
            at += used;
            if let Some(why) = why {
                break ReaderState::Bad(why);
            }
            if self.held.text.len() + self.token.len() + self.between.space.len() > self.cap {
                break ReaderState::Bad(Why::TooLong);
            }
        };
        ValueStep { used: at, state }
    }

    /// Ends the input.
    pub(crate) fn end(&mut self, out: &mut String) -> ReaderState {
        if let LiteralState::Quoted { quoted, key } = &mut self.at
            && quoted.end()
        {
            self.at = LiteralState::BehindString { key: *key };
        }
        if let LiteralState::BehindString { key: false } = self.at {
            self.close_string(false, out);
        }
        if let LiteralState::Sum { open: 0 } = self.at
            && let Err((_, why)) = self.sum(out)
        {
            return ReaderState::Bad(why);
        }
        if let LiteralState::Number { key: false } = self.at
            && let Err((_, why)) = self.number(false, out)
        {
            return ReaderState::Bad(why);
        }
        match (&self.at, &self.syntax) {
            (LiteralState::Done, _) => ReaderState::Done,
            (LiteralState::Argument | LiteralState::Next, Syntax::Arguments { .. }) if self.frames.is_empty() => {
                self.close_arguments(out);
                ReaderState::Done
            }
            _ => ReaderState::Bad(Why::Unfinished),
        }
    }
}

/// Whether a character was used, or on error, the number of valid bytes in the piece.
type TakeResult<T> = Result<T, (usize, Why)>;

fn expected<T>(what: &str, found: char) -> TakeResult<T> {
    let found = if found.is_control() { format!("{found:?}") } else { format!("`{found}`") };
    Err((0, Why::BadValue(format!("expected {what}, found {found}"))))
}

fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\n' | '\r' | '\u{c}')
}

fn opens_string(character: char) -> bool {
    matches!(character, '"' | '\'')
}

impl LiteralReader {
    /// Reads a character. Returns `false` if the character was not used.
    fn next(&mut self, character: char, out: &mut String) -> TakeResult<bool> {
        match self.at {
            LiteralState::Value | LiteralState::Item | LiteralState::Key | LiteralState::Colon | LiteralState::Next
                if is_space(character) =>
            {
                self.space(character, out)
            }
            LiteralState::Argument | LiteralState::Equals | LiteralState::Splat if is_space(character) => {}
            LiteralState::BehindString { .. } if is_space(character) => self.space(character, out),
            LiteralState::Item if matches!(character, ']' | ')') => return self.close(character, out),
            LiteralState::Key if character == '}' => return self.close(character, out),
            LiteralState::Value | LiteralState::Item => return self.begin(character, false, out),
            LiteralState::Key => return self.key(character, out),
            LiteralState::Colon => match character {
                ':' => {
                    let colon = if self.keeps_space() { ":" } else { ": " };
                    self.sink(out).push_str(colon);
                    self.at = LiteralState::Value;
                }
                _ => return expected("`:` after the key", character),
            },
            LiteralState::Next => return self.separator(character, out),
            LiteralState::Argument => return self.argument(character, out),
            LiteralState::Name => return self.name(character, out),
            LiteralState::Equals => match character {
                '=' => self.give_name(out),
                _ => return expected("`=` after an argument's name", character),
            },
            LiteralState::Star => match character {
                '*' => self.at = LiteralState::Splat,
                _ => return expected("`**`", character),
            },
            LiteralState::Splat => match character {
                '{' => {
                    self.frames.push(Frame::Splat);
                    self.at = LiteralState::Key;
                }
                _ => return expected("a dict after `**`", character),
            },
            LiteralState::Word { key } => return self.word(character, key, out),
            LiteralState::Number { key } => {
                let may_sign = self.token.is_empty() || self.token.ends_with(['e', 'E']);
                let is_sign = matches!(character, '+' | '-') && may_sign;
                let is_bare_sign = matches!(self.token.as_str(), "+" | "-");
                match character {
                    '.' | '_' => self.token.push(character),
                    _ if is_sign || character.is_ascii_alphanumeric() => self.token.push(character),
                    _ if is_bare_sign && is_space(character) && (character != '\n' || !self.is_alone()) => {}
                    // White space may precede an operator.
                    '+' | '-' | '*' | '/' | '%' | ' ' if !key && matches!(self.syntax, Syntax::Arguments { .. }) => {
                        self.token.push(character);
                        self.at = LiteralState::Sum { open: 0 };
                    }
                    _ => return self.number(key, out).map(|()| false),
                }
            }
            LiteralState::Sum { open } => match character {
                ',' | ')' | ']' | '}' | ':' if open == 0 => return self.sum(out).map(|()| false),
                '(' => {
                    self.token.push(character);
                    self.at = LiteralState::Sum { open: open + 1 };
                }
                ')' => {
                    self.token.push(character);
                    self.at = LiteralState::Sum { open: open - 1 };
                }
                '+' | '-' | '*' | '/' | '%' | '.' | '_' => self.token.push(character),
                _ if is_space(character) || character.is_ascii_alphanumeric() => self.token.push(character),
                _ => return expected("a number or an operator", character),
            },
            LiteralState::BareKey => match character {
                ':' => {
                    self.token.clear();
                    self.sink(out).push_str("\": ");
                    self.at = LiteralState::Value;
                }
                '{' | '}' | '\n' => return expected("`:` after the key", character),
                // White space before the colon is not part of the key.
                _ if is_space(character) => self.token.push(character),
                _ => {
                    let space = std::mem::take(&mut self.token);
                    let sink = self.sink(out);
                    escape_into(sink, &space, false);
                    escape_into(sink, character.encode_utf8(&mut [0; 4]), false);
                }
            },
            LiteralState::BehindString { key } => match character {
                _ if opens_string(character) => {
                    self.between.space.clear();
                    self.quote(character, false, key);
                }
                '+' if !self.is_alone() && matches!(self.syntax, Syntax::Arguments { .. }) => {
                    self.at = LiteralState::BehindPlus { key };
                }
                'r' | 'R' | 'u' | 'U' => {
                    self.at = LiteralState::BehindPrefix { is_raw: matches!(character, 'r' | 'R'), key }
                }
                _ => {
                    self.close_string(key, out);
                    return Ok(false);
                }
            },
            LiteralState::BehindPlus { key } => match character {
                _ if opens_string(character) => {
                    self.between.space.clear();
                    self.quote(character, false, key);
                }
                _ if is_space(character) => {}
                _ => return expected("a string to join to the previous one", character),
            },
            LiteralState::BehindPrefix { is_raw, key } => match character {
                _ if opens_string(character) => {
                    self.between.space.clear();
                    self.quote(character, is_raw, key);
                }
                _ => return expected("a string to join to the previous one", character),
            },
            LiteralState::MarkOpen { seen, key } => {
                let Syntax::Marked(mark) = &self.syntax else { return Ok(false) };
                match mark.character(seen) {
                    Some(wanted) if wanted == character => self.at = LiteralState::MarkOpen { seen: seen + 1, key },
                    Some(_) => return expected("the marker of a string", character),
                    None => {
                        self.at = LiteralState::MarkedText { seen: 0, key };
                        return Ok(false);
                    }
                }
            }
            LiteralState::Quoted { .. } | LiteralState::MarkedText { .. } | LiteralState::Done => return Ok(false),
        }
        Ok(true)
    }

    /// Continues a string.
    fn string(&mut self, text: &str, out: &mut String) -> TakeResult<usize> {
        let LiteralReader { syntax, at, held, .. } = self;
        let sink = if held.open > 0 { &mut held.text } else { &mut *out };
        match (at, syntax) {
            (LiteralState::Quoted { quoted, key }, _) => {
                let step = quoted.push(text, sink);
                let key = *key;
                match step.state {
                    ReaderState::More => {}
                    ReaderState::Done => {
                        self.at = LiteralState::BehindString { key };
                        // No string can be joined to a single value, so the value is complete.
                        if self.is_alone() {
                            self.close_string(key, out);
                        }
                    }
                    ReaderState::Bad(why) => return Err((step.used, why)),
                }
                Ok(step.used)
            }
            (LiteralState::MarkedText { seen, key }, Syntax::Marked(mark)) => {
                let used;
                (used, *seen) = mark.text(*seen, text, sink);
                let key = *key;
                if mark.character(*seen).is_none() {
                    self.close_string(key, out);
                }
                Ok(used)
            }
            _ => Ok(0),
        }
    }

    fn behind_value(&self) -> LiteralState {
        match self.is_alone() {
            true => LiteralState::Done,
            false => LiteralState::Next,
        }
    }

    /// Reports whether the value is the whole input, rather than part of an enclosing value or of
    /// arguments.
    fn is_alone(&self) -> bool {
        self.frames.is_empty() && !matches!(self.syntax, Syntax::Arguments { .. })
    }

    fn keeps_space(&self) -> bool {
        self.syntax == Syntax::Value
    }

    /// Handles white space. After a comma it is held back, because a closing bracket drops it
    /// together with the comma.
    fn space(&mut self, character: char, out: &mut String) {
        if !self.keeps_space() || self.frames.is_empty() || character == '\u{c}' {
            return;
        }
        match self.between.comma || matches!(self.at, LiteralState::BehindString { .. }) {
            true => self.between.space.push(character),
            false => self.sink(out).push(character),
        }
    }

    /// Outputs the text before a value or a key.
    fn give_between(&mut self, out: &mut String) {
        if let Syntax::Arguments { any: any @ false } = &mut self.syntax {
            *any = true;
            out.push('{');
        }
        if self.between.comma {
            self.between.comma = false;
            let mut space = std::mem::take(&mut self.between.space);
            if !self.keeps_space() {
                space.push(' ');
            }
            let sink = self.sink(out);
            sink.push(',');
            sink.push_str(&space);
        }
    }

    fn sink<'o>(&'o mut self, out: &'o mut String) -> &'o mut String {
        if self.held.open > 0 { &mut self.held.text } else { out }
    }
}

impl HeldOutput {
    /// Outputs the held text if the meaning of all its parentheses is known.
    fn flush(&mut self, out: &mut String) {
        if self.open == 0 {
            self.text.split(UNKNOWN).for_each(|part| out.push_str(part));
            self.text.clear();
        }
    }
}
