//! Reads the items of a call's layout, each as far as the input goes.

use std::sync::Arc;

use super::{CallStep, Inside, OpenCall, name_again};
use crate::arguments::{Arguments, Callee};
use crate::cursor::Cursor;
use crate::literal::Literal;
use crate::marks::{Here, MarkSearch, Marks, PendingInput};
use crate::object::{Object, ObjectPart};
use crate::progress::Falling;
use crate::reply::{CallOpening, Item, List, Syntax};
use crate::shared::Shared;
use crate::values::{ReaderState, ValueReader};
use crate::{Event, Why};

impl OpenCall {
    pub(super) fn item(&mut self, item: &Item, shared: &mut Shared, cursor: &mut Cursor<'_, '_>) -> CallStep {
        match item {
            Item::Literal(literal) => self.literal(literal, cursor),
            Item::Name(stop) => match self.word(*stop, is_name, shared, cursor) {
                Ok(Some(name)) if name.is_empty() => CallStep::Bad(Why::Expected("a function name".into())),
                Ok(Some(name)) => match &self.name {
                    Some(known) if *known != name => CallStep::Bad(name_again(known)),
                    _ => {
                        self.name = Some(name);
                        CallStep::Next
                    }
                },
                Ok(None) => CallStep::Wait,
                Err(why) => CallStep::Bad(why),
            },
            Item::Id(stop) => match self.word(*stop, is_id, shared, cursor) {
                Ok(Some(id)) => {
                    self.id = Some(id).filter(|id| !id.is_empty());
                    CallStep::Next
                }
                Ok(None) => CallStep::Wait,
                Err(why) => CallStep::Bad(why),
            },
            Item::Index => match self.word(None, |c| c.is_ascii_digit(), shared, cursor) {
                Ok(Some(_)) => CallStep::Next,
                Ok(None) => CallStep::Wait,
                Err(why) => CallStep::Bad(why),
            },
            Item::Object(keys) => {
                if !matches!(self.inside, Inside::Object(_)) {
                    let is_bare = shared.reply.program(self.program).is_bare();
                    self.inside = Inside::Object(Box::new(Object::new(Arc::clone(keys), is_bare)));
                }
                self.object(shared, cursor)
            }
            Item::Arguments(Syntax::List(list)) => self.list(list, shared, cursor),
            Item::Arguments(syntax) => self.syntax(syntax, shared, cursor),
            Item::Pad(pad) => match cursor.skip_pad(pad, &mut self.seen) {
                true => CallStep::Next,
                false => CallStep::Wait,
            },
            Item::Fence(fence) => self.fence(fence, cursor),
            Item::Group(literal, length) => match self.literal(literal, cursor) {
                CallStep::Bad(_) => CallStep::Skip(*length),
                step => step,
            },
            Item::Code(closes) => {
                if self.index.is_none() {
                    self.is_code = true;
                    if let Err(why) = self.announce(shared, cursor.on) {
                        return CallStep::Bad(why);
                    }
                }
                self.code(closes, shared, cursor)
            }
            Item::Body(closes) => self.body(closes, shared, cursor),
            Item::NoArguments(closes) => self.no_arguments(closes, shared, cursor),
        }
    }

    /// Reads arguments that follow one another, each in the layout of an argument.
    fn list(&mut self, list: &List, shared: &mut Shared, cursor: &mut Cursor<'_, '_>) -> CallStep {
        loop {
            if !matches!(self.inside, Inside::Arguments(_)) {
                self.inside = Inside::Arguments(Box::new(Arguments::new()));
            }
            let Inside::Arguments(arguments) = &mut self.inside else { return CallStep::Wait };
            let name = self.name.as_deref().unwrap_or_default();
            let mut out = std::mem::take(&mut shared.scratch);
            out.clear();
            let state = arguments.read(&Callee { list, shared, name }, cursor, &mut out);
            // A name is not a call before its first argument, or the end of an empty list.
            let begins = self.index.is_none() && (state == ReaderState::Done || arguments.has_begun());
            let report = arguments.report.take();
            if begins && let Err(why) = self.announce(shared, cursor.on) {
                shared.scratch = out;
                return CallStep::Bad(why);
            }
            self.give(shared, out, cursor.on);
            let reports = report.is_some();
            if let Some(report) = report {
                cursor.emit(Event::Malformed(report));
            }
            match state {
                ReaderState::More if begins || reports => {}
                state => return self.after_value(state),
            }
        }
    }

