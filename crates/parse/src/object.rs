use std::sync::Arc;

use crate::progress::Falling;
use crate::reply::{INDEX, Keys, has_index};
use crate::shared::Shared;
use crate::values::{ReaderState, ValueReader, ValueStep};
use crate::{JsonPolicy, Why};
use rolecall_conversation::{Json, json};

/// A call written as a JSON object, parsed while it streams.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    keys: Arc<Keys>,
    /// Whether the call has no marker. An object that is not a call is then rejected as early as
    /// possible.
    is_bare: bool,
    at: ObjectState,
    /// The number of open objects.
    depth: usize,
    has_name: bool,
    has_id: bool,
    has_arguments: bool,
    /// Arguments that came before the name.
    pub early: String,
    /// The number of bytes since the last key began.
    entry: usize,
}

#[derive(Clone, Debug)]
enum ObjectState {
    /// Before the opening brace.
    Start,
    /// Before a key or the closing brace, and whether a comma came before.
    Key(bool),
    /// In a key.
    InKey(Box<Short>),
    /// Before the colon.
    Colon(KeyKind),
    /// Before a value.
    Before(KeyKind),
    /// In a value.
    Value(KeyKind, Box<Short>),
    /// After a value.
    Behind,
}

/// A key or a value while it is read, up to the cap.
#[derive(Clone, Debug)]
struct Short {
    reader: ValueReader,
    spelling: String,
    /// The number of bytes read from the output. The spelling may be longer because of escapes, so
    /// only this count reaches the cap at the same byte in every chunking.
    used: usize,
}

/// The role of a key's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyKind {
    Name,
    Id,
    Arguments,
    Wrapper,
    /// A key of the layout whose value is always the same, by its place among the layout's keys.
    Constant(usize),
    /// The kind of the call, which is always a function.
    Type,
    /// The place of the call among the calls.
    Index,
    /// A key that is not in any layout.
    Other,
}

/// The result of reading a part of the object.
#[derive(Debug)]
pub(crate) enum ObjectPart {
    /// All the input was read. More arguments were written.
    More,
    /// All the input was read.
    Wait,
    Name(String),
    Id(String),
    /// The arguments begin.
    Arguments,
    /// The arguments end. Their last text was written.
    ArgumentsOver,
    /// A key without a meaning ends, or a key with a value that the layout does not have. Together
    /// with its value, the key has this many bytes.
    Unread(usize),
    /// The object ends.
    Done,
    Bad(Why),
}

/// The kind of every call in JSON, as most families write it.
const FUNCTION: &str = "function";

/// The maximum length of a constant value, in bytes.
const CONSTANT: usize = 1024;

/// Keys that are common in the object of a call.
const USUAL: [&str; 6] = ["name", "arguments", "parameters", "id", "type", "function"];

impl Object {
    pub fn new(keys: Arc<Keys>, is_bare: bool) -> Object {
        Object {
            at: if keys.is_open { ObjectState::Key(false) } else { ObjectState::Start },
            depth: usize::from(keys.is_open),
            keys,
            is_bare,
            has_name: false,
            has_id: false,
            has_arguments: false,
            early: String::new(),
            entry: 0,
        }
    }

    /// Reports whether the arguments have begun.
    pub fn has_arguments(&self) -> bool {
        self.has_arguments
    }

    /// Returns the number of bytes of a key, with its value, that has begun and not ended.
    pub fn unended(&self) -> usize {
        match self.at {
            ObjectState::InKey(..) | ObjectState::Colon(_) | ObjectState::Before(_) | ObjectState::Value(..) => {
                self.entry
            }
            ObjectState::Start | ObjectState::Key(_) | ObjectState::Behind => 0,
        }
    }

    /// Returns the number of bytes of a key, with its value, that counts towards a cap.
    pub fn held(&self) -> usize {
        match self.at {
            ObjectState::Value(KeyKind::Arguments, _) => 0,
            _ => self.unended(),
        }
    }

