mod ends;
mod escapes;
mod reading;
mod word;

use ends::{End, begins_call, find_break, find_end};
use reading::{begin, has_required, how_of, schema_of};

use crate::cursor::Cursor;
use crate::elements::{ElementPlace, Elements};
use crate::marks::{Here, Marks};
use crate::progress::Falling;
use crate::reply::{Between, ElementLayout, List, ValueEnd, ValueForm, ValueLayout};
use crate::shared::Shared;
use crate::tail::Tail;
use crate::values::{ReaderState, Schema, TextValue, Types, ValueReader};
use crate::{Malformed, Stop, Why};
use rolecall_format::codec::attribute;

/// A list of arguments, each in the layout of an argument, parsed while it streams. The result is
/// one JSON object.
#[derive(Clone, Debug)]
pub(crate) struct Arguments {
    at: ArgumentState,
    /// Whether an argument has begun.
    has_begun: bool,
    /// The number of arguments written.
    count: usize,
    /// The text of the current argument up to its value, while none of it is written.
    unsaid: String,
    /// The number of its bytes that belong to the prompt.
    hidden: usize,
    /// A part of the arguments that does not match the layout, not emitted yet.
    pub report: Option<Malformed>,
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
enum ArgumentState {
    /// Before an argument, or after the last one.
    Between,
    Key(Key),
    Middle(Key),
    /// In the word for the kind of the value, before or after the key.
    Word(Key, Option<usize>),
    /// After that word.
    WordEnd(Key, Option<usize>),
    /// In white space before a value, with the number of its bytes read.
    Pad(ArgumentReading, usize),
    Value(ArgumentReading),
}

/// The text before a value.
#[derive(Clone, Debug, Default)]
struct Key {
    name: String,
    /// The word for the kind of the value.
    word: String,
}

/// A value that is being parsed.
#[derive(Clone, Debug)]
struct ArgumentReading {
    key: Key,
    /// The types that the word for the kind names.
    types: Option<Types>,
    /// The text that closes the value, if it depends on the key or on the word.
    close: Option<Box<Close>>,
    kind: usize,
    how: How,
    /// Whether the key was written.
    is_open: bool,
    /// The start of an escape at the end of the text so far, which is not written yet.
    escape: String,
    /// The end of the text so far, if the layout keeps it.
    tail: Tail,
    /// Where the closing marker is missing, as the text tells.
    damaged: Option<u64>,
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
    /// Nested elements.
    Elements(Box<Elements>),
    /// A literal, which needs no closing marker.
    Literal(Box<ValueReader>),
}

/// Text that closes one value.
#[derive(Clone, Debug)]
struct Close {
    is_strong: bool,
    closes: Marks<bool>,
    cdata_closes: Marks<bool>,
}

/// The maximum length of a key, in bytes.
const KEY: usize = 4096;

impl Arguments {
    pub fn new() -> Arguments {
        Arguments {
            at: ArgumentState::Between,
            has_begun: false,
            count: 0,
            unsaid: String::new(),
            hidden: 0,
            report: None,
        }
    }

