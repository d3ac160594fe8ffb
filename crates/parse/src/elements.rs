//! Values whose lists and objects are nested elements, each named by its key.

use std::collections::HashSet;

use crate::Why;
use crate::cursor::Cursor;
use crate::literal::Literal;
use crate::marks::{MarkSearch, Marks, PendingInput};
use crate::progress::Falling;
use crate::reply::ElementLayout;
use crate::values::{ReaderState, Schema, TypedValue, Types, typed};
use rolecall_conversation::json;

/// A value that is being parsed. Its JSON is known when the value is complete, because a text that
/// begins with a tag may turn out to be a string.
#[derive(Clone, Debug)]
pub(crate) struct Elements {
    /// The open elements. The first is the value itself.
    frames: Vec<OpenElement>,
    /// The text read so far.
    raw: String,
    /// Its JSON, up to the innermost element.
    json: String,
    marks: Marks<Tag>,
    /// The text that closes the whole value.
    whole: String,
    /// The place within the value, and the types, of the first element whose text is of none of them.
    misfit: Option<(String, Types)>,
}

/// The kind of a marker that begins a tag or closes the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tag {
    Open,
    Close,
    /// The text that closes the whole value.
    Whole,
}

/// An open element.
#[derive(Clone, Debug)]
struct OpenElement {
    name: String,
    /// The types that the value may have.
    types: Types,
    mode: Mode,
    /// Where the element's content begins in the text and in the JSON.
    raw_at: usize,
    json_at: usize,
}

#[derive(Clone, Debug)]
enum Mode {
    /// Only white space so far.
    Unknown,
    /// Text up to the element's own closing tag.
    Leaf,
    Object(HashSet<String>),
    /// A list, and the name of its items.
    Array(Option<String>),
}

/// The meaning of a tag at a place.
enum Here {
    Tag(usize),
    Named(String, usize),
    Partial,
    Nothing,
}

/// The schema of a value and the layout of its elements.
#[derive(Clone, Copy)]
pub(crate) struct ElementPlace<'a> {
    pub layout: &'a ElementLayout,
    pub schema: Option<Schema<'a>>,
    pub cap: usize,
}

/// The maximum length of a name, in bytes.
const NAME: usize = 256;

/// The maximum number of open elements.
const DEPTH: usize = 256;

/// The maximum depth at which a schema is consulted.
const SCHEMA_DEPTH: usize = 32;

impl Elements {
    /// Creates a reader of a value that this text closes.
    pub fn new(layout: &ElementLayout, types: Types, close: &Literal) -> Elements {
        let mut marks = Marks::new();
        marks.add(close.lead(), &close.core(), Tag::Whole);
        marks.add("", &layout.open.core(), Tag::Open);
        marks.add("", &layout.close.core(), Tag::Close);
        let root = OpenElement { name: String::new(), types, mode: Mode::Unknown, raw_at: 0, json_at: 0 };
        let whole = close.core().text().to_owned();
        Elements { frames: vec![root], raw: String::new(), json: String::new(), marks, whole, misfit: None }
    }

    /// Returns the text read so far.
    pub fn raw(&self) -> &str {
        &self.raw
    }

    /// Returns the place within the value of the first element whose text is of none of its types, with the types.
    pub fn misfit(&self) -> Option<(&str, Types)> {
        self.misfit.as_ref().map(|(place, types)| (place.as_str(), *types))
    }

    /// Returns the JSON of the complete value.
    pub fn json(&self) -> &str {
        &self.json
    }

    /// Reads as far as the input goes. `Done` means that the value and its closing text were read.
    pub fn read(&mut self, place: &ElementPlace<'_>, cursor: &mut Cursor<'_, '_>) -> ReaderState {
        let mut from = cursor.at;
        let mut progress = Falling::default();
        loop {
            progress.check(cursor.text().len() - from);
            let (start, end, tag) = match cursor.find_marker(&self.marks, from) {
                MarkSearch::Mark(start, end, action) => (start, end, *self.marks.action(action)),
                MarkSearch::Open(start) => return self.text(start, place, cursor).unwrap_or(ReaderState::More),
                MarkSearch::Nothing => {
                    return self.text(cursor.text().len(), place, cursor).unwrap_or(ReaderState::More);
                }
            };
            if let Some(fault) = self.text(start, place, cursor) {
                return fault;
            }
            if tag == Tag::Whole && self.frames.len() == 1 {
                self.close(place);
                cursor.at = end;
                return ReaderState::Done;
            }
            let step = self.tag(start, place, cursor);
            match step {
                Ok(Some(end)) => {
                    if let Some(fault) = self.keep(end, place, cursor) {
                        return fault;
                    }
                    let raw_at = self.raw.len();
                    if let Some(frame) = self.frames.last_mut().filter(|frame| frame.raw_at == usize::MAX) {
                        frame.raw_at = raw_at;
                    }
                    from = cursor.at;
                }
                Ok(None) => return ReaderState::More,
                // The tag is text.
                Err(None) => {
                    from = start + cursor.text()[start..].chars().next().map_or(1, char::len_utf8);
                    if let Some(fault) = self.text(from, place, cursor) {
                        return fault;
                    }
                }
                Err(Some(why)) => return ReaderState::Bad(why),
            }
        }
    }