    /// Reads arguments that are a single value.
    fn syntax(&mut self, syntax: &Syntax, shared: &mut Shared, cursor: &mut Cursor<'_, '_>) -> CallStep {
        // Ordinary text may begin like a call without a marker, but not like its arguments.
        if self.index.is_none()
            && shared.reply.program(self.program).opening == CallOpening::InText
            && matches!(syntax, Syntax::Json)
        {
            cursor.skip_space();
            match cursor.peek() {
                None => return CallStep::Wait,
                Some('{' | '"') => {}
                Some(_) => return CallStep::Bad(Why::Expected("an object".into())),
            }
        }
        if self.index.is_none()
            && let Err(why) = self.announce(shared, cursor.on)
        {
            return CallStep::Bad(why);
        }
        if !matches!(self.inside, Inside::Value(_)) {
            cursor.skip_space();
            let Some(first) = cursor.peek() else { return CallStep::Wait };
            self.inside = Inside::Value(Box::new(match syntax {
                Syntax::Json if first == '"' => ValueReader::json_string(shared.options.json),
                Syntax::Json => ValueReader::json(shared.options.json),
                Syntax::Python => ValueReader::python_arguments(shared.options.json, shared.cap()),
                Syntax::Marked(mark) => ValueReader::marked(mark, shared.options.json, shared.cap()),
                Syntax::List(_) => return CallStep::Bad(Why::Unfinished),
            }));
        }
        let mut out = std::mem::take(&mut shared.scratch);
        out.clear();
        let state = self.value(shared, cursor, &mut out);
        self.give(shared, out, cursor.on);
        self.after_value(state)
    }

    /// Reads a value as far as the input goes.
    fn value(&mut self, shared: &Shared, cursor: &mut Cursor<'_, '_>, out: &mut String) -> ReaderState {
        let Inside::Value(reader) = &mut self.inside else { return ReaderState::More };
        let mut progress = Falling::default();
        loop {
            progress.check(cursor.rest().len());
            let end = match until_control(shared, cursor.input(), cursor.at) {
                Ok(end) => end,
                Err(why) => return ReaderState::Bad(why),
            };
            let step = reader.push(&cursor.text()[cursor.at..end], out);
            cursor.at += step.used;
            match step.state {
                ReaderState::More if !cursor.is_at_end() => {}
                ReaderState::More if cursor.is_last() => {
                    return match reader.end(out) {
                        ReaderState::Done => ReaderState::Done,
                        _ => ReaderState::More,
                    };
                }
                state => return state,
            }
        }
    }

    fn after_value(&mut self, state: ReaderState) -> CallStep {
        match state {
            ReaderState::More => CallStep::Wait,
            ReaderState::Done => {
                self.is_whole = true;
                CallStep::Next
            }
            ReaderState::Bad(why) => CallStep::Bad(why),
        }
    }

    /// Reads literal text of the format, ignoring white space. An incomplete match is not consumed
    /// unless the output ends, because it may turn out to be different text.
    fn literal(&self, literal: &Literal, cursor: &mut Cursor<'_, '_>) -> CallStep {
        cursor.skip_space();
        let input = cursor.input();
        let (mut seen, mut to) = (0, cursor.at);
        loop {
            let Some(expected) = literal.text()[seen..].chars().next() else {
                cursor.at = to;
                return CallStep::Next;
            };
            if expected.is_whitespace() {
                seen += expected.len_utf8();
                continue;
            }
            let Some(found) = input.text[to..].chars().next() else {
                if cursor.is_last() {
                    cursor.at = to;
                }
                return CallStep::Wait;
            };
            if found.is_whitespace() && to - cursor.at < LONGEST_MARK {
                to += found.len_utf8();
                continue;
            }
            let fits = literal.byte(seen).is_some_and(|byte| input.fits(to, byte));
            if found != expected || !fits {
                return CallStep::Bad(Why::Expected(format!("`{}`", literal.text().trim())));
            }
            seen += expected.len_utf8();
            to += found.len_utf8();
        }
    }