    /// Reports whether a text only continues a string in the arguments.
    pub fn is_plain(&self, text: &str) -> bool {
        matches!(&self.at, ObjectState::Value(KeyKind::Arguments, value) if value.reader.is_plain(text))
    }

    /// Reads up to the next part, and returns the number of bytes read and the part.
    pub fn read(&mut self, text: &str, shared: &Shared, out: &mut String) -> (usize, ObjectPart) {
        let mut used = 0;
        let mut progress = Falling::default();
        loop {
            let rest = &text[used..];
            progress.check((rest.len(), self.rank()));
            let is_value = matches!(self.at, ObjectState::InKey(..) | ObjectState::Value(..));
            if !is_value {
                let skipped = rest.len() - rest.trim_start().len();
                if skipped > 0 {
                    used += skipped;
                    self.entry += skipped;
                    continue;
                }
            }
            let Some(next) = rest.chars().next() else {
                return (used, if out.is_empty() { ObjectPart::Wait } else { ObjectPart::More });
            };
            let mut at = std::mem::replace(&mut self.at, ObjectState::Behind);
            if matches!(at, ObjectState::Key(_)) {
                self.entry = 0;
            }
            let (step, part) = self.step(&mut at, rest, next, shared, out);
            used += step;
            self.entry += step;
            self.at = at;
            let part = match part {
                Some(ObjectPart::Unread(_)) => Some(ObjectPart::Unread(self.entry)),
                part => part,
            };
            if let Some(part) = part {
                return (used, part);
            }
        }
    }

    /// Reads up to the next state, or as far as the input goes. `next` is the first character of
    /// `rest`. Returns the number of bytes read.
    // Long: one arm for each state; splitting it would hide the transitions.
    #[inline(always)]
    fn step(
        &mut self,
        at: &mut ObjectState,
        rest: &str,
        next: char,
        shared: &Shared,
        out: &mut String,
    ) -> (usize, Option<ObjectPart>) {
        let mut used = 0;
        let part = match at {
            ObjectState::Start => match next {
                '{' => {
                    used += 1;
                    self.depth += 1;
                    *at = ObjectState::Key(false);
                    None
                }
                _ => Some(expected("a JSON object")),
            },
            ObjectState::Key(_) if next == '"' => {
                *at = ObjectState::InKey(Box::new(Short::new(ValueReader::json(shared.options.json))));
                None
            }
            ObjectState::Key(false) if next == '}' => {
                used += 1;
                self.depth -= 1;
                *at = ObjectState::Behind;
                (self.depth == 0).then_some(ObjectPart::Done)
            }
            // A comma after the last value.
            ObjectState::Key(true) if next == '}' && shared.options.json == JsonPolicy::Lenient => {
                *at = ObjectState::Behind;
                None
            }
            ObjectState::Key(_) => Some(expected("a quoted key")),
            ObjectState::InKey(key) => {
                let (step, is_cut) = key.push(rest, self.is_bare, shared);
                used += step.used;
                match step.state {
                    ReaderState::More if is_cut => Some(ObjectPart::Bad(Why::TooLong)),
                    ReaderState::More if self.is_bare && !self.may_become(&key.spelling) => {
                        Some(expected("the name or arguments of a call"))
                    }
                    ReaderState::More => None,
                    ReaderState::Done => match json::parse(&key.spelling) {
                        Ok(Json::String(key)) => {
                            let kind = self.kind_of(&key);
                            *at = ObjectState::Colon(kind);
                            self.end_key(key, kind)
                        }
                        _ => Some(expected("a quoted key")),
                    },
                    ReaderState::Bad(why) => Some(ObjectPart::Bad(why)),
                }
            }
            ObjectState::Colon(kind) if next == ':' => {
                used += 1;
                *at = ObjectState::Before(*kind);
                None
            }
            ObjectState::Colon(_) => Some(expected("`:`")),
            ObjectState::Before(KeyKind::Wrapper) if next == '{' => {
                used += 1;
                self.depth += 1;
                *at = ObjectState::Key(false);
                None
            }
            ObjectState::Before(kind) => {
                let kind = self.kind_of_value(*kind, next);
                let reader = match (kind, next) {
                    (KeyKind::Arguments, '"') => ValueReader::json_string(shared.options.json),
                    _ => ValueReader::json(shared.options.json),
                };
                *at = ObjectState::Value(kind, Box::new(Short::new(reader)));
                let is_arguments = kind == KeyKind::Arguments;
                self.has_arguments |= is_arguments;
                is_arguments.then_some(ObjectPart::Arguments)
            }
            ObjectState::Value(kind, value) => {
                let (step, is_cut) = match kind {
                    KeyKind::Arguments => (value.reader.push(rest, out), false),
                    KeyKind::Name | KeyKind::Id => value.push(rest, self.is_bare, shared),
                    _ => (value.reader.push(rest, &mut value.spelling), false),
                };
                used += step.used;
                let spelling = &mut value.spelling;
                let is_constant = matches!(kind, KeyKind::Constant(_) | KeyKind::Type | KeyKind::Index);
                if is_constant && spelling.len() > CONSTANT {
                    *kind = KeyKind::Other;
                }
                if *kind == KeyKind::Other {
                    spelling.clear();
                }
                let is_open = self.is_bare && *kind == KeyKind::Name && step.state == ReaderState::More;
                match step.state {
                    ReaderState::More if is_open && !is_name_of_tool(spelling, shared) => Some(expected("a tool name")),
                    ReaderState::More if is_cut => Some(ObjectPart::Bad(Why::TooLong)),
                    ReaderState::More => None,
                    ReaderState::Done => {
                        let (kind, spelling) = (*kind, std::mem::take(spelling));
                        *at = ObjectState::Behind;
                        self.end_value(kind, &spelling)
                    }
                    ReaderState::Bad(why) => Some(ObjectPart::Bad(why)),
                }
            }
            ObjectState::Behind => match next {
                ',' if self.depth > 0 => {
                    used += 1;
                    *at = ObjectState::Key(true);
                    None
                }
                '}' if self.depth > 0 => {
                    used += 1;
                    self.depth -= 1;
                    (self.depth == 0).then_some(ObjectPart::Done)
                }
                _ => Some(expected("`,` or `}`")),
            },
        };
        (used, part)
    }

