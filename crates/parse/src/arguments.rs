use crate::Why;
use crate::cursor::Cursor;
use crate::literal::Literal;
use crate::marks::{Found, Here, Input};
use crate::progress::Falling;
use crate::reply::{Between, CDATA, List, ValueLayout};
use crate::shared::Shared;
use crate::values::{Schema, State, TextValue, ValueReader, typed, uncdata};
use rolecall_conversation::json;

/// A list of arguments, each in the layout of an argument, parsed while it streams. The result is
/// one JSON object.
#[derive(Clone, Debug)]
pub(crate) struct Arguments {
    at: At,
    /// Whether an argument has begun.
    has_begun: bool,
    /// The number of arguments written.
    count: usize,
    /// The text of the current argument up to its value, while none of it is written.
    unsaid: String,
    /// The number of its bytes that belong to the prompt.
    hidden: usize,
}

/// The call that the arguments belong to.
#[derive(Clone, Copy)]
pub(crate) struct Callee<'a> {
    pub list: &'a List,
    pub shared: &'a Shared,
    /// The function's name.
    pub name: &'a str,
}

#[derive(Clone, Debug)]
enum At {
    /// Before an argument, or after the last one.
    Between,
    Key(String),
    Middle(String),
    /// In white space before a value, with the number of its bytes read.
    Pad(Reading, usize),
    Value(Reading),
}

/// A value that is being parsed.
#[derive(Clone, Debug)]
struct Reading {
    key: String,
    kind: usize,
    how: How,
    /// Whether the key was written.
    is_open: bool,
}

#[derive(Clone, Debug)]
enum How {
    /// Not known before the first characters.
    Unknown,
    /// Text up to the closing marker, written as a JSON string.
    Text(TextValue),
    /// Text up to the closing marker, typed when it is complete.
    Typed(String),
    /// A CDATA section.
    Cdata(TextValue),
    /// A literal, which needs no closing marker.
    Literal(Box<ValueReader>),
}

/// The maximum length of a key, in bytes.
const KEY: usize = 4096;

/// The number of bytes to look at after a quote, to decide whether it closes the value.
const AHEAD: usize = 256;

impl Arguments {
    pub fn new() -> Arguments {
        Arguments { at: At::Between, has_begun: false, count: 0, unsaid: String::new(), hidden: 0 }
    }

    /// Reads as far as the input goes, but returns once when the first argument begins. `Done` is
    /// the end of the list. The text that closes the call is not consumed.
    pub fn read(&mut self, callee: &Callee<'_>, cursor: &mut Cursor<'_, '_>, out: &mut String) -> State {
        let mut progress = Falling::default();
        loop {
            progress.check((cursor.rest().len(), self.rank()));
            let from = cursor.at;
            let is_value = matches!(self.at, At::Value(_));
            let state = match std::mem::replace(&mut self.at, At::Between) {
                At::Between => self.between(callee.list, cursor, out),
                At::Key(key) => self.key(key, callee, cursor),
                At::Middle(key) => self.middle(key, callee, cursor),
                At::Pad(reading, seen) => self.pad(reading, seen, callee.list, cursor),
                At::Value(reading) => self.value(reading, callee, cursor, out),
            };
            let began = !self.has_begun && !matches!(self.at, At::Between);
            self.has_begun |= began;
            match &self.at {
                At::Between if !matches!(state, Some(State::Bad(_))) => self.forget(),
                At::Value(reading) if reading.is_open => self.forget(),
                _ if !is_value => self.unsaid.push_str(&cursor.text()[from..cursor.at]),
                _ => {}
            }
            // Return, so that the caller can announce the call.
            if let Some(state) = state.or_else(|| began.then_some(State::More)) {
                return state;
            }
        }
    }

    /// Returns the rank of the state. A step that reads no byte must lead to a state of a lower
    /// rank.
    fn rank(&self) -> u8 {
        match self.at {
            At::Pad(..) => 5,
            At::Value(_) => 4,
            At::Between => 3,
            At::Key(_) => 2,
            At::Middle(_) => 1,
        }
    }

    /// Reports whether an argument has begun.
    pub fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Records that the text so far belongs to the prompt.
    pub fn hide(&mut self) {
        self.hidden = self.read_of_it().len();
    }