    /// Skips optional text and the white space before it.
    fn fence(&mut self, fence: &Literal, cursor: &mut Cursor<'_, '_>) -> CallStep {
        cursor.skip_space();
        if cursor.rest().starts_with(fence.text()) {
            cursor.at += fence.text().len();
        } else if fence.text().starts_with(cursor.rest()) && !cursor.is_last() {
            return CallStep::Wait;
        }
        CallStep::Next
    }

    /// Skips white space and reads a word: the characters that `belongs` accepts, up to the byte
    /// `stop`.
    fn word(
        &mut self,
        stop: Option<u8>,
        belongs: impl Fn(char) -> bool,
        shared: &Shared,
        cursor: &mut Cursor<'_, '_>,
    ) -> Result<Option<String>, Why> {
        if !matches!(self.inside, Inside::Word(_)) {
            cursor.skip_space();
            if cursor.is_at_end() && !cursor.is_last() {
                return Ok(None);
            }
            self.inside = Inside::Word(String::new());
        }
        let Inside::Word(word) = &mut self.inside else { return Ok(None) };
        while let Some(found) = cursor.peek() {
            let stops = stop.is_some_and(|stop| cursor.text().as_bytes()[cursor.at] == stop);
            if stops || !belongs(found) || cursor.input().is_control(cursor.at) {
                return Ok(Some(std::mem::take(word)));
            }
            word.push(found);
            cursor.at += found.len_utf8();
            if word.len() > shared.cap().min(NAME) {
                return Err(Why::TooLong);
            }
        }
        Ok(None)
    }

    fn object(&mut self, shared: &mut Shared, cursor: &mut Cursor<'_, '_>) -> CallStep {
        let mut out = std::mem::take(&mut shared.scratch);
        // The start of the next control token.
        let mut end = cursor.at;
        loop {
            let Inside::Object(object) = &mut self.inside else { return CallStep::Wait };
            out.clear();
            if cursor.at == end {
                end = match until_control(shared, cursor.input(), cursor.at) {
                    Ok(end) => end,
                    Err(why) => return CallStep::Bad(why),
                };
            }
            let (used, part) = object.read(&cursor.text()[cursor.at..end], shared, &mut out);
            cursor.at += used;
            match part {
                ObjectPart::Wait | ObjectPart::More => {
                    self.give_or_keep(shared, &out, cursor.on);
                    if !cursor.is_at_end() {
                        continue;
                    }
                    shared.scratch = out;
                    return CallStep::Wait;
                }
                ObjectPart::Name(name) => self.name = Some(name),
                ObjectPart::Id(id) => self.id = Some(id),
                ObjectPart::Arguments => {}
                ObjectPart::Unread(bytes) => self.unread(bytes, cursor.offset()),
                ObjectPart::ArgumentsOver => {
                    self.is_whole = true;
                    self.give_or_keep(shared, &out, cursor.on);
                }
                ObjectPart::Done => {
                    shared.scratch = out;
                    // Without tools and arguments, nothing shows that an object is a call.
                    let is_bare = shared.reply.program(self.program).is_bare();
                    if is_bare && !object.has_arguments() && shared.options.tools.is_empty() {
                        return CallStep::Bad(Why::Expected("the arguments of a call".into()));
                    }
                    if self.index.is_none() {
                        let early = std::mem::take(&mut object.early);
                        if let Err(why) = self.announce(shared, cursor.on) {
                            return CallStep::Bad(why);
                        }
                        self.give_some(shared, if early.is_empty() { "{}" } else { &early }, cursor.on);
                    } else if !self.is_whole {
                        self.give_some(shared, "{}", cursor.on);
                    }
                    self.is_whole = true;
                    return CallStep::Next;
                }
                ObjectPart::Bad(why) => {
                    if self.index.is_some() {
                        self.give_some(shared, &out, cursor.on);
                    }
                    shared.scratch = out;
                    return CallStep::Bad(why);
                }
            }
            // The name is known and the arguments begin, so the call can be announced.
            if self.index.is_none()
                && let Inside::Object(object) = &mut self.inside
                && object.has_arguments()
                && self.name.is_some()
            {
                let early = std::mem::take(&mut object.early);
                if let Err(why) = self.announce(shared, cursor.on) {
                    shared.scratch = out;
                    return CallStep::Bad(why);
                }
                self.give_some(shared, &early, cursor.on);
            }
        }
    }

