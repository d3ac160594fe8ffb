mod body;
mod item;

use std::ops::Range;

use crate::arguments::Arguments;
use crate::cursor::Cursor;
use crate::marks::MarkSearch;
use crate::object::Object;
use crate::progress::Falling;
use crate::reply::{CallOpening, Item, Program, Syntax};
use crate::shared::Shared;
use crate::values::{RepeatedKey, Schema, ValueReader, check_schema};
use crate::{Event, Malformed, Stop, UnknownNames, Why};
use rolecall_conversation::json::{escape_into, plain_run};

/// A call that is being parsed.
#[derive(Clone, Debug)]
pub(crate) struct OpenCall {
    program: usize,
    /// Index of the next item.
    item: usize,
    /// The number of bytes read of an [`Item::Pad`].
    seen: usize,
    inside: Inside,
    /// The text read so far, kept until the call is announced.
    raw: String,
    /// The number of its bytes that belong to the prompt.
    hidden: usize,
    /// Byte offset of the call in the output.
    start: u64,
    name: Option<String>,
    id: Option<String>,
    /// The call's index, once it is announced.
    index: Option<usize>,
    is_code: bool,
    /// Whether the arguments are complete.
    is_whole: bool,
    /// Whether the call is inside reasoning.
    in_reasoning: bool,
    /// Whether any of the call was read.
    has_read: bool,
    /// The arguments, if they are to be checked against a schema.
    kept: Option<String>,
    keys: RepeatedKey,
    /// Parts of the call that have no meaning, to be reported when it ends.
    unread: Vec<Range<u64>>,
    /// The length of the header in `raw`, once it has been read.
    header: usize,
    /// Whether any of the arguments was emitted.
    has_begun: bool,
    /// Whether the arguments cannot be parsed, so that all text up to the call's end belongs to them.
    is_broken: bool,
}

/// The state inside an item.
#[derive(Clone, Debug)]
enum Inside {
    Nothing,
    Word(String),
    Object(Box<Object>),
    Value(Box<ValueReader>),
    Arguments(Box<Arguments>),
}

/// The progress of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    Wait,
    Finished,
    /// The call is unparseable. Its text was emitted.
    Text {
        /// Whether it was emitted as reasoning, because the call is inside reasoning.
        in_reasoning: bool,
    },
    /// The call is unparseable, and nothing was read of it.
    Nothing,
}

/// The result of reading an item.
enum CallStep {
    Next,
    /// The item is missing, and so are as many items that follow it.
    Skip(usize),
    Wait,
    Bad(Why),
}

impl OpenCall {
    pub fn new(program: usize, start: u64, mark: &str, in_reasoning: bool) -> OpenCall {
        OpenCall {
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
            keys: RepeatedKey::default(),
            unread: Vec::new(),
            header: 0,
            has_begun: false,
            is_broken: false,
        }
    }

    /// Sets the function's name, which is known before the call is read.
    pub fn named(mut self, name: &str) -> OpenCall {
        self.name = Some(name.to_owned());
        self
    }

    /// Records that the text so far belongs to the prompt.
    pub fn hide(&mut self) {
        self.hidden = self.raw.len();
        self.start = 0;
        if let Inside::Arguments(arguments) = &mut self.inside {
            arguments.hide();
        }
    }

    /// Reports whether any of the call was read, including its marker.
    pub fn has_read(&self) -> bool {
        self.has_read
    }

    /// Reports whether the call is an object without a marker.
    pub fn is_bare_object(&self, shared: &Shared) -> bool {
        shared.reply.program(self.program).is_bare_object()
    }

    /// Returns how many bytes may be read at once without reaching a cap, at which a call fails; 0
    /// if this is not known.
    pub fn room(&self, shared: &Shared) -> usize {
        let most = shared.cap().min(item::NAME);
        match (&self.inside, self.index) {
            (Inside::Nothing | Inside::Word(_) | Inside::Object(_), None) => most.saturating_sub(self.raw.len() + 1),
            (Inside::Object(object), Some(_)) => most.saturating_sub(object.held() + 1),
            _ => 0,
        }
    }

    /// Adds the white space before the call to its text.
    pub fn prefix(&mut self, blank: &str) {
        self.raw.insert_str(0, blank);
    }