    /// Returns the text of the current argument if none of it is written.
    pub fn unsaid(&self) -> String {
        self.read_of_it().get(self.hidden..).unwrap_or_default().to_owned()
    }

    fn read_of_it(&self) -> String {
        let before = self.unsaid.trim_start();
        match &self.at {
            At::Value(Reading { how: How::Typed(raw), .. }) => format!("{before}{raw}"),
            At::Value(Reading { how: How::Literal(reader), .. }) => format!("{before}{}", reader.unsaid()),
            _ => before.to_owned(),
        }
    }

    fn forget(&mut self) {
        self.unsaid.clear();
        self.hidden = 0;
    }

    fn between(&mut self, list: &List, cursor: &mut Cursor<'_, '_>, out: &mut String) -> Option<State> {
        cursor.skip_space();
        if cursor.is_at_end() {
            return Some(self.over(list.end.is_empty() && cursor.is_last(), out));
        }
        match cursor.marker_here(&list.between) {
            Here::Open => Some(State::More),
            Here::Mark(end, action) => match list.between.action(action) {
                Between::End => Some(self.over(true, out)),
                Between::Separator => {
                    cursor.at = end;
                    None
                }
                Between::Open => {
                    cursor.at = end;
                    self.at = At::Key(String::new());
                    None
                }
            },
            Here::Nothing if list.open.is_empty() => {
                self.at = At::Key(String::new());
                None
            }
            Here::Nothing if list.end.is_empty() => Some(self.over(true, out)),
            Here::Nothing => {
                let expected = [&list.open, &list.end].map(|literal| format!("`{}`", literal.text().trim()));
                Some(State::Bad(Why::Expected(expected.join(" or "))))
            }
        }
    }

    fn over(&self, is_over: bool, out: &mut String) -> State {
        if !is_over {
            return State::More;
        }
        out.push_str(if self.count == 0 { "{}" } else { "}" });
        State::Done
    }

    fn key(&mut self, mut key: String, callee: &Callee<'_>, cursor: &mut Cursor<'_, '_>) -> Option<State> {
        let list = callee.list;
        let stops: Vec<Option<(u8, bool)>> = list.kinds.iter().map(|kind| kind.middle.byte(0)).collect();
        let rest = cursor.rest();
        let end = rest.bytes().position(|byte| stops.iter().any(|stop| stop.is_some_and(|(stop, _)| stop == byte)));
        let end = end.filter(|end| rest.is_char_boundary(*end));
        // In Python syntax, a key is a word.
        let is_word = |character: char| {
            character.is_alphanumeric() || matches!(character, '_' | '-' | '.') || character.is_whitespace()
        };
        let odd = rest
            .find(|character| list.open.is_empty() && !is_word(character))
            .filter(|odd| end.is_none_or(|end| *odd < end));
        let most = callee.shared.cap().min(KEY).saturating_sub(key.len());
        let mut taken = odd.or(end).unwrap_or(rest.len()).min(most);
        while !rest.is_char_boundary(taken) {
            taken -= 1;
        }
        key.push_str(&rest[..taken]);
        cursor.at += taken;
        if taken < odd.or(end).unwrap_or(rest.len()) {
            return Some(State::Bad(Why::TooLong));
        }
        if odd.is_some() {
            return Some(State::Bad(Why::Expected("an argument name".into())));
        }
        match end {
            None => {
                self.at = At::Key(key);
                Some(State::More)
            }
            Some(_) => {
                self.at = At::Middle(key.trim().to_owned());
                None
            }
        }
    }

    fn middle(&mut self, key: String, callee: &Callee<'_>, cursor: &mut Cursor<'_, '_>) -> Option<State> {
        let Callee { list, shared, .. } = callee;
        match cursor.marker_here(&list.middles) {
            Here::Open => {
                self.at = At::Middle(key);
                Some(State::More)
            }
            Here::Nothing => {
                let middle = list.kinds.first().map(|kind| kind.middle.text()).unwrap_or_default();
                Some(State::Bad(Why::Expected(format!("`{middle}`"))))
            }
            Here::Mark(end, action) => {
                cursor.at = end;
                let number = *list.middles.action(action);
                let kind = &list.kinds[number];
                let how = match kind {
                    kind if kind.close.is_empty() => {
                        How::Literal(Box::new(ValueReader::literal(shared.options.json, shared.cap())))
                    }
                    kind if kind.cdata => How::Unknown,
                    kind => how_of(callee, kind, &key),
                };
                self.at = At::Pad(Reading { key, kind: number, how, is_open: false }, 0);
                None
            }
        }
    }

