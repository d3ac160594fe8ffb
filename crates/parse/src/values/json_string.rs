use std::ops::RangeInclusive;

use rolecall_conversation::json::plain_run;

use super::json::JsonReader;
use super::{ReaderState, ValueStep, bad};
use crate::{JsonPolicy, Why};

/// The surrogates that form pairs for characters beyond U+FFFF.
const HIGH: RangeInclusive<u32> = 0xd800..=0xdbff;
const LOW: RangeInclusive<u32> = 0xdc00..=0xdfff;

/// Reads a JSON string that contains JSON and outputs that JSON. Unless strict, it also accepts a
/// value outside a string, because some models write arguments either way.
#[derive(Clone, Debug)]
pub(crate) struct JsonStringReader {
    policy: JsonPolicy,
    at: StringState,
    inner: JsonReader,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StringState {
    Start,
    /// Within a value outside a string.
    Bare,
    Text,
    Escape,
    /// Within a `\u` escape, possibly after the first half of a surrogate pair.
    Hex {
        code: u32,
        left: u8,
        high: Option<u32>,
    },
    /// Before a possible second half of a surrogate pair.
    Pair {
        high: u32,
    },
    PairEscape {
        high: u32,
    },
    Done,
}

impl JsonStringReader {
    pub(crate) fn new(policy: JsonPolicy) -> JsonStringReader {
        JsonStringReader { policy, at: StringState::Start, inner: JsonReader::new(policy) }
    }

    /// Reports whether a text only continues an open string of the JSON inside.
    pub(crate) fn is_plain(&self, text: &str) -> bool {
        matches!(self.at, StringState::Bare | StringState::Text) && self.inner.is_plain(text)
    }

    /// Reads the next piece.
    pub(crate) fn push(&mut self, text: &str, out: &mut String) -> ValueStep {
        let mut at = 0;
        loop {
            match self.at {
                StringState::Done => return ValueStep { used: at, state: ReaderState::Done },
                StringState::Bare => {
                    let step = self.inner.push(&text[at..], out);
                    return ValueStep { used: at + step.used, ..step };
                }
                StringState::Text => {
                    let run = plain_run(&text.as_bytes()[at..]);
                    if let Err((good, why)) = self.give(&text[at..at + run], out) {
                        return ValueStep { used: at + good, state: ReaderState::Bad(why) };
                    }
                    at += run;
                }
                _ => {}
            }
            let Some(character) = text[at..].chars().next() else {
                return ValueStep { used: at, state: ReaderState::More };
            };
            match self.next(character, out) {
                Ok(true) => at += character.len_utf8(),
                Ok(false) => {}
                Err(StringError::Expected(what)) => return bad(at, what, text),
                Err(StringError::Inside(why)) => return ValueStep { used: at, state: ReaderState::Bad(why) },
            }
        }
    }

    /// Ends the input.
    pub(crate) fn end(&mut self) -> ReaderState {
        match self.at {
            StringState::Done => ReaderState::Done,
            StringState::Bare => self.inner.end(),
            _ => ReaderState::Bad(Why::Unfinished),
        }
    }
}

/// The reason that a character is invalid.
enum StringError {
    Expected(&'static str),
    /// The unescaped text is invalid in the JSON inside.
    Inside(Why),
}

impl JsonStringReader {
    /// Reads a character. Returns `false` if the character was not used.
    fn next(&mut self, character: char, out: &mut String) -> Result<bool, StringError> {
        match (self.at, character) {
            (StringState::Start, ' ' | '\t' | '\n' | '\r') => {}
            (StringState::Start, '"') => self.at = StringState::Text,
            (StringState::Start, _) if self.policy == JsonPolicy::Strict => {
                return Err(StringError::Expected("a JSON string"));
            }
            (StringState::Start, _) => {
                self.at = StringState::Bare;
                return Ok(false);
            }
            (StringState::Text, '"') => self.close(out)?,
            (StringState::Text, '\\') => self.at = StringState::Escape,
            (StringState::Text, control) if self.policy == JsonPolicy::Lenient => self.give_character(control, out)?,
            (StringState::Text, _) => return Err(StringError::Expected("a control character to be escaped")),
            (StringState::Escape, _) => self.escape(character, out)?,
            (StringState::Hex { code, left, high }, _) => {
                let digit =
                    character.to_digit(16).ok_or(StringError::Expected("four hexadecimal digits after `\\u`"))?;
                let code = code * 16 + digit;
                match left {
                    1 => self.unit(high, code, out)?,
                    _ => self.at = StringState::Hex { code, left: left - 1, high },
                }
            }
            (StringState::Pair { high }, '\\') => self.at = StringState::PairEscape { high },
            (StringState::PairEscape { high }, 'u') => {
                self.at = StringState::Hex { code: 0, left: 4, high: Some(high) }
            }
            (StringState::Pair { high }, _) => {
                self.half(high, out)?;
                self.at = StringState::Text;
                return Ok(false);
            }
            (StringState::PairEscape { high }, _) => {
                self.half(high, out)?;
                self.at = StringState::Escape;
                return Ok(false);
            }
            (StringState::Bare | StringState::Done, _) => return Ok(false),
        }
        Ok(true)
    }