    /// Applies the tag at a byte. Returns its end, or `None` if it may continue. The error is a
    /// fault, or `None` if there is no tag.
    fn tag(
        &mut self,
        start: usize,
        place: &ElementPlace<'_>,
        cursor: &Cursor<'_, '_>,
    ) -> Result<Option<usize>, Option<Why>> {
        let input = cursor.input();
        let is_last = cursor.is_last();
        let mut is_partial = false;
        if self.frames.len() > 1
            && let Some(frame) = self.frames.last()
        {
            match closes(input, start, place.layout, &frame.name) {
                Here::Tag(end) => {
                    self.close(place);
                    return Ok(Some(end));
                }
                Here::Partial => is_partial = true,
                _ => {}
            }
        }
        let is_leaf = self.frames.last().is_none_or(|frame| matches!(frame.mode, Mode::Leaf));
        if !is_leaf {
            match opens(input, start, place.layout) {
                Here::Named(name, end) => match self.open(name, place) {
                    Ok(true) => return Ok(Some(end)),
                    Ok(false) => {}
                    Err(why) => return Err(Some(why)),
                },
                Here::Partial => is_partial = true,
                _ => {}
            }
        }
        if is_partial && !is_last { Ok(None) } else { Err(None) }
    }

    /// Opens an element. Returns false if its tag is text.
    fn open(&mut self, name: String, place: &ElementPlace<'_>) -> Result<bool, Why> {
        let depth = self.frames.len();
        let Some(frame) = self.frames.last_mut() else { return Ok(false) };
        if let Mode::Unknown = frame.mode {
            let (list, object) = (Types::ARRAY.is_within(frame.types), Types::OBJECT.is_within(frame.types));
            let is_item = name == place.layout.item;
            frame.mode = match (list, object) {
                (true, _) if is_item || !object => Mode::Array(None),
                (_, true) => Mode::Object(HashSet::new()),
                _ => Mode::Leaf,
            };
            self.json.push_str(match frame.mode {
                Mode::Array(_) => "[",
                Mode::Object(_) => "{",
                _ => "",
            });
        }
        match &mut frame.mode {
            Mode::Unknown | Mode::Leaf => return Ok(false),
            Mode::Array(Some(known)) if *known != name => {
                let expected = format!("another `{known}`");
                return self.mixed(expected, place).map(|()| false);
            }
            Mode::Array(Some(_)) => self.json.push_str(", "),
            Mode::Array(known) => *known = Some(name.clone()),
            Mode::Object(keys) => {
                if !keys.insert(name.clone()) {
                    return self.mixed(format!("`{name}` only once"), place).map(|()| false);
                }
                if keys.len() > 1 {
                    self.json.push_str(", ");
                }
                json::write_string(&mut self.json, &name, false);
                self.json.push_str(": ");
            }
        }
        if depth == DEPTH {
            return Err(Why::TooDeep);
        }
        let json_at = self.json.len();
        // The content begins after the tag, whose end is set when it is kept.
        self.frames.push(OpenElement { name, types: Types::ANY, mode: Mode::Unknown, raw_at: usize::MAX, json_at });
        let types = self.schema(place).map_or(Types::ANY, Schema::types);
        if let Some(frame) = self.frames.last_mut() {
            frame.types = types;
            if types.is_within(Types::STRING) {
                frame.mode = Mode::Leaf;
            }
        }
        Ok(true)
    }

    /// Closes the innermost element.
    fn close(&mut self, place: &ElementPlace<'_>) {
        let schema = self.schema(place);
        let Some(frame) = self.frames.last() else { return };
        match &frame.mode {
            Mode::Object(_) => self.json.push('}'),
            Mode::Array(_) => self.json.push(']'),
            Mode::Unknown | Mode::Leaf => {
                let text = self.raw.get(frame.raw_at..).unwrap_or_default();
                // The white space around the whole value was already skipped.
                let (lead, trail) = match self.frames.len() {
                    1 => ("", ""),
                    _ => (place.layout.open_end.trail(), place.layout.close.lead()),
                };
                let text = text.strip_prefix(lead).unwrap_or(text);
                let (value, types) = leaf(text.strip_suffix(trail).unwrap_or(text), frame.types, schema);
                self.json.push_str(&value.json);
                if value.is_misfit && self.misfit.is_none() {
                    let names = self.frames.iter().skip(1).map(|frame| format!(".{}", frame.name));
                    self.misfit = Some((names.collect(), types));
                }
            }
        }
        if self.frames.len() > 1 {
            self.frames.pop();
        }
    }