    /// Returns the part that a key completes.
    fn end_key(&self, key: String, kind: KeyKind) -> Option<ObjectPart> {
        let is_odd = !matches!(kind, KeyKind::Name | KeyKind::Id | KeyKind::Arguments | KeyKind::Wrapper)
            && !USUAL.contains(&key.as_str());
        if self.is_bare && is_odd && !self.has_name {
            return Some(expected("the name or arguments of a call"));
        }
        (self.keys.name_is_key && kind == KeyKind::Arguments).then_some(ObjectPart::Name(key))
    }

    /// Returns the part that a value completes.
    fn end_value(&mut self, kind: KeyKind, spelling: &str) -> Option<ObjectPart> {
        if kind == KeyKind::Arguments {
            return Some(ObjectPart::ArgumentsOver);
        }
        match (kind, json::parse(spelling)) {
            (KeyKind::Name, Ok(Json::String(name))) => {
                self.has_name = true;
                Some(ObjectPart::Name(name))
            }
            (KeyKind::Id, Ok(Json::String(id))) => {
                self.has_id = true;
                Some(ObjectPart::Id(id))
            }
            (KeyKind::Id, Ok(Json::Null)) => None,
            (KeyKind::Type, Ok(Json::String(word))) if word == FUNCTION => None,
            (KeyKind::Index, Ok(value)) if has_index(INDEX, &value) => None,
            (KeyKind::Constant(at), Ok(value)) if self.keys.constants[at].has(&value) => None,
            _ => Some(ObjectPart::Unread(0)),
        }
    }