    /// Reads as far as the input goes.
    pub fn read(&mut self, shared: &mut Shared, cursor: &mut Cursor<'_, '_>) -> Progress {
        let reply = std::sync::Arc::clone(&shared.reply);
        let program = reply.program(self.program);
        let mut progress = Falling::default();
        loop {
            if self.is_broken {
                return self.read_broken(shared, cursor);
            }
            let items = program.items.len() - self.item;
            progress.check((cursor.rest().len(), items, self.index.is_none()));
            let Some(item) = program.items.get(self.item) else {
                if self.index.is_none()
                    && let Err(why) = self.announce(shared, cursor.on)
                {
                    return self.fail(shared, why, cursor.offset(), cursor.on);
                }
                self.finish(shared, cursor.on);
                return Progress::Finished;
            };
            let from = cursor.at;
            let view = cursor.view();
            // The text is kept until the call is announced, up to the cap.
            let room = match self.index {
                Some(_) => view,
                None => view.up_to(from + (shared.cap() - self.raw.len().min(shared.cap()))),
            };
            let step = cursor.within(room, |cursor| self.item(item, shared, cursor));
            self.has_read |= cursor.at > from;
            if self.index.is_none() {
                self.raw.push_str(cursor.shown(from..cursor.at));
            }
            match step {
                CallStep::Next | CallStep::Skip(_) => {
                    self.item += 1 + if let CallStep::Skip(more) = step { more } else { 0 };
                    self.seen = 0;
                    self.inside = Inside::Nothing;
                    if program.header == Some(self.item) && self.index.is_none() {
                        self.header = self.raw.len();
                    }
                }
                CallStep::Wait if room.is_shorter_than(view) => {
                    // The cap applies only until the call is announced.
                    if self.index.is_none() {
                        return self.fail(shared, Why::TooLong, cursor.offset(), cursor.on);
                    }
                }
                CallStep::Wait if view.is_last => {
                    // The model may stop before the markers that close a complete call, or within
                    // them. If it was cut off there, the call may be cut off too.
                    self.is_whole &= shared.stop == Some(Stop::End);
                    return match self.is_whole && self.index.is_some() {
                        true => {
                            // An incomplete id counts as far as it goes.
                            if let (Item::Id(_), Inside::Word(id)) = (item, &mut self.inside) {
                                self.id = Some(std::mem::take(id)).filter(|id| !id.is_empty());
                            }
                            // The key of a complete call that the end cuts off is not known.
                            if let Inside::Object(object) = &self.inside {
                                self.unread(object.unended(), cursor.offset());
                            }
                            if let Some(why) = self.other_name(item) {
                                return self.fail(shared, why, cursor.offset(), cursor.on);
                            }
                            self.finish(shared, cursor.on);
                            Progress::Finished
                        }
                        false => self.fail(shared, Why::Unfinished, cursor.offset(), cursor.on),
                    };
                }
                CallStep::Wait => return Progress::Wait,
                CallStep::Bad(why) if self.has_end(program) => self.break_off(shared, why, cursor),
                CallStep::Bad(why) => return self.fail(shared, why, cursor.offset(), cursor.on),
            }
        }
    }

    /// Reports whether the arguments of an announced call are incomplete, and a marker is to end the call.
    fn has_end(&self, program: &Program) -> bool {
        let rest = program.items.get(self.item..).unwrap_or_default();
        let is_marker = |item: &Item| matches!(item, Item::Literal(literal) | Item::Group(literal, _) if literal.core().is_strong());
        let is_open = self.index.is_some() && !self.is_whole;
        is_open && !self.is_code && !program.is_bare() && rest.iter().any(is_marker)
    }

    /// Reports arguments that cannot be parsed. All of their text stays in the call, as the model wrote
    /// it.
    fn break_off(&mut self, shared: &Shared, why: Why, cursor: &mut Cursor<'_, '_>) {
        if !shared.is_silent {
            cursor.emit(Event::Malformed(Malformed { span: self.start..cursor.offset(), why }));
        }
        let unsaid = match &self.inside {
            Inside::Arguments(arguments) => arguments.unsaid(),
            Inside::Value(reader) => reader.unsaid(),
            Inside::Nothing | Inside::Word(_) | Inside::Object(_) => String::new(),
        };
        (self.inside, self.is_broken) = (Inside::Nothing, true);
        self.give_some(shared, &unsaid, cursor.on);
    }