    /// Returns the schema of the innermost element.
    fn schema<'a>(&self, place: &ElementPlace<'a>) -> Option<Schema<'a>> {
        if self.frames.len() > SCHEMA_DEPTH {
            return None;
        }
        let pairs = self.frames.iter().zip(self.frames.iter().skip(1));
        let mut schema = place.schema?;
        for (outer, inner) in pairs {
            schema = match outer.mode {
                Mode::Array(_) => schema.items()?,
                _ => schema.property(&inner.name)?,
            };
        }
        Some(schema)
    }

    /// Reads text up to a byte. Returns the fault, if there is one.
    fn text(&mut self, to: usize, place: &ElementPlace<'_>, cursor: &mut Cursor<'_, '_>) -> Option<ReaderState> {
        let text = &cursor.text()[cursor.at..to];
        if !text.trim().is_empty()
            && let Some(frame) = self.frames.last_mut()
        {
            match frame.mode {
                Mode::Leaf => {}
                Mode::Unknown => frame.mode = Mode::Leaf,
                Mode::Object(_) | Mode::Array(_) => {
                    if let Err(why) = self.mixed("an element".to_owned(), place) {
                        return Some(ReaderState::Bad(why));
                    }
                }
            }
        }
        self.keep(to, place, cursor)
    }

    /// Moves the text up to a byte to the text read so far.
    fn keep(&mut self, to: usize, place: &ElementPlace<'_>, cursor: &mut Cursor<'_, '_>) -> Option<ReaderState> {
        let text = &cursor.text()[cursor.at..to];
        // Cut at the same byte in every chunking.
        let left = place.cap.saturating_sub(self.raw.len()).min(text.len());
        let taken = (0..=left).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        self.raw.push_str(&text[..taken]);
        cursor.at += taken;
        (taken < text.len()).then_some(ReaderState::Bad(Why::TooLong))
    }

    /// Handles content that the innermost list or object cannot have. The nearest element that may
    /// be a string is one, unless its closing tag was already read as text.
    fn mixed(&mut self, expected: String, place: &ElementPlace<'_>) -> Result<(), Why> {
        for at in (0..self.frames.len()).rev() {
            let frame = &self.frames[at];
            if !Types::STRING.is_within(frame.types) || frame.raw_at == usize::MAX {
                continue;
            }
            let (close, end) = (&place.layout.close, &place.layout.close_end);
            let own = match at {
                0 => self.whole.clone(),
                _ => format!("{}{}{}", close.core().text(), frame.name, end.core().text()),
            };
            if self.raw[frame.raw_at..].contains(&own) {
                continue;
            }
            self.json.truncate(frame.json_at);
            self.frames.truncate(at + 1);
            self.frames[at].mode = Mode::Leaf;
            return Ok(());
        }
        Err(Why::BadValue(format!("expected {expected}")))
    }
}

/// Returns the value of an element without elements in it, and the types that it may have.
fn leaf(text: &str, types: Types, schema: Option<Schema<'_>>) -> (TypedValue, Types) {
    if text.trim().is_empty() && !Types::STRING.is_within(types) {
        let empty = [(Types::ARRAY, "[]"), (Types::OBJECT, "{}"), (Types::NULL, "null")];
        if let Some((_, json)) = empty.into_iter().find(|(kind, _)| kind.is_within(types)) {
            return (TypedValue { json: json.to_owned(), is_misfit: false }, types);
        }
    }
    let types = if schema.is_some_and(|schema| schema.lists_text(text)) { Types::STRING } else { types };
    (typed(text, types), types)
}

/// Matches a literal, without the white space around it, at a byte.
fn literal(input: PendingInput<'_>, at: usize, literal: &Literal) -> Here {
    let literal = literal.core();
    for (number, _) in literal.text().bytes().enumerate() {
        if at + number == input.text.len() {
            return Here::Partial;
        }
        if !literal.byte(number).is_some_and(|byte| input.fits(at + number, byte)) {
            return Here::Nothing;
        }
    }
    Here::Tag(at + literal.text().len())
}

/// Matches the closing tag of an element at a byte.
fn closes(input: PendingInput<'_>, at: usize, layout: &ElementLayout, name: &str) -> Here {
    let mut end = at;
    for part in [&layout.close, &Literal::of(name), &layout.close_end] {
        match literal(input, end, part) {
            Here::Tag(to) => end = to,
            other => return other,
        }
    }
    Here::Tag(end)
}

/// Matches an opening tag at a byte.
fn opens(input: PendingInput<'_>, at: usize, layout: &ElementLayout) -> Here {
    let Here::Tag(start) = literal(input, at, &layout.open) else { return Here::Nothing };
    let rest = &input.text[start..];
    let stop = layout.open_end.core().text().chars().next();
    let is_name = |c: char| !(c.is_whitespace() || c.is_control() || matches!(c, '<' | '>' | '/' | '"' | '\'' | '='));
    let Some((length, next)) = rest.char_indices().find(|(_, c)| Some(*c) == stop || !is_name(*c)) else {
        return if rest.len() <= NAME { Here::Partial } else { Here::Nothing };
    };
    if length == 0 || length > NAME || Some(next) != stop {
        return Here::Nothing;
    }
    match literal(input, start + length, &layout.open_end) {
        Here::Tag(end) => Here::Named(rest[..length].to_owned(), end),
        other => other,
    }
}
