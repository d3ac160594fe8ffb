use std::ops::Range;

use crate::arguments::Arguments;
use crate::literal::Literal;
use crate::marks::{Here, Input, Marks};
use crate::object::{Object, Part};
use crate::parser::Shared;
use crate::pending::View;
use crate::progress::Falling;
use crate::reply::{Item, Syntax};
use crate::values::{Schema, State, ValueReader, check};
use crate::{Event, Malformed, UnknownNames, Why};

/// A call that is being read.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    program: usize,
    /// Which item is next.
    item: usize,
    /// How much of a literal was seen, in bytes.
    seen: usize,
    inside: Inside,
    /// Everything that was read, up to the moment when the call is announced.
    raw: String,
    /// How much of it is the prompt's.
    hidden: usize,
    /// Where it began in the output.
    start: u64,
    name: Option<String>,
    id: Option<String>,
    /// Its number, once it is announced.
    index: Option<usize>,
    is_code: bool,
    /// Whether its arguments are whole.
    is_whole: bool,
    /// Whether it stands in reasoning.
    in_reasoning: bool,
    /// Whether anything was read of it.
    has_read: bool,
    /// Its arguments, where they are to be compared with a schema.
    kept: Option<String>,
}

/// What of an item is being read.
#[derive(Clone, Debug)]
enum Inside {
    Nothing,
    Word(String),
    Object(Box<Object>),
    Value(Box<ValueReader>),
    Arguments(Box<Arguments>),
}

/// How far a call came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    Wait,
    Finished,
    /// It is none: what was read of it was said as content.
    Text {
        /// The calls stood in reasoning, and so does the text.
        in_reasoning: bool,
    },
    /// It is none, and nothing was read of it.
    Nothing,
}

/// What one item came to.
enum Step {
    Next,
    Wait,
    Bad(Why),
}

impl Running {
    pub fn new(program: usize, start: u64, mark: &str, in_reasoning: bool) -> Running {
        Running {
            program,
            item: 0,
            seen: 0,
            inside: Inside::Nothing,
            has_read: !mark.is_empty(),
            raw: mark.to_owned(),
            hidden: 0,
            start,
            name: None,
            id: None,
            index: None,
            is_code: false,
            is_whole: false,
            in_reasoning,
            kept: None,
        }
    }

    /// What was read so far is the prompt's.
    pub fn hide(&mut self) {
        self.hidden = self.raw.len();
        self.start = 0;
        if let Inside::Arguments(arguments) = &mut self.inside {
            arguments.hide();
        }
    }

    /// Whether anything was read of it, its mark included.
    pub fn has_read(&self) -> bool {
        self.has_read
    }

    /// White space that stood before it.
    pub fn prefix(&mut self, blank: &str) {
        self.raw.insert_str(0, blank);
    }