    /// Reads as far as the input goes, but returns once when the first argument begins. `Done` is
    /// the end of the list. The text that closes the call is not consumed.
    pub fn read(&mut self, callee: &Callee<'_>, cursor: &mut Cursor<'_, '_>, out: &mut String) -> ReaderState {
        let mut progress = Falling::default();
        loop {
            progress.check((cursor.rest().len(), self.rank()));
            let from = cursor.at;
            let is_value = matches!(self.at, ArgumentState::Value(_));
            let state = match std::mem::replace(&mut self.at, ArgumentState::Between) {
                ArgumentState::Between => self.between(callee, cursor, out),
                ArgumentState::Key(key) => self.key(key, callee, cursor),
                ArgumentState::Middle(key) => self.middle(key, callee, cursor),
                ArgumentState::Word(key, kind) => self.word(key, kind, callee, cursor),
                ArgumentState::WordEnd(key, kind) => self.word_end(key, kind, callee, cursor),
                ArgumentState::Pad(reading, seen) => self.pad(reading, seen, callee.list, cursor),
                ArgumentState::Value(reading) => self.value(reading, callee, cursor, out),
            };
            let began = !self.has_begun && !matches!(self.at, ArgumentState::Between);
            self.has_begun |= began;
            match &self.at {
                ArgumentState::Between if !matches!(state, Some(ReaderState::Bad(_))) => self.forget(),
                ArgumentState::Value(reading) if reading.is_open => self.forget(),
                _ if !is_value => self.unsaid.push_str(&cursor.text()[from..cursor.at]),
                _ => {}
            }
            // Return, so that the caller can announce the call or emit the report.
            if let Some(state) = state.or_else(|| (began || self.report.is_some()).then_some(ReaderState::More)) {
                return state;
            }
        }
    }

    /// Returns the rank of the state. A step that reads no byte must lead to a state of a lower
    /// rank.
    fn rank(&self) -> u8 {
        match self.at {
            ArgumentState::Pad(..) => 9,
            ArgumentState::Value(_) => 8,
            ArgumentState::Between => 7,
            ArgumentState::Word(_, None) => 6,
            ArgumentState::WordEnd(_, None) => 5,
            ArgumentState::Key(_) => 4,
            ArgumentState::Middle(_) => 3,
            ArgumentState::Word(_, Some(_)) => 2,
            ArgumentState::WordEnd(_, Some(_)) => 1,
        }
    }

    /// Reads a text that only continues a string between markers, and reports whether it does.
    pub fn continues(&mut self, list: &List, text: &str) -> bool {
        match &mut self.at {
            ArgumentState::Value(ArgumentReading { how: How::Text(_), kind, is_open: true, escape, tail, .. })
                if escape.is_empty() =>
            {
                let kind = &list.kinds[*kind];
                // A value without quotes has no marker of its own.
                let is_escaped = kind.quote().is_some() && text.contains('\\');
                let bytes = text.as_bytes();
                let is_plain = !matches!(kind.form, ValueForm::Bare)
                    && !is_escaped
                    && kind.closes.is_plain(bytes)
                    && list.breaks.is_plain(bytes);
                if is_plain && list.keeps_tail(kind) {
                    tail.push(text);
                }
                is_plain
            }
            _ => false,
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
            ArgumentState::Value(ArgumentReading { how: How::Typed(raw), .. }) => format!("{before}{raw}"),
            ArgumentState::Value(ArgumentReading { how: How::Elements(elements), .. }) => {
                format!("{before}{}", elements.raw())
            }
            ArgumentState::Value(ArgumentReading { how: How::Literal(reader), .. }) => {
                format!("{before}{}", reader.unsaid())
            }
            _ => before.to_owned(),
        }
    }

    fn forget(&mut self) {
        self.unsaid.clear();
        self.hidden = 0;
    }

    fn between(&mut self, callee: &Callee<'_>, cursor: &mut Cursor<'_, '_>, out: &mut String) -> Option<ReaderState> {
        let list = callee.list;
        cursor.skip_space();
        // The model may stop within the text after all arguments.
        let stops = cursor.is_last() && callee.shared.stop == Some(Stop::End);
        if cursor.is_at_end() {
            let may_end = || list.may_end && stops && (self.count > 0 || !has_required(callee));
            return Some(self.over((list.end.is_empty() && cursor.is_last()) || may_end(), out));
        }
        if cursor.is_last() && list.end.text().starts_with(cursor.rest()) && list.end.text() != cursor.rest() {
            // It may as well be the beginning of another argument.
            let is_end = !list.open.text().trim_start().starts_with(cursor.rest());
            return Some(self.over(stops && is_end, out));
        }
        match cursor.marker_here(&list.between) {
            Here::Open => Some(ReaderState::More),
            Here::Mark(end, action) => match list.between.action(action) {
                Between::End | Between::Call => Some(self.over(true, out)),
                Between::Separator => match begins_call(callee, cursor.text()[end..].trim_start(), cursor.is_last()) {
                    // Another call follows, and the end of this one is missing.
                    Some(true) => Some(self.over(true, out)),
                    Some(false) => {
                        cursor.at = end;
                        None
                    }
                    None => Some(ReaderState::More),
                },
                Between::Open => {
                    cursor.at = end;
                    self.begin(list)
                }
            },
            Here::Nothing if list.open.is_empty() => self.begin(list),
            Here::Nothing if list.end.is_empty() => Some(self.over(true, out)),
            Here::Nothing => {
                let expected = [&list.open, &list.end].map(|literal| format!("`{}`", literal.text().trim()));
                Some(ReaderState::Bad(Why::Expected(expected.join(" or "))))
            }
        }
    }