    /// Emits text of the arguments, or keeps it until the call is announced.
    fn give_or_keep(&mut self, shared: &Shared, text: &str, on: &mut dyn FnMut(Event<'_>)) {
        match &mut self.inside {
            Inside::Object(object) if self.index.is_none() => object.early.push_str(text),
            _ => self.give_some(shared, text, on),
        }
    }

    fn code(&mut self, closes: &Marks<()>, shared: &mut Shared, cursor: &mut Cursor<'_, '_>) -> CallStep {
        let input = cursor.input();
        let index = self.index.unwrap_or_default();
        let mut from = cursor.at;
        loop {
            let (found, used) = match cursor.find_marker(closes, from) {
                MarkSearch::Mark(start, end, _) => {
                    // The code itself may contain fences. The last one is followed by the end of
                    // the call or turn.
                    let core = input.text[start..end].trim();
                    let is_fence = core.chars().all(|c| c == '`');
                    match is_fence.then(|| shared.ends_call(input, end, cursor.is_last())) {
                        Some(Some(false)) => {
                            from = end;
                            continue;
                        }
                        Some(None) => (start, None),
                        _ => (start, Some(end)),
                    }
                }
                MarkSearch::Open(start) => (start, None),
                MarkSearch::Nothing => (input.text.len(), None),
            };
            let text = cursor.take_up_to(found);
            if !text.is_empty() && !shared.is_silent {
                cursor.emit(Event::Code { index, text });
            }
            if let Some(end) = used {
                cursor.at = end;
                self.is_whole = true;
                return CallStep::Next;
            }
            if cursor.is_last() && closes.is_empty() {
                self.is_whole = true;
            }
            return CallStep::Wait;
        }
    }
}

/// The maximum length of a name, in bytes.
pub(super) const NAME: usize = 1024;

/// The maximum length of a literal in the output, including white space.
const LONGEST_MARK: usize = 4096;

fn is_name(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '_' | '-' | '.' | ':' | '/' | '$' | '@' | '#' | '+')
}

fn is_id(character: char) -> bool {
    !character.is_whitespace() && !matches!(character, '"' | '\'' | '<' | '{' | '}' | '[' | ']' | '(' | ')' | ',')
}

/// Returns the start of the next control token in a value. A control token that closes the call is
/// an error.
fn until_control(shared: &Shared, input: PendingInput<'_>, at: usize) -> Result<usize, Why> {
    if input.control.is_empty() {
        return Ok(input.text.len());
    }
    if input.is_control(at) && matches!(shared.reply.after_call.at(input, at, true), Here::Mark(..)) {
        return Err(Why::Unfinished);
    }
    let first = input.text[at..].chars().next().map_or(0, char::len_utf8);
    let breaks = |here: usize| {
        input.is_control(here)
            && input.text.is_char_boundary(here)
            && (!input.is_control(here - 1) || matches!(shared.reply.after_call.at(input, here, true), Here::Mark(..)))
    };
    Ok((at + first..input.text.len()).find(|here| breaks(*here)).unwrap_or(input.text.len()))
}