    /// Reads the rest of arguments that cannot be parsed, up to the marker that ends the call or the
    /// turn.
    fn read_broken(&mut self, shared: &Shared, cursor: &mut Cursor<'_, '_>) -> Progress {
        let (end, is_over) = match cursor.find_marker(&shared.reply.closing, cursor.at) {
            MarkSearch::Mark(start, ..) => (start, true),
            MarkSearch::Open(start) if !cursor.is_last() => (start, false),
            MarkSearch::Open(_) | MarkSearch::Nothing => (cursor.text().len(), cursor.is_last()),
        };
        let text = cursor.take_up_to(end);
        self.give_some(shared, text, cursor.on);
        if !is_over {
            return Progress::Wait;
        }
        self.finish(shared, cursor.on);
        Progress::Finished
    }

    /// Records that the last bytes before an offset have no meaning.
    fn unread(&mut self, bytes: usize, end: u64) {
        if bytes == 0 {
            return;
        }
        let count = self.unread.len();
        match self.unread.last_mut() {
            // The last report covers all the others.
            Some(last) if count == MOST_UNREAD => last.end = end,
            _ => self.unread.push(end.saturating_sub(bytes as u64)..end),
        }
    }

    /// Returns the fault if the end of the output cuts off a name that is not the call's.
    fn other_name(&self, item: &Item) -> Option<Why> {
        match (item, &self.inside, &self.name) {
            (Item::Name(_), Inside::Word(word), Some(name)) if !name.starts_with(word.as_str()) => {
                Some(name_again(name))
            }
            _ => None,
        }
    }