    fn begin(&mut self, list: &List) -> Option<ReaderState> {
        self.at = match list.word {
            Some(_) => ArgumentState::Word(Key::default(), None),
            None => ArgumentState::Key(Key::default()),
        };
        None
    }

    fn over(&self, is_over: bool, out: &mut String) -> ReaderState {
        if !is_over {
            return ReaderState::More;
        }
        out.push_str(if self.count == 0 { "{}" } else { "}" });
        ReaderState::Done
    }

    fn key(&mut self, mut key: Key, callee: &Callee<'_>, cursor: &mut Cursor<'_, '_>) -> Option<ReaderState> {
        let list = callee.list;
        let stop = |kind: &ValueLayout| match kind.middle_lead.bytes().next() {
            Some(space) => Some(space),
            None => kind.middle.byte(0).map(|(byte, _)| byte),
        };
        let stops: Vec<Option<u8>> = list.kinds.iter().map(stop).collect();
        let rest = cursor.rest();
        let end = rest.bytes().position(|byte| stops.contains(&Some(byte)));
        let end = end.filter(|end| rest.is_char_boundary(*end));
        // In Python syntax, a key is a word. The name of a tag contains no other tag.
        let is_word = |character: char| {
            character.is_alphanumeric() || matches!(character, '_' | '-' | '.') || character.is_whitespace()
        };
        let is_tag = list.has_keys_as_tags();
        let is_in_tag =
            !list.open.is_empty() && list.kinds.iter().any(|kind| kind.middle.core().text().starts_with('>'));
        let is_odd = |character: char| {
            (list.open.is_empty() && !is_word(character))
                || (is_tag && matches!(character, '<' | '/'))
                || (is_in_tag && matches!(character, '<' | '\n'))
        };
        let odd = rest.find(is_odd).filter(|odd| end.is_none_or(|end| *odd < end));
        match take_word(&mut key.name, odd.or(end), callee, cursor) {
            Some(state) => return Some(state),
            None if odd.is_some() => return Some(ReaderState::Bad(Why::Expected("an argument name".into()))),
            None => {}
        }
        match end {
            None => {
                self.at = ArgumentState::Key(key);
                Some(ReaderState::More)
            }
            Some(_) => {
                key.name = key.name.trim().to_owned();
                if list.escapes_keys {
                    key.name = attribute::unescape(&key.name).into_owned();
                }
                self.at = ArgumentState::Middle(key);
                None
            }
        }
    }

    fn middle(&mut self, key: Key, callee: &Callee<'_>, cursor: &mut Cursor<'_, '_>) -> Option<ReaderState> {
        let list = callee.list;
        match cursor.marker_here(&list.middles) {
            Here::Open => {
                self.at = ArgumentState::Middle(key);
                Some(ReaderState::More)
            }
            Here::Nothing => {
                let middle = list.kinds.first().map(|kind| kind.middle.text()).unwrap_or_default();
                Some(ReaderState::Bad(Why::Expected(format!("`{middle}`"))))
            }
            Here::Mark(end, action) => {
                cursor.at = end;
                let number = *list.middles.action(action);
                match list.kinds[number].word {
                    Some(_) => self.at = ArgumentState::Word(key, Some(number)),
                    None => self.begin_value(key, number, callee),
                }
                None
            }
        }
    }