    /// Returns the rank of the state. A step that reads no byte must lead to a state of a lower
    /// rank.
    fn rank(&self) -> u8 {
        match self.at {
            ObjectState::Start => 6,
            ObjectState::Key(_) => 5,
            ObjectState::InKey(..) => 4,
            ObjectState::Colon(_) => 3,
            ObjectState::Before(_) => 2,
            ObjectState::Value(..) => 1,
            ObjectState::Behind => 0,
        }
    }

    fn kind_of(&self, key: &str) -> KeyKind {
        let keys = &self.keys;
        if keys.name_is_key {
            return if self.depth == 1 && !self.has_arguments { KeyKind::Arguments } else { KeyKind::Other };
        }
        // If two keys have the same meaning, the first one counts.
        if key == keys.name {
            return if self.has_name { KeyKind::Other } else { KeyKind::Name };
        }
        if key == keys.arguments {
            return if self.has_arguments { KeyKind::Other } else { KeyKind::Arguments };
        }
        if keys.id.as_deref() == Some(key) {
            return if self.has_id { KeyKind::Other } else { KeyKind::Id };
        }
        if keys.wrappers.iter().any(|wrapper| wrapper == key) {
            return KeyKind::Wrapper;
        }
        match key {
            "name" if !self.has_name => KeyKind::Name,
            "arguments" | "parameters" if !self.has_arguments => KeyKind::Arguments,
            "id" if keys.id.is_none() && !self.has_id => KeyKind::Id,
            "function" if !self.has_name => KeyKind::Wrapper,
            _ => match keys.constants.iter().position(|constant| constant.key == key) {
                Some(at) => KeyKind::Constant(at),
                None if key == "type" => KeyKind::Type,
                None if key == "index" => KeyKind::Index,
                None => KeyKind::Other,
            },
        }
    }

    /// Returns the role of a value after a key of this kind. `next` is the value's first character.
    fn kind_of_value(&self, kind: KeyKind, next: char) -> KeyKind {
        match kind {
            // `"function": "get_weather"` gives the name.
            KeyKind::Wrapper if next == '"' && !self.has_name => KeyKind::Name,
            KeyKind::Wrapper => KeyKind::Other,
            KeyKind::Name if next != '"' => KeyKind::Other,
            kind => kind,
        }
    }

    /// Reports whether the start of a key, with its quote, may become a key of a call.
    fn may_become(&self, spelling: &str) -> bool {
        if self.has_name || self.keys.name_is_key {
            return true;
        }
        let start = spelling.trim_start_matches('"');
        let own = [Some(self.keys.name.as_str()), Some(self.keys.arguments.as_str()), self.keys.id.as_deref()];
        let known = own.into_iter().flatten().chain(self.keys.wrappers.iter().map(String::as_str)).chain(USUAL);
        known.into_iter().any(|key| key.starts_with(start))
    }
}

impl Short {
    fn new(reader: ValueReader) -> Short {
        Short { reader, spelling: String::new(), used: 0 }
    }

    /// Reads up to the cap, and reports whether text is left. A bare object is read one character
    /// at a time, so that it is rejected at the same character in every chunking.
    fn push(&mut self, text: &str, is_bare: bool, shared: &Shared) -> (ValueStep, bool) {
        let mut end = text.len().min(shared.cap().saturating_sub(self.used));
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let first = text.chars().next().map_or(0, char::len_utf8);
        let is_cut = end < if is_bare { first } else { text.len() };
        let step = self.reader.push(&text[..if is_bare { first.min(end) } else { end }], &mut self.spelling);
        self.used += step.used;
        (step, is_cut)
    }
}

fn is_name_of_tool(spelling: &str, shared: &Shared) -> bool {
    let start = spelling.trim_start_matches('"');
    let tools = &shared.options.tools;
    tools.is_empty() || tools.iter().any(|tool| tool.name().starts_with(start))
}

fn expected(what: &str) -> ObjectPart {
    ObjectPart::Bad(Why::Expected(what.to_owned()))
}