    fn pad(&mut self, reading: Reading, mut seen: usize, list: &List, cursor: &mut Cursor<'_, '_>) -> Option<State> {
        let is_over = cursor.skip_pad(&list.kinds[reading.kind].pad, &mut seen);
        self.at = if is_over { At::Value(reading) } else { At::Pad(reading, seen) };
        (!is_over).then_some(State::More)
    }

    fn value(
        &mut self,
        mut reading: Reading,
        callee: &Callee<'_>,
        cursor: &mut Cursor<'_, '_>,
        out: &mut String,
    ) -> Option<State> {
        let kind = &callee.list.kinds[reading.kind];
        if matches!(reading.how, How::Unknown) {
            match begin(callee, kind, &reading.key, cursor) {
                Some(how) => reading.how = how,
                None => {
                    self.at = At::Value(reading);
                    return Some(State::More);
                }
            }
        }
        if let How::Literal(reader) = &mut reading.how {
            let mut value = String::new();
            let step = reader.push(cursor.rest(), &mut value);
            cursor.at += step.used;
            if !value.is_empty() {
                reading.open(&mut self.count, out);
                out.push_str(&value);
            }
            if step.state == State::Done {
                return self.value_over();
            }
            self.at = At::Value(reading);
            return Some(step.state);
        }
        let (end, after) = find_end(&reading.how, callee, kind, cursor);
        let text = &cursor.text()[cursor.at..end];
        if let How::Typed(raw) = &mut reading.how
            && raw.len() + text.len() > callee.shared.cap()
        {
            // Cut at the same byte in every chunking.
            let left = callee.shared.cap().saturating_sub(raw.len());
            let taken = (0..=left).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            raw.push_str(&text[..taken]);
            cursor.at += taken;
            self.at = At::Value(reading);
            return Some(State::Bad(Why::TooLong));
        }
        cursor.at = after.unwrap_or(end);
        reading.write(text, after.is_some(), callee, &mut self.count, out);
        if after.is_some() {
            return self.value_over();
        }
        self.at = At::Value(reading);
        Some(State::More)
    }

    fn value_over(&mut self) -> Option<State> {
        self.at = At::Between;
        None
    }
}

impl Reading {
    /// Writes the key before the value, once.
    fn open(&mut self, count: &mut usize, out: &mut String) {
        if std::mem::replace(&mut self.is_open, true) {
            return;
        }
        out.push_str(if *count == 0 { "{" } else { ", " });
        *count += 1;
        json::write_string(out, &self.key, false);
        out.push_str(": ");
    }

    /// Writes the next text of a value between markers. `is_over` means that the value ends here.
    fn write(&mut self, text: &str, is_over: bool, callee: &Callee<'_>, count: &mut usize, out: &mut String) {
        match &mut self.how {
            How::Text(value) | How::Cdata(value) => {
                let mut text_out = String::new();
                value.push(text, &mut text_out);
                if is_over {
                    value.end(&mut text_out);
                }
                if is_over || !text_out.is_empty() {
                    self.open(count, out);
                    out.push_str(&text_out);
                }
            }
            How::Typed(raw) => {
                raw.push_str(text);
                if is_over {
                    // If strings have a separate layout, this value is not a string.
                    let schema = match callee.list.kinds.len() {
                        1 => Schema::of_function(&callee.shared.options.tools, callee.name)
                            .and_then(|schema| schema.property(&self.key)),
                        _ => None,
                    };
                    let value = typed(&uncdata(raw), schema);
                    self.open(count, out);
                    out.push_str(&value);
                }
            }
            How::Unknown | How::Literal(_) => {}
        }
    }
}