    fn begin_value(&mut self, key: Key, number: usize, callee: &Callee<'_>) {
        let Callee { list, shared, .. } = callee;
        let kind = &list.kinds[number];
        let word = kind.word.as_ref().or(list.word.as_ref());
        let types = word.and_then(|word| Types::of_word(&word.words, key.word.trim()));
        let how = match (&kind.form, &kind.end) {
            (ValueForm::Bare, _) => How::Unknown,
            (_, ValueEnd::Literal) => How::Literal(Box::new(ValueReader::literal(shared.options.json, shared.cap()))),
            (ValueForm::Cdata, _) => How::Unknown,
            _ => how_of(callee, kind, &key.name, types),
        };
        let text = kind.close_of(&key.name, &key.word);
        let how = match (how, &kind.form) {
            (How::Typed(_), ValueForm::Elements(layout)) => {
                let known = || schema_of(callee, &key.name).map_or(Types::ANY, Schema::types);
                let close = text.as_ref().unwrap_or(&kind.whole_close);
                How::Elements(Box::new(Elements::new(layout, types.unwrap_or_else(known), close)))
            }
            (how, _) => how,
        };
        let close = text.map(|close| {
            let (closes, cdata_closes) = ValueLayout::closes_of(&close);
            Box::new(Close { is_strong: close.is_strong(), closes, cdata_closes })
        });
        self.at = ArgumentState::Pad(
            ArgumentReading {
                key,
                types,
                close,
                kind: number,
                how,
                is_open: false,
                escape: String::new(),
                tail: Tail::default(),
                damaged: None,
            },
            0,
        );
    }

    fn pad(
        &mut self,
        reading: ArgumentReading,
        mut seen: usize,
        list: &List,
        cursor: &mut Cursor<'_, '_>,
    ) -> Option<ReaderState> {
        let is_over = cursor.skip_pad(&list.kinds[reading.kind].pad, &mut seen);
        self.at = if is_over { ArgumentState::Value(reading) } else { ArgumentState::Pad(reading, seen) };
        (!is_over).then_some(ReaderState::More)
    }