    /// Reads on, as far as it goes.
    pub fn read(
        &mut self,
        shared: &mut Shared,
        view: View<'_>,
        at: &mut usize,
        on: &mut dyn FnMut(Event<'_>),
    ) -> Progress {
        let reply = std::sync::Arc::clone(&shared.reply);
        let program = reply.program(self.program);
        let mut progress = Falling::default();
        loop {
            let items = program.items.len() - self.item;
            progress.check((view.text().len() - *at, items, self.index.is_none()));
            let Some(item) = program.items.get(self.item) else {
                if self.index.is_none()
                    && let Err(why) = self.announce(shared, on)
                {
                    return self.fail(shared, why, view.offset(*at), on);
                }
                self.finish(shared, on);
                return Progress::Finished;
            };
            let from = *at;
            // What is not announced yet is kept, and no more of it than the cap.
            let room = match self.index {
                Some(_) => view,
                None => view.up_to(*at + (shared.cap() - self.raw.len().min(shared.cap()))),
            };
            let step = self.item(item, shared, room, at, on);
            self.has_read |= *at > from;
            if self.index.is_none() {
                self.raw.push_str(view.shown(from..*at));
            }
            match step {
                Step::Next => {
                    self.item += 1;
                    self.seen = 0;
                    self.inside = Inside::Nothing;
                }
                Step::Wait if room.is_shorter_than(view) => {
                    // The cap is for what is not announced.
                    if self.index.is_none() {
                        return self.fail(shared, Why::TooLong, view.offset(*at), on);
                    }
                }
                Step::Wait if view.is_last => {
                    // What follows the arguments may be missing at the end of the output.
                    return match self.is_whole && self.index.is_some() {
                        true => {
                            // An id that is cut off is what the model wrote of it.
                            if let (Item::Id(_), Inside::Word(id)) = (item, &mut self.inside) {
                                self.id = Some(std::mem::take(id)).filter(|id| !id.is_empty());
                            }
                            self.finish(shared, on);
                            Progress::Finished
                        }
                        false => self.fail(shared, Why::Unfinished, view.offset(*at), on),
                    };
                }
                Step::Wait => return Progress::Wait,
                Step::Bad(why) => return self.fail(shared, why, view.offset(*at), on),
            }
        }
    }

    /// The output is over, or the caller breaks off.
    pub fn abandon(mut self, shared: &mut Shared, why: Why, end: u64, on: &mut dyn FnMut(Event<'_>)) {
        self.fail(shared, why, end, on);
    }

    fn item(
        &mut self,
        item: &Item,
        shared: &mut Shared,
        view: View<'_>,
        at: &mut usize,
        on: &mut dyn FnMut(Event<'_>),
    ) -> Step {
        let is_last = view.is_last;
        match item {
            Item::Literal(literal) => self.literal(literal, view.input(), at, is_last),
            Item::Name(stop) => match self.word(*stop, is_name, shared, view.input(), at, is_last) {
                Ok(Some(name)) if name.is_empty() => Step::Bad(Why::Expected("a function's name".into())),
                Ok(Some(name)) => match &self.name {
                    Some(known) if *known != name => Step::Bad(Why::Expected(format!("`{known}` once more"))),
                    _ => {
                        self.name = Some(name);
                        Step::Next
                    }
                },
                Ok(None) => Step::Wait,
                Err(why) => Step::Bad(why),
            },
            Item::Id(stop) => match self.word(*stop, is_id, shared, view.input(), at, is_last) {
                Ok(Some(id)) => {
                    self.id = Some(id).filter(|id| !id.is_empty());
                    Step::Next
                }
                Ok(None) => Step::Wait,
                Err(why) => Step::Bad(why),
            },
            Item::Index => match self.word(None, |c| c.is_ascii_digit(), shared, view.input(), at, is_last) {
                Ok(Some(_)) => Step::Next,
                Ok(None) => Step::Wait,
                Err(why) => Step::Bad(why),
            },
            Item::Object(keys) => {
                if !matches!(self.inside, Inside::Object(_)) {
                    let is_bare = shared.reply.program(self.program).bare;
                    self.inside = Inside::Object(Box::new(Object::new(keys.clone(), is_bare)));
                }
                self.object(shared, view, at, on)
            }
            Item::Arguments(Syntax::List(list)) => {
                if !matches!(self.inside, Inside::Arguments(_)) {
                    self.inside = Inside::Arguments(Box::new(Arguments::new()));
                }
                let Inside::Arguments(arguments) = &mut self.inside else { return Step::Wait };
                let name = self.name.as_deref().unwrap_or_default();
                let mut out = std::mem::take(&mut shared.scratch);
                out.clear();
                let state = arguments.read(list, shared, name, view.input(), at, is_last, &mut out);
                // Before the first argument, or the end of none, a name is no call yet.
                let begins = self.index.is_none() && (state == State::Done || arguments.has_begun());
                if begins && let Err(why) = self.announce(shared, on) {
                    shared.scratch = out;
                    return Step::Bad(why);
                }
                self.give(shared, out, on);
                match state {
                    State::More if begins => self.item(item, shared, view, at, on),
                    state => self.after_value(state),
                }
            }
            Item::Arguments(syntax) => {
                if self.index.is_none()
                    && let Err(why) = self.announce(shared, on)
                {
                    return Step::Bad(why);
                }
                if !matches!(self.inside, Inside::Value(_)) {
                    let text = &view.text()[*at..];
                    *at += text.len() - text.trim_start().len();
                    let Some(first) = view.text()[*at..].chars().next() else { return Step::Wait };
                    self.inside = Inside::Value(Box::new(match syntax {
                        Syntax::Json if first == '"' => ValueReader::json_string(shared.options.json),
                        Syntax::Json => ValueReader::json(shared.options.json),
                        Syntax::Python => ValueReader::python_arguments(shared.options.json, shared.cap()),
                        Syntax::Marked(mark) => ValueReader::marked(mark, shared.options.json, shared.cap()),
                        Syntax::List(_) => return Step::Bad(Why::Unfinished),
                    }));
                }
                let mut out = std::mem::take(&mut shared.scratch);
                out.clear();
                let state = self.value(shared, view.input(), at, is_last, &mut out);
                self.give(shared, out, on);
                self.after_value(state)
            }
            Item::Pad(pad) => self.pad(pad, view.text(), at, is_last),
            Item::Fence(fence) => self.fence(fence, view.input(), at, is_last),
            Item::Code(closes) => {
                if self.index.is_none() {
                    self.is_code = true;
                    if let Err(why) = self.announce(shared, on) {
                        return Step::Bad(why);
                    }
                }
                self.code(closes, shared, view, at, on)
            }
        }
    }

    /// Reads a value as far as it goes.
    fn value(&mut self, shared: &Shared, input: Input<'_>, at: &mut usize, is_last: bool, out: &mut String) -> State {
        let Inside::Value(reader) = &mut self.inside else { return State::More };
        let mut progress = Falling::default();
        loop {
            progress.check(input.text.len() - *at);
            let end = match until_control(shared, input, *at) {
                Ok(end) => end,
                Err(why) => return State::Bad(why),
            };
            let step = reader.push(&input.text[*at..end], out);
            *at += step.used;
            match step.state {
                State::More if *at < input.text.len() => {}
                State::More if is_last => {
                    return match reader.end(out) {
                        State::Done => State::Done,
                        _ => State::More,
                    };
                }
                state => return state,
            }
        }
    }

    fn after_value(&mut self, state: State) -> Step {
        match state {
            State::More => Step::Wait,
            State::Done => {
                self.is_whole = true;
                Step::Next
            }
            State::Bad(why) => Step::Bad(why),
        }
    }

    /// Text of the format; white space may differ. What is only the start of it is not taken yet: it may turn out to be something else,
    /// which is to be read as that.
    fn literal(&self, literal: &Literal, input: Input<'_>, at: &mut usize, is_last: bool) -> Step {
        let rest = &input.text[*at..];
        *at += rest.len() - rest.trim_start().len();
        let (mut seen, mut to) = (0, *at);
        loop {
            let Some(expected) = literal.text()[seen..].chars().next() else {
                *at = to;
                return Step::Next;
            };
            if expected.is_whitespace() {
                seen += expected.len_utf8();
                continue;
            }
            let Some(found) = input.text[to..].chars().next() else {
                if is_last {
                    *at = to;
                }
                return Step::Wait;
            };
            if found.is_whitespace() && to - *at < LONGEST_MARK {
                to += found.len_utf8();
                continue;
            }
            let fits = literal.byte(seen).is_some_and(|byte| input.fits(to, byte));
            if found != expected || !fits {
                return Step::Bad(Why::Expected(format!("`{}`", literal.text().trim())));
            }
            seen += expected.len_utf8();
            to += found.len_utf8();
        }
    }

    /// White space that may be there.
    fn pad(&mut self, pad: &str, text: &str, at: &mut usize, is_last: bool) -> Step {
        while let Some(expected) = pad[self.seen..].chars().next() {
            match text[*at..].chars().next() {
                Some(found) if found == expected => {
                    self.seen += expected.len_utf8();
                    *at += expected.len_utf8();
                }
                None if !is_last => return Step::Wait,
                _ => break,
            }
        }
        Step::Next
    }

    /// Text that may be missing, and white space before it.
    fn fence(&mut self, fence: &Literal, input: Input<'_>, at: &mut usize, is_last: bool) -> Step {
        let rest = &input.text[*at..];
        *at += rest.len() - rest.trim_start().len();
        let rest = &input.text[*at..];
        if rest.starts_with(fence.text()) {
            *at += fence.text().len();
        } else if fence.text().starts_with(rest) && !is_last {
            return Step::Wait;
        }
        Step::Next
    }

    /// A word: white space before it, and what belongs to it.
    fn word(
        &mut self,
        stop: Option<u8>,
        belongs: impl Fn(char) -> bool,
        shared: &Shared,
        input: Input<'_>,
        at: &mut usize,
        is_last: bool,
    ) -> Result<Option<String>, Why> {
        if !matches!(self.inside, Inside::Word(_)) {
            let rest = &input.text[*at..];
            *at += rest.len() - rest.trim_start().len();
            if *at == input.text.len() && !is_last {
                return Ok(None);
            }
            self.inside = Inside::Word(String::new());
        }
        let Inside::Word(word) = &mut self.inside else { return Ok(None) };
        while let Some(found) = input.text[*at..].chars().next() {
            let stops = stop.is_some_and(|stop| input.text.as_bytes()[*at] == stop);
            if stops || !belongs(found) || input.is_control(*at) {
                return Ok(Some(std::mem::take(word)));
            }
            word.push(found);
            *at += found.len_utf8();
            if word.len() > shared.cap().min(NAME) {
                return Err(Why::TooLong);
            }
        }
        Ok(None)
    }

    fn object(&mut self, shared: &mut Shared, view: View<'_>, at: &mut usize, on: &mut dyn FnMut(Event<'_>)) -> Step {
        let mut out = std::mem::take(&mut shared.scratch);
        // Where the next control token begins.
        let mut end = *at;
        loop {
            let Inside::Object(object) = &mut self.inside else { return Step::Wait };
            out.clear();
            if *at == end {
                end = match until_control(shared, view.input(), *at) {
                    Ok(end) => end,
                    Err(why) => return Step::Bad(why),
                };
            }
            let (used, part) = object.read(&view.text()[*at..end], shared, &mut out);
            *at += used;
            match part {
                Part::Wait | Part::More => {
                    if self.index.is_some() {
                        self.give_some(shared, &out, on);
                    } else {
                        object.early.push_str(&out);
                    }
                    if *at < view.text().len() {
                        continue;
                    }
                    shared.scratch = out;
                    return Step::Wait;
                }
                Part::Name(name) => self.name = Some(name),
                Part::Id(id) => self.id = Some(id),
                Part::Arguments => {}
                Part::ArgumentsOver => {
                    self.is_whole = true;
                    if self.index.is_some() {
                        self.give_some(shared, &out, on);
                    } else {
                        object.early.push_str(&out);
                    }
                }
                Part::Done => {
                    shared.scratch = out;
                    if self.index.is_none() {
                        let early = std::mem::take(&mut object.early);
                        if let Err(why) = self.announce(shared, on) {
                            return Step::Bad(why);
                        }
                        self.give_some(shared, if early.is_empty() { "{}" } else { &early }, on);
                    } else if !self.is_whole {
                        self.give_some(shared, "{}", on);
                    }
                    self.is_whole = true;
                    return Step::Next;
                }
                Part::Bad(why) => {
                    if self.index.is_some() {
                        self.give_some(shared, &out, on);
                    }
                    shared.scratch = out;
                    return Step::Bad(why);
                }
            }
            // The name is known and arguments begin: the call can be said.
            if self.index.is_none()
                && let Inside::Object(object) = &mut self.inside
                && object.has_arguments()
                && self.name.is_some()
            {
                let early = std::mem::take(&mut object.early);
                if let Err(why) = self.announce(shared, on) {
                    shared.scratch = out;
                    return Step::Bad(why);
                }
                self.give_some(shared, &early, on);
            }
        }
    }

    fn code(
        &mut self,
        closes: &Marks<()>,
        shared: &mut Shared,
        view: View<'_>,
        at: &mut usize,
        on: &mut dyn FnMut(Event<'_>),
    ) -> Step {
        let is_last = view.is_last;
        let input = view.input();
        let index = self.index.unwrap_or_default();
        let mut from = *at;
        loop {
            let (found, used) = match closes.find(input, from, is_last) {
                crate::marks::Found::Mark(start, end, _) => {
                    // A fence may stand in the code itself: the last one has the end of the turn behind it.
                    let core = input.text[start..end].trim();
                    match core.chars().all(|c| c == '`').then(|| shared.ends_call(input, end, is_last)) {
                        Some(Some(false)) => {
                            from = end;
                            continue;
                        }
                        Some(None) => (start, None),
                        _ => (start, Some(end)),
                    }
                }
                crate::marks::Found::Open(start) => (start, None),
                crate::marks::Found::Nothing => (input.text.len(), None),
            };
            let text = view.shown(*at..found);
            if !text.is_empty() && !shared.is_silent {
                on(Event::Code { index, text });
            }
            *at = found;
            if let Some(end) = used {
                *at = end;
                self.is_whole = true;
                return Step::Next;
            }
            if is_last && closes.is_empty() {
                self.is_whole = true;
            }
            return Step::Wait;
        }
    }

    /// Says arguments, and gives their buffer back.
    fn give(&mut self, shared: &mut Shared, out: String, on: &mut dyn FnMut(Event<'_>)) {
        self.give_some(shared, &out, on);
        shared.scratch = out;
    }

    fn give_some(&mut self, shared: &Shared, text: &str, on: &mut dyn FnMut(Event<'_>)) {
        let Some(index) = self.index.filter(|_| !text.is_empty()) else { return };
        // More than the cap is not kept, and then there is nothing to compare.
        self.kept = self.kept.take().filter(|kept| kept.len() + text.len() <= shared.cap());
        if let Some(kept) = &mut self.kept {
            kept.push_str(text);
        }
        on(Event::Arguments { index, text });
    }

    /// Says that the call begins.
    fn announce(&mut self, shared: &mut Shared, on: &mut dyn FnMut(Event<'_>)) -> Result<(), Why> {
        let index = shared.calls;
        if self.is_code {
            let id = self.id.clone().unwrap_or_else(|| shared.make_id("code"));
            shared.calls += 1;
            self.index = Some(index);
            self.raw = String::new();
            on(Event::CodeStarted { index, id: &id });
            return Ok(());
        }
        if self.name.is_none()
            && let Some(id) = &self.id
        {
            self.name = shared.reply.call_ids.name_in(id).map(str::to_owned);
        }
        let Some(name) = self.name.as_ref().filter(|name| !name.is_empty()) else {
            return Err(Why::Expected("a function's name".into()));
        };
        let tools = &shared.options.tools;
        let is_known = tools.iter().any(|tool| tool.name() == name);
        if !is_known && !tools.is_empty() {
            let is_bare = shared.reply.program(self.program).bare;
            if is_bare || shared.options.unknown_names == UnknownNames::Text {
                return Err(Why::UnknownName(name.clone()));
            }
        }
        let id = self.id.clone().unwrap_or_else(|| shared.make_id(name));
        shared.calls += 1;
        self.index = Some(index);
        self.raw = String::new();
        self.kept = shared.options.check_schema.then(String::new);
        on(Event::CallStarted { index, id: &id, name });
        // An id that comes later is told at the end.
        self.id = None;
        Ok(())
    }

    fn finish(&mut self, shared: &Shared, on: &mut dyn FnMut(Event<'_>)) {
        let Some(index) = self.index else { return };
        if let (Some(kept), Some(name), true) = (&self.kept, &self.name, self.is_whole)
            && let Some(schema) = Schema::of_function(&shared.options.tools, name)
            && let Some(wrong) = check(kept, schema.node())
        {
            on(Event::Malformed(Malformed { span: self.start..self.start, why: Why::Schema(wrong) }));
        }
        on(Event::CallFinished { index, whole: self.is_whole, id: self.id.as_deref() });
    }

    /// It cannot be read on: what was not said yet is content.
    fn fail(&mut self, shared: &mut Shared, why: Why, end: u64, on: &mut dyn FnMut(Event<'_>)) -> Progress {
        let program = std::sync::Arc::clone(&shared.reply);
        let is_weak = program.program(self.program).weak;
        let is_quiet = shared.is_silent || (is_weak && self.index.is_none());
        if !is_quiet {
            on(Event::Malformed(Malformed { span: self.start..end, why }));
        }
        match self.index {
            Some(_) => {
                self.finish(shared, on);
                // What nobody heard of yet.
                match &self.inside {
                    Inside::Arguments(arguments) => shared.say(false, &arguments.unsaid(), on),
                    Inside::Value(reader) => shared.say(false, &reader.unsaid(), on),
                    Inside::Nothing | Inside::Word(_) | Inside::Object(_) => {}
                }
                Progress::Text { in_reasoning: false }
            }
            None => {
                let raw = std::mem::take(&mut self.raw);
                let shown: Range<usize> = self.hidden.min(raw.len())..raw.len();
                if raw.is_empty() && !self.in_reasoning {
                    return Progress::Nothing;
                }
                shared.say(self.in_reasoning, &raw[shown], on);
                Progress::Text { in_reasoning: self.in_reasoning }
            }
        }
    }
}

/// The longest name.
const NAME: usize = 1024;

/// How far a mark's text, with the white space in it, is looked at.
const LONGEST_MARK: usize = 4096;

fn is_name(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '_' | '-' | '.' | ':' | '/' | '$' | '@' | '#' | '+')
}

fn is_id(character: char) -> bool {
    !character.is_whitespace() && !matches!(character, '"' | '\'' | '<' | '{' | '}' | '[' | ']' | '(' | ')' | ',')
}

/// Where in a value the next control token begins; one that closes the call breaks it off.
fn until_control(shared: &Shared, input: Input<'_>, at: usize) -> Result<usize, Why> {
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