    /// Gives the call up because the output has ended.
    pub fn abandon(mut self, shared: &mut Shared, why: Why, end: u64, on: &mut dyn FnMut(Event<'_>)) {
        self.fail(shared, why, end, on);
    }

    /// Emits a chunk that only continues the string that is open in the arguments. Returns whether
    /// it was emitted.
    pub fn continues(&mut self, text: &str, shared: &mut Shared, on: &mut dyn FnMut(Event<'_>)) -> bool {
        let is_plain = self.index.is_some()
            && match &mut self.inside {
                Inside::Object(object) => object.is_plain(text),
                Inside::Value(reader) => reader.is_plain(text),
                Inside::Arguments(arguments) => match &shared.reply.program(self.program).items[self.item] {
                    Item::Arguments(Syntax::List(list)) => arguments.continues(list, text),
                    _ => false,
                },
                Inside::Nothing | Inside::Word(_) => false,
            };
        if !is_plain {
            return false;
        }
        if plain_run(text.as_bytes()) == text.len() {
            self.give_some(shared, text, on);
        } else {
            let mut out = std::mem::take(&mut shared.scratch);
            out.clear();
            escape_into(&mut out, text, false);
            self.give(shared, out, on);
        }
        true
    }

    /// Emits arguments and returns their buffer for reuse.
    fn give(&mut self, shared: &mut Shared, out: String, on: &mut dyn FnMut(Event<'_>)) {
        self.give_some(shared, &out, on);
        shared.scratch = out;
    }

    fn give_some(&mut self, shared: &Shared, text: &str, on: &mut dyn FnMut(Event<'_>)) {
        let Some(index) = self.index.filter(|_| !text.is_empty()) else { return };
        if !self.has_begun
            && let Some(first) = text.trim_start().chars().next()
        {
            self.has_begun = true;
            if first != '{' && !self.is_broken && !shared.is_silent {
                let why = Why::BadValue("expected a JSON object".into());
                on(Event::Malformed(Malformed { span: self.start..self.start, why }));
            }
        }
        // Arguments longer than the cap are not kept, and so not checked.
        self.kept = self.kept.take().filter(|kept| kept.len() + text.len() <= shared.cap());
        if let Some(kept) = &mut self.kept {
            kept.push_str(text);
        }
        self.keys.push(text);
        on(Event::Arguments { index, text });
    }

    /// Emits the start of the call.
    fn announce(&mut self, shared: &mut Shared, on: &mut dyn FnMut(Event<'_>)) -> Result<(), Why> {
        let index = shared.calls;
        if self.is_code {
            shared.release(on);
            let id = self.id.clone().unwrap_or_else(|| shared.make_id("code"));
            shared.calls += 1;
            self.index = Some(index);
            self.raw = String::new();
            shared.report_bare_call(None, on);
            on(Event::CodeStarted { index, id: &id });
            return Ok(());
        }
        if self.name.is_none()
            && let Some(id) = &self.id
        {
            self.name = shared.reply.call_ids.name_in(id).map(str::to_owned);
        }
        let Some(name) = self.name.as_ref().filter(|name| !name.is_empty()) else {
            return Err(Why::Expected("a function name".into()));
        };
        let tools = &shared.options.tools;
        let is_known = tools.iter().any(|tool| tool.name() == name);
        if !is_known && !tools.is_empty() {
            let program = shared.reply.program(self.program);
            let why = Why::UnknownName { name: name.clone(), offered: shared.options.names() };
            if matches!(program.opening, CallOpening::Bare | CallOpening::InText)
                || shared.options.unknown_names == UnknownNames::Text
            {
                return Err(why);
            }
            if !shared.is_silent {
                on(Event::Malformed(Malformed { span: self.start..self.start, why }));
            }
        }
        let id = self.id.clone().unwrap_or_else(|| shared.make_id(name));
        shared.calls += 1;
        self.index = Some(index);
        self.raw = String::new();
        self.kept = shared.options.check_schema.then(String::new);
        shared.release(on);
        shared.report_bare_call(None, on);
        on(Event::CallStarted { index, id: &id, name });
        // An id that comes later is reported at the end.
        self.id = None;
        Ok(())
    }

    fn finish(&mut self, shared: &Shared, on: &mut dyn FnMut(Event<'_>)) {
        let Some(index) = self.index else { return };
        if let (Some(kept), Some(name), true) = (&self.kept, &self.name, self.is_whole)
            && let Some(schema) = Schema::of_function(&shared.options.tools, name)
            && let Some(wrong) = check_schema(kept, schema.node())
        {
            on(Event::Malformed(Malformed { span: self.start..self.start, why: Why::Schema(wrong) }));
        }
        if !shared.is_silent {
            if let Some(key) = self.keys.found() {
                let why = Why::RepeatedArgument(key.to_owned());
                on(Event::Malformed(Malformed { span: self.start..self.start, why }));
            }
            for span in self.unread.drain(..) {
                on(Event::Malformed(Malformed { span, why: Why::Unread }));
            }
        }
        on(Event::CallFinished { index, whole: self.is_whole, id: self.id.as_deref() });
    }

    /// Gives the call up. Its text becomes content unless it was already emitted.
    fn fail(&mut self, shared: &mut Shared, why: Why, end: u64, on: &mut dyn FnMut(Event<'_>)) -> Progress {
        let why = if why == Why::Unfinished { shared.cut_call() } else { why };
        let reply = std::sync::Arc::clone(&shared.reply);
        let program = reply.program(self.program);
        let is_weak = program.opening != CallOpening::Marker && !program.is_told(self.item);
        // Behind a call of an open list, nothing else belongs, and an object with a name and arguments calls some tool.
        let is_in_list = shared.is_list_open && shared.calls > shared.closed;
        let calls_other = matches!(why, Why::UnknownName { .. }) && program.has_object();
        let is_text = is_weak && self.index.is_none() && !is_in_list && !calls_other;
        // A bracket that no call follows opens no list.
        shared.is_list_open &= !is_text;
        let is_quiet = shared.is_silent || is_text;
        let header = self.header.saturating_sub(self.hidden) as u64;
        if self.index.is_none() && header > 0 && !shared.is_silent {
            on(Event::Malformed(Malformed { span: self.start..self.start + header, why: Why::Unread }));
        }
        if !is_quiet {
            on(Event::Malformed(Malformed { span: self.start..end, why }));
        }
        match self.index {
            Some(_) => {
                self.finish(shared, on);
                // Emit the text that was read and not emitted yet.
                match &self.inside {
                    Inside::Arguments(arguments) => shared.say(end, false, &arguments.unsaid(), on),
                    Inside::Value(reader) => shared.say(end, false, &reader.unsaid(), on),
                    Inside::Nothing | Inside::Word(_) | Inside::Object(_) => {}
                }
                Progress::Text { in_reasoning: false }
            }
            None => {
                let raw = std::mem::take(&mut self.raw);
                // A header alone opens the answer, as the header of an answer does.
                let shown: Range<usize> = self.hidden.max(self.header).min(raw.len())..raw.len();
                if raw.is_empty() && !self.in_reasoning {
                    return Progress::Nothing;
                }
                match is_quiet {
                    true => shared.say_up_to(end, self.in_reasoning, &raw[shown], on),
                    // The markers in it are reported with the call.
                    false => shared.say_reported(end, self.in_reasoning, &raw[shown], on),
                }
                Progress::Text { in_reasoning: self.in_reasoning }
            }
        }
    }
}

/// The maximum number of meaningless parts of a call to report.
const MOST_UNREAD: usize = 64;

/// Returns the fault that the name of a call is not repeated where its layout repeats it.
fn name_again(name: &str) -> Why {
    Why::Expected(format!("the name `{name}` again"))
}