    fn value(
        &mut self,
        mut reading: ArgumentReading,
        callee: &Callee<'_>,
        cursor: &mut Cursor<'_, '_>,
        out: &mut String,
    ) -> Option<ReaderState> {
        let kind = &callee.list.kinds[reading.kind];
        if matches!(reading.how, How::Unknown) {
            match begin(callee, kind, &reading, cursor) {
                Some(how) => reading.how = how,
                None => {
                    self.at = ArgumentState::Value(reading);
                    return Some(ReaderState::More);
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
            if step.state == ReaderState::Done {
                return self.value_over();
            }
            self.at = ArgumentState::Value(reading);
            return Some(step.state);
        }
        if let (How::Elements(_), ValueForm::Elements(layout)) = (&reading.how, &kind.form) {
            return self.elements(reading, layout, callee, cursor, out);
        }
        let End { text: end, after, is_broken } = find_end(&reading, callee, kind, cursor);
        let text = &cursor.text()[cursor.at..end];
        if let How::Typed(raw) = &mut reading.how
            && raw.len() + text.len() > callee.shared.cap()
        {
            // Cut at the same byte in every chunking.
            let left = callee.shared.cap().saturating_sub(raw.len());
            let taken = (0..=left).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            raw.push_str(&text[..taken]);
            cursor.at += taken;
            self.at = ArgumentState::Value(reading);
            return Some(ReaderState::Bad(Why::TooLong));
        }
        if is_broken {
            let why = unclosed(kind, &reading.key);
            let at = cursor.view().offset(end);
            self.report = Some(Malformed { span: at..at, why });
        }
        if callee.list.keeps_tail(kind) {
            let damaged = reading.damage(kind, callee, text, after == Some(end));
            reading.damaged = reading.damaged.or(damaged.map(|at| cursor.view().offset(cursor.at + at)));
            // Behind the value, as what was emitted of it before depends on the chunks.
            if let Some(at) = reading.damaged.filter(|_| after.is_some()) {
                self.report = Some(Malformed { span: at..at, why: unclosed(kind, &reading.key) });
            }
        }
        cursor.at = after.unwrap_or(end);
        if let Some(types) = reading.write(text, after.is_some(), callee, &mut self.count, out) {
            self.report_misfit(&reading, "", types, callee, cursor.view().offset(end));
        }
        if after.is_some() {
            return self.value_over();
        }
        self.at = ArgumentState::Value(reading);
        Some(ReaderState::More)
    }

    /// Reads a value whose parts are written as elements.
    fn elements(
        &mut self,
        mut reading: ArgumentReading,
        layout: &ElementLayout,
        callee: &Callee<'_>,
        cursor: &mut Cursor<'_, '_>,
        out: &mut String,
    ) -> Option<ReaderState> {
        let How::Elements(elements) = &mut reading.how else { return None };
        let kind = &callee.list.kinds[reading.kind];
        let place = ElementPlace { layout, schema: schema_of(callee, &reading.key.name), cap: callee.shared.cap() };
        let (view, broken) = (cursor.view(), find_break(callee, cursor, cursor.text().len()));
        let bound = broken.map_or(view, |(start, _)| view.up_to(start));
        let mut state = cursor.within(bound, |cursor| elements.read(&place, cursor));
        if state == ReaderState::More && broken.is_some_and(|(_, is_over)| is_over) {
            state = ReaderState::Bad(unclosed(kind, &reading.key));
        }
        if state == ReaderState::Done {
            let value = elements.json().to_owned();
            let misfit = elements.misfit().map(|(place, types)| (place.to_owned(), types));
            if let Some((place, types)) = misfit {
                self.report_misfit(&reading, &place, types, callee, cursor.offset());
            }
            reading.open(&mut self.count, out);
            out.push_str(&value);
            return self.value_over();
        }
        self.at = ArgumentState::Value(reading);
        Some(state)
    }

    /// Reports a text that becomes a string, although a value of these types belongs at a place within the argument. It
    /// tells nothing new if all arguments are checked against the schema.
    fn report_misfit(&mut self, reading: &ArgumentReading, place: &str, types: Types, callee: &Callee<'_>, at: u64) {
        if reading.types.is_some() || !callee.shared.options.check_schema {
            let place = format!("{}{place}", reading.key.name);
            let why = Why::Schema(format!("expected {types} at `{}`, found a string", place.escape_debug()));
            self.report.get_or_insert(Malformed { span: at..at, why });
        }
    }

    fn value_over(&mut self) -> Option<ReaderState> {
        self.at = ArgumentState::Between;
        None
    }
}

/// Returns the fault that a value is not closed.
fn unclosed(kind: &ValueLayout, key: &Key) -> Why {
    let close = kind.close_of(&key.name, &key.word).unwrap_or_else(|| kind.close.clone());
    Why::Expected(format!("`{}`", close.text().trim()))
}

/// Appends the text up to `end`, or all of it, to a word. Returns the fault if the word is too
/// long.
fn take_word(
    word: &mut String,
    end: Option<usize>,
    callee: &Callee<'_>,
    cursor: &mut Cursor<'_, '_>,
) -> Option<ReaderState> {
    let rest = cursor.rest();
    let most = callee.shared.cap().min(KEY).saturating_sub(word.len());
    let wanted = end.unwrap_or(rest.len());
    let mut taken = wanted.min(most);
    while !rest.is_char_boundary(taken) {
        taken -= 1;
    }
    word.push_str(&rest[..taken]);
    cursor.at += taken;
    (taken < wanted).then_some(ReaderState::Bad(Why::TooLong))
}