/// Returns how to parse a value that may be a CDATA section. Skips the section's opening. Returns
/// `None` if that is not known yet.
fn begin(callee: &Callee<'_>, kind: &ValueLayout, key: &str, cursor: &mut Cursor<'_, '_>) -> Option<How> {
    if cursor.rest().starts_with(CDATA.0) {
        cursor.at += CDATA.0.len();
        return Some(How::Cdata(TextValue::default()));
    }
    let may_be_cdata = CDATA.0.starts_with(cursor.rest()) && !cursor.is_last();
    (!may_be_cdata).then(|| how_of(callee, kind, key))
}

/// Returns the byte up to which the input belongs to a value between markers, and the byte after
/// the closing marker if the value ends there.
fn find_end(how: &How, callee: &Callee<'_>, kind: &ValueLayout, cursor: &Cursor<'_, '_>) -> (usize, Option<usize>) {
    let is_section = matches!(how, How::Cdata(_));
    let closes = if is_section { &kind.cdata_closes } else { &kind.closes };
    let input = cursor.input();
    let mut from = cursor.at;
    loop {
        return match cursor.find_marker(closes, from) {
            Found::Mark(start, end, _) if is_section || kind.close.is_strong() => (start, Some(end)),
            Found::Mark(start, end, _) => match shows_end(callee, input, end, cursor.is_last()) {
                Some(true) => (start, Some(end)),
                Some(false) => {
                    from = start + input.text[start..].chars().next().map_or(1, char::len_utf8);
                    continue;
                }
                None => (start, None),
            },
            Found::Open(start) => (start, None),
            Found::Nothing => (input.text.len(), None),
        };
    }
}

/// Returns how to parse a value between markers.
fn how_of(callee: &Callee<'_>, kind: &ValueLayout, key: &str) -> How {
    // If one layout serves all types, the tool's schema tells which values are strings.
    let is_string = kind.is_string
        || (callee.list.kinds.len() == 1
            && Schema::of_function(&callee.shared.options.tools, callee.name)
                .and_then(|schema| schema.property(key))
                .is_some_and(|schema| schema.types() == crate::values::Types::STRING));
    match is_string {
        true => How::Text(TextValue::default()),
        false => How::Typed(String::new()),
    }
}

/// Reports whether a marker that ends here closes the value. A quote does so only if another
/// argument or the end of the call follows. Returns `None` if that is not known yet.
fn shows_end(callee: &Callee<'_>, input: Input<'_>, end: usize, is_last: bool) -> Option<bool> {
    let Callee { list, shared, .. } = *callee;
    // Look no further than this, so that every chunking gives the same result.
    let ahead = input.up_to(end + AHEAD);
    let is_cut = ahead.text.len() < input.text.len();
    let (input, is_last) = (ahead, is_last && !is_cut);
    let rest = &input.text[end..];
    let open = if is_cut || is_last { Some(false) } else { None };
    let behind = |text: &str, literal: &Literal| -> Option<Option<usize>> {
        // `Some(Some(n))`: found, ends at byte `n`. `Some(None)`: not found. `None`: not known yet.
        let spaces = text.len() - text.trim_start().len();
        let text = &text[spaces..];
        let core = literal.core();
        if text.starts_with(core.text()) {
            return Some(Some(spaces + core.text().len()));
        }
        if core.text().starts_with(text) { None } else { Some(None) }
    };
    if !list.separator.is_empty() {
        match behind(rest, &list.separator) {
            None if !is_last => return open,
            Some(Some(used)) => {
                let after = rest[used..].trim_start();
                let after = match list.open.is_empty() {
                    true => after,
                    false => match after.strip_prefix(list.open.text()) {
                        Some(after) => after,
                        None if list.open.text().starts_with(after) => return open,
                        None => return Some(false),
                    },
                };
                let word = after.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '-' || c == '.'));
                return match word {
                    None => open,
                    Some(0) => Some(false),
                    Some(at) => {
                        let middles = list.kinds.iter().map(|kind| kind.middle.text());
                        Some(
                            middles
                                .into_iter()
                                .any(|middle| after[at..].starts_with(middle.get(..1).unwrap_or(middle))),
                        )
                    }
                };
            }
            _ => {}
        }
    }
    match behind(rest, &list.end) {
        Some(Some(used)) => match shared.ends_call(input, end + used, is_last) {
            None => open,
            known => known,
        },
        Some(None) => Some(false),
        None if is_last => Some(rest.trim().is_empty()),
        None => open,
    }
}