    fn escape(&mut self, character: char, out: &mut String) -> Result<(), StringError> {
        self.at = StringState::Text;
        let meant = match character {
            '"' | '\\' | '/' => character,
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => {
                self.at = StringState::Hex { code: 0, left: 4, high: None };
                return Ok(());
            }
            _ => return Err(StringError::Expected("an escape such as `\\n`")),
        };
        self.give_character(meant, out)
    }

    /// Handles a complete `\u` escape, possibly the second of a pair.
    fn unit(&mut self, high: Option<u32>, code: u32, out: &mut String) -> Result<(), StringError> {
        self.at = StringState::Text;
        match high {
            Some(high) if LOW.contains(&code) => {
                let code = 0x10000 + ((high - HIGH.start()) << 10) + (code - LOW.start());
                return char::from_u32(code).map_or(Ok(()), |character| self.give_character(character, out));
            }
            Some(high) => self.half(high, out)?,
            None => {}
        }
        match char::from_u32(code) {
            Some(character) => self.give_character(character, out),
            None if HIGH.contains(&code) => {
                self.at = StringState::Pair { high: code };
                Ok(())
            }
            None => self.half(code, out),
        }
    }

    /// Outputs an unpaired surrogate, which is valid only inside a string of the JSON inside.
    fn half(&mut self, code: u32, out: &mut String) -> Result<(), StringError> {
        if !self.inner.is_in_string() {
            return Err(StringError::Inside(Why::BadValue(
                "expected JSON in the string, found an unpaired surrogate".into(),
            )));
        }
        self.give(&format!("\\u{code:04x}"), out).map_err(|(_, why)| StringError::Inside(why))
    }

    /// Closes the string. The JSON inside must be complete. Unless strict, an empty string means no
    /// arguments.
    fn close(&mut self, out: &mut String) -> Result<(), StringError> {
        if self.inner.is_at_start() && self.policy == JsonPolicy::Lenient {
            out.push_str("{}");
        } else if self.inner.end() != ReaderState::Done {
            return Err(StringError::Expected("the rest of the JSON in the string"));
        }
        self.at = StringState::Done;
        Ok(())
    }

    fn give_character(&mut self, character: char, out: &mut String) -> Result<(), StringError> {
        self.give(character.encode_utf8(&mut [0; 4]), out).map_err(|(_, why)| StringError::Inside(why))
    }

    /// Passes text to the JSON reader. On error, returns the number of valid bytes.
    fn give(&mut self, text: &str, out: &mut String) -> Result<(), (usize, Why)> {
        let step = self.inner.push(text, out);
        match step.state {
            ReaderState::More => Ok(()),
            ReaderState::Bad(why) => Err((step.used, why)),
            ReaderState::Done => {
                match text[step.used..].find(|character| !matches!(character, ' ' | '\t' | '\n' | '\r')) {
                    None => Ok(()),
                    Some(at) => {
                        Err((step.used + at, Why::BadValue("expected nothing after the JSON in the string".into())))
                    }
                }
            }
        }
    }
}
