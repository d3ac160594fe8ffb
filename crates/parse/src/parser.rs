use std::sync::Arc;

use crate::call::{Progress, Running};
use crate::ids;
use crate::marks::{Found, Here, Input};
use crate::reply::{Mark, Meaning, Reply};
use crate::{CallsInReasoning, Event, Malformed, ParseOptions, Reading, Stop, TextAfterCalls, Why};

/// Reads what a model writes while it comes, and says what it means.
///
/// However the output is cut into pieces, the events are the same but for the borders of deltas. Nothing is an error: what cannot be
/// read as the layouts say is reported and goes on as content.
///
/// ```
/// use std::sync::Arc;
/// use rolecall_format::Registry;
/// use rolecall_parse::{Event, OutputParser, ParseOptions, Reply, Stop};
/// let registry = Registry::builtin();
/// let reply = Arc::new(Reply::new(registry.get("internlm2").expect("built in")));
/// let mut parser = OutputParser::new(&reply, ParseOptions::default());
/// let mut said = String::new();
/// for chunk in ["Hel", "lo<|im", "_end|>"] {
///     parser.push_text(chunk, &mut |event| {
///         if let Event::Content(text) = event {
///             said.push_str(text);
///         }
///     });
/// }
/// parser.finish(Stop::End, &mut |_| {});
/// assert_eq!(said, "Hello");
/// ```
#[derive(Clone, Debug)]
pub struct OutputParser {
    pub(crate) shared: Shared,
    state: State,
    pending: Pending,
    /// White space that may follow and belongs to the mark before it: the text, and how much of it was seen.
    pad: (Arc<str>, usize),
    /// Bytes of a character that is not whole yet.
    carry: Vec<u8>,
    /// Whether the turn's end was said.
    is_stopped: bool,
}

/// What all states need.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    pub reply: Arc<Reply>,
    pub options: ParseOptions,
    /// How many calls began.
    pub calls: usize,
    /// How many of them what stands around calls was closed behind.
    closed: usize,
    /// Whether what is read is the prompt's own end: its text is nobody's news.
    pub is_silent: bool,
    /// What began in the prompt's end and is to be said when the output begins.
    pub opened: Reading,
    /// Whether the answer said something yet.
    has_spoken: bool,
    /// Why the output is over, once it is.
    stop: Option<Stop>,
    /// The character before, to know what stands in quotes.
    last: Option<char>,
    /// Where text in JSON's words is put together.
    pub scratch: String,
}

#[derive(Clone, Debug)]
enum State {
    /// Right behind the turn's opening, or behind reasoning.
    Head { is_fresh: bool },
    /// In text; white space at its start is kept back until something else comes.
    Text { part: Part, blank: Option<String> },
    /// In a call.
    Call(Box<Running>),
    /// In reasoning, where a call began that counts only if the reasoning is never closed: it is read without a word, and nothing
    /// of it is given up; how much was looked at.
    Draft { shadow: Option<Box<Running>>, seen: usize },
    /// Behind a call, with white space that came since.
    AfterCall { blank: String, is_group: bool },
    /// Behind the turn's end.
    Ended,
}

/// Whose text it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Content,
    Reasoning,
}

/// Output that could not be read yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pending {
    text: String,
    control: Vec<bool>,
    /// Where its first byte stands in the output.
    start: u64,
    /// How many of its bytes are the prompt's.
    hidden: usize,
}

/// Whether there is more to be done with what is there.
enum Flow {
    Again,
    Wait,
}

/// White space that is kept back at most.
const BLANK: usize = 4096;

/// Long pieces are read in parts, so that no copy of them is made.
const PIECE: usize = 1 << 12;

/// The default of [`ParseOptions::cap`].
pub(crate) const CAP: usize = 1 << 20;

impl OutputParser {
    /// A parser for one turn. The prompt's tail is read first, in silence: what it opened is open.
    pub fn new(reply: &Arc<Reply>, options: ParseOptions) -> OutputParser {
        let tail = tail_of(reply, &options.prompt_tail).to_owned();
        let shared = Shared {
            reply: Arc::clone(reply),
            options,
            calls: 0,
            closed: 0,
            is_silent: true,
            opened: Reading::default(),
            has_spoken: false,
            stop: None,
            last: None,
            scratch: String::new(),
        };
        let mut parser = OutputParser {
            shared,
            state: State::Head { is_fresh: true },
            pending: Pending::default(),
            pad: ("".into(), 0),
            carry: Vec::new(),
            is_stopped: false,
        };
        let mut opened = Reading::default();
        parser.push(&tail, None, &mut |event| {
            // A call that the prompt began is the answer's.
            if !matches!(event, Event::Content(_) | Event::Reasoning(_) | Event::Stop(_) | Event::Malformed(_)) {
                opened.add(&event);
            }
        });
        if matches!(parser.state, State::Ended) {
            parser.state = State::Head { is_fresh: true };
        }
        parser.is_stopped = false;
        parser.pending.hidden = parser.pending.text.len();
        parser.pending.start = 0;
        parser.pending.control.clear();
        if let State::Call(running) = &mut parser.state {
            running.hide();
        }
        parser.shared.opened = opened;
        parser.shared.is_silent = false;
        parser
    }

    /// Reads the next piece of text.
    pub fn push_text(&mut self, chunk: &str, on: &mut impl FnMut(Event<'_>)) {
        self.begin(on);
        self.push(chunk, None, on);
    }

    /// Reads the bytes of the next token, and whether it is a control token of the tokenizer. Characters may be cut anywhere.
    pub fn push_bytes(&mut self, bytes: &[u8], is_control: bool, on: &mut impl FnMut(Event<'_>)) {
        self.begin(on);
        if self.carry.is_empty()
            && let Ok(text) = std::str::from_utf8(bytes)
        {
            return self.push(text, Some(is_control), on);
        }
        self.carry.extend_from_slice(bytes);
        let carry = std::mem::take(&mut self.carry);
        let mut rest = carry.as_slice();
        loop {
            match std::str::from_utf8(rest) {
                Ok(text) => return self.push(text, Some(is_control), on),
                Err(error) => {
                    let (good, others) = rest.split_at(error.valid_up_to());
                    self.push(std::str::from_utf8(good).unwrap_or_default(), Some(is_control), on);
                    let Some(length) = error.error_len() else {
                        self.carry = others.to_vec();
                        return;
                    };
                    self.not_utf8(length, on);
                    rest = &others[length..];
                }
            }
        }
    }

    /// The output is over: closes what is open, and loses nothing.
    pub fn finish(&mut self, stop: Stop, on: &mut impl FnMut(Event<'_>)) {
        self.begin(on);
        if !self.carry.is_empty() {
            let length = self.carry.len();
            self.carry.clear();
            self.not_utf8(length, on);
        }
        self.shared.stop = Some(stop);
        self.run(true, on);
        match std::mem::replace(&mut self.state, State::Ended) {
            State::Text { part, blank: Some(blank) } => {
                self.state = State::Text { part, blank: None };
                self.say(&blank, on);
            }
            State::Call(running) => {
                let end = self.pending.start;
                running.abandon(&mut self.shared, Why::Unfinished, end, on);
            }
            _ => {}
        }
        self.state = State::Ended;
        self.stop(stop, on);
    }

    fn not_utf8(&mut self, length: usize, on: &mut impl FnMut(Event<'_>)) {
        let start = self.pending.offset(self.pending.text.len());
        on(Event::Malformed(Malformed { span: start..start + length as u64, why: Why::NotUtf8 }));
        self.push("\u{fffd}", Some(false), on);
    }

    /// Says what the prompt began.
    fn begin(&mut self, on: &mut dyn FnMut(Event<'_>)) {
        if !self.shared.opened.calls.is_empty() {
            std::mem::take(&mut self.shared.opened).replay(on);
        }
    }

    fn push(&mut self, text: &str, control: Option<bool>, on: &mut dyn FnMut(Event<'_>)) {
        let mut rest = text;
        while !rest.is_empty() {
            let mut end = rest.len().min(PIECE);
            while !rest.is_char_boundary(end) {
                end -= 1;
            }
            let (piece, others) = rest.split_at(end);
            let before = self.pending.text.len();
            self.pending.text.push_str(piece);
            if control.is_some() || !self.pending.control.is_empty() {
                self.pending.control.resize(before, false);
                self.pending.control.resize(before + piece.len(), control.unwrap_or(false));
            }
            self.run(false, on);
            rest = others;
        }
    }

    /// Reads what there is.
    fn run(&mut self, is_last: bool, on: &mut dyn FnMut(Event<'_>)) {
        let mut pending = std::mem::take(&mut self.pending);
        let mut at = 0;
        loop {
            let flow = match self.eat_pad(&pending, &mut at, is_last) {
                Flow::Again => self.step(&pending, &mut at, is_last, on),
                wait => wait,
            };
            if matches!(flow, Flow::Wait) {
                break;
            }
        }
        pending.drop_up_to(at);
        self.pending = pending;
    }

    fn eat_pad(&mut self, pending: &Pending, at: &mut usize, is_last: bool) -> Flow {
        let (pad, seen) = &mut self.pad;
        // Text behind the end is taken whole or not at all.
        if *seen == 0 && !pad.trim().is_empty() {
            let rest = &pending.text[*at..];
            if rest.starts_with(&**pad) {
                *at += pad.len();
            } else if pad.starts_with(rest) && !is_last {
                return Flow::Wait;
            }
            *seen = pad.len();
        }
        while let Some(expected) = pad[*seen..].chars().next() {
            match pending.text[*at..].chars().next() {
                Some(found) if found == expected => {
                    *seen += expected.len_utf8();
                    *at += expected.len_utf8();
                }
                None if !is_last => return Flow::Wait,
                _ => *seen = pad.len(),
            }
        }
        Flow::Again
    }

    fn step(&mut self, pending: &Pending, at: &mut usize, is_last: bool, on: &mut dyn FnMut(Event<'_>)) -> Flow {
        if *at == pending.text.len() && !(is_last && matches!(self.state, State::Call(_) | State::Draft { .. })) {
            return Flow::Wait;
        }
        match &mut self.state {
            State::Head { is_fresh } => {
                let is_fresh = *is_fresh;
                self.head(is_fresh, pending, at, is_last, on)
            }
            State::Text { part, .. } => {
                let part = *part;
                self.text(part, pending, at, is_last, on)
            }
            State::AfterCall { .. } => self.after_call(pending, at, is_last, on),
            State::Call(running) => {
                let progress = running.read(&mut self.shared, pending.view(is_last), at, on);
                match progress {
                    Progress::Wait => return Flow::Wait,
                    Progress::Finished => self.state = State::AfterCall { blank: String::new(), is_group: true },
                    // What was read of it is content now, and what is wrong with it goes on as text.
                    Progress::Text { in_reasoning } => {
                        self.shared.has_spoken = true;
                        let part = if in_reasoning { Part::Reasoning } else { Part::Content };
                        self.state = State::Text { part, blank: None };
                    }
                    Progress::Nothing => {
                        self.state = State::Text { part: Part::Content, blank: Some(String::new()) };
                    }
                }
                Flow::Again
            }
            State::Draft { .. } => self.draft(pending, at, is_last, on),
            State::Ended => self.ended(pending, at, is_last, on),
        }
    }

    fn head(
        &mut self,
        is_fresh: bool,
        pending: &Pending,
        at: &mut usize,
        is_last: bool,
        on: &mut dyn FnMut(Event<'_>),
    ) -> Flow {
        let reply = Arc::clone(&self.shared.reply);
        match reply.head.at(pending.input(), *at, is_last) {
            Here::Open => return Flow::Wait,
            Here::Mark(end, action) if is_fresh || !pending.text[*at..end].trim().is_empty() => {
                let start = *at;
                *at = end;
                self.apply(reply.head.action(action), start..end, pending, on);
            }
            _ => match reply.head_call.filter(|_| is_fresh) {
                Some(program) => self.start_call(program, *at..*at, pending, on),
                None => self.state = State::Text { part: Part::Content, blank: Some(String::new()) },
            },
        }
        Flow::Again
    }

    fn text(
        &mut self,
        part: Part,
        pending: &Pending,
        at: &mut usize,
        is_last: bool,
        on: &mut dyn FnMut(Event<'_>),
    ) -> Flow {
        let reply = Arc::clone(&self.shared.reply);
        let policy = self.shared.options.calls_in_reasoning.unwrap_or(reply.calls_in_reasoning);
        let marks = match (part, policy) {
            (Part::Content, _) => &reply.content,
            (Part::Reasoning, CallsInReasoning::Draft) => &reply.reasoning,
            (Part::Reasoning, _) => &reply.reasoning_with_calls,
        };
        let mut from = *at;
        loop {
            match marks.find(pending.input(), from, is_last) {
                Found::Mark(start, end, action) => {
                    let mark = marks.action(action);
                    if mark.meaning == Meaning::CallsClosed && self.shared.calls == self.shared.closed {
                        // Nothing was opened that it could close.
                        from = end;
                        continue;
                    }
                    match self.is_quoted(mark, pending, *at, start, end, is_last) {
                        Some(true) => {
                            from = end;
                            continue;
                        }
                        None => {
                            self.say(pending.shown(*at..start), on);
                            *at = start;
                            return Flow::Wait;
                        }
                        Some(false) => {}
                    }
                    self.say(pending.shown(*at..start), on);
                    if let (Part::Reasoning, Meaning::Call(program), CallsInReasoning::Unclosed) =
                        (part, mark.meaning, policy)
                    {
                        *at = start;
                        let shadow = Running::new(program, 0, "", true);
                        self.state = State::Draft { shadow: Some(Box::new(shadow)), seen: end - start };
                        return Flow::Again;
                    }
                    *at = end;
                    self.apply(mark, start..end, pending, on);
                    return Flow::Again;
                }
                Found::Open(start) => {
                    self.say(pending.shown(*at..start), on);
                    *at = start;
                    return Flow::Wait;
                }
                Found::Nothing => {
                    let end = pending.text.len();
                    self.say(pending.shown(*at..end), on);
                    *at = end;
                    return Flow::Wait;
                }
            }
        }
    }

    /// Reads a call in reasoning without a word, until it is known what it is.
    fn draft(&mut self, pending: &Pending, at: &mut usize, is_last: bool, on: &mut dyn FnMut(Event<'_>)) -> Flow {
        let reply = Arc::clone(&self.shared.reply);
        let State::Draft { shadow, seen } = &mut self.state else { return Flow::Again };
        let view = pending.view(is_last).up_to(*at + self.shared.cap());
        let mut here = *at + *seen;
        // What it is: a draft up to there, or a call.
        let draft = loop {
            match shadow {
                Some(running) => {
                    let calls = self.shared.calls;
                    let progress = running.read(&mut self.shared, view, &mut here, &mut |_| {});
                    self.shared.calls = calls;
                    match progress {
                        Progress::Wait => break None,
                        Progress::Finished => *shadow = None,
                        Progress::Text { .. } | Progress::Nothing => break Some((here, false)),
                    }
                }
                None => match reply.reasoning.find(view.input(), here, view.is_last) {
                    Found::Mark(start, _, action) => match reply.reasoning.action(action).meaning {
                        Meaning::End => break Some((start, self.shared.stop.is_none_or(|stop| stop == Stop::End))),
                        _ => break Some((start, false)),
                    },
                    Found::Open(start) => {
                        here = start;
                        break None;
                    }
                    Found::Nothing => {
                        here = view.text().len();
                        break None;
                    }
                },
            }
        };
        let is_over = view.is_last && shadow.is_none() && self.shared.stop == Some(Stop::End);
        let (end, is_call) = match draft {
            Some(known) => known,
            None if view.is_last => (view.text().len(), is_over),
            None if view.is_cut() => (view.text().len(), false),
            None => {
                *seen = here - *at;
                return Flow::Wait;
            }
        };
        match is_call {
            true => {
                self.shared.options.calls_in_reasoning = Some(CallsInReasoning::Call);
                self.state = State::Text { part: Part::Reasoning, blank: None };
            }
            false => {
                self.state = State::Text { part: Part::Reasoning, blank: None };
                self.say(pending.shown(*at..end), on);
                *at = end;
            }
        }
        Flow::Again
    }

    /// Whether a mark that closes reasoning stands in backticks, where the model speaks of it; none, if that is not known yet.
    fn is_quoted(
        &self,
        mark: &Mark,
        pending: &Pending,
        from: usize,
        start: usize,
        end: usize,
        is_last: bool,
    ) -> Option<bool> {
        if mark.meaning != Meaning::ReasoningClosed || pending.input().is_control(start) {
            return Some(false);
        }
        let before = pending.text[from..start].chars().next_back().or(self.shared.last);
        match (before, pending.text.as_bytes().get(end)) {
            (Some('`'), Some(b'`')) => Some(true),
            (Some('`'), None) if !is_last => None,
            _ => Some(false),
        }
    }

    fn after_call(&mut self, pending: &Pending, at: &mut usize, is_last: bool, on: &mut dyn FnMut(Event<'_>)) -> Flow {
        let State::AfterCall { blank, is_group } = &mut self.state else { return Flow::Again };
        let rest = &pending.text[*at..];
        let spaces = rest.len() - rest.trim_start().len();
        if spaces > 0 {
            // The same white space is kept in every chunking.
            let most = rest[..spaces].char_indices().map(|(at, space)| at + space.len_utf8());
            let taken = most.into_iter().find(|end| blank.len() + end > BLANK).unwrap_or(spaces);
            blank.push_str(&rest[..taken]);
            *at += taken;
            if blank.len() > BLANK {
                let blank = std::mem::take(blank);
                self.state = State::Text { part: Part::Content, blank: None };
                self.say(&blank, on);
            }
            return Flow::Again;
        }
        let reply = Arc::clone(&self.shared.reply);
        match reply.after_call.at(pending.input(), *at, is_last) {
            Here::Open => Flow::Wait,
            Here::Mark(end, action) => {
                let start = *at;
                *at = end;
                self.apply(reply.after_call.action(action), start..end, pending, on);
                Flow::Again
            }
            Here::Nothing => {
                let blank = std::mem::take(blank);
                if let Some(program) = reply.next_call.filter(|_| *is_group) {
                    *is_group = false;
                    self.start_call(program, *at..*at, pending, on);
                    if let State::Call(running) = &mut self.state {
                        running.prefix(&blank);
                    }
                    return Flow::Again;
                }
                if self.shared.options.text_after_calls == TextAfterCalls::Report {
                    let start = pending.offset(*at);
                    let why = Why::Expected("another call or the end of the turn".into());
                    on(Event::Malformed(Malformed { span: start..start, why }));
                }
                self.state = State::Text { part: Part::Content, blank: None };
                self.say(&blank, on);
                Flow::Again
            }
        }
    }

    fn ended(&mut self, pending: &Pending, at: &mut usize, is_last: bool, on: &mut dyn FnMut(Event<'_>)) -> Flow {
        let rest = &pending.text[*at..];
        let spaces = rest.len() - rest.trim_start().len();
        *at += spaces;
        if spaces == rest.len() {
            return Flow::Wait;
        }
        let reply = Arc::clone(&self.shared.reply);
        match reply.after_call.at(pending.input(), *at, is_last) {
            Here::Open => Flow::Wait,
            Here::Mark(end, action) if reply.after_call.action(action).meaning == Meaning::End => {
                *at = end;
                Flow::Again
            }
            _ => {
                let start = pending.offset(*at);
                on(Event::Malformed(Malformed { span: start..start, why: Why::AfterEnd }));
                self.state = State::Text { part: Part::Content, blank: None };
                Flow::Again
            }
        }
    }

    fn apply(&mut self, mark: &Mark, span: std::ops::Range<usize>, pending: &Pending, on: &mut dyn FnMut(Event<'_>)) {
        let text = |part| State::Text { part, blank: Some(String::new()) };
        self.shared.last = None;
        self.pad = (Arc::clone(&mark.pad), 0);
        if mark.meaning == Meaning::CallsClosed {
            self.shared.closed = self.shared.calls;
        }
        self.state = match mark.meaning {
            Meaning::Opening => State::Head { is_fresh: true },
            Meaning::Reasoning => text(Part::Reasoning),
            Meaning::ReasoningClosed => State::Head { is_fresh: false },
            Meaning::Content | Meaning::ContentClosed | Meaning::CallsClosed => text(Part::Content),
            Meaning::Call(program) => return self.start_call(program, span, pending, on),
            Meaning::End => {
                self.stop(Stop::End, on);
                State::Ended
            }
        };
    }

    fn start_call(
        &mut self,
        program: usize,
        mark: std::ops::Range<usize>,
        pending: &Pending,
        on: &mut dyn FnMut(Event<'_>),
    ) {
        let shared = &mut self.shared;
        let is_bare = shared.reply.program(program).bare;
        let is_over = shared.options.max_calls.is_some_and(|most| shared.calls >= most);
        // Nothing but a tool's name tells such a call from an answer in JSON.
        let is_answer = is_bare && shared.options.tools.is_empty() && shared.has_spoken;
        if is_over || is_answer {
            let blank = match &mut self.state {
                State::Text { blank, .. } => blank.take(),
                State::AfterCall { blank, .. } => Some(std::mem::take(blank)),
                _ => None,
            };
            self.state = State::Text { part: Part::Content, blank: Some(blank.unwrap_or_default()) };
            return self.say(pending.shown(mark), on);
        }
        let start = pending.offset(mark.start);
        let in_reasoning = matches!(self.state, State::Text { part: Part::Reasoning, .. });
        self.state = State::Call(Box::new(Running::new(program, start, pending.shown(mark), in_reasoning)));
    }

    /// Says text of the part that is being read.
    fn say(&mut self, text: &str, on: &mut dyn FnMut(Event<'_>)) {
        let State::Text { part, blank } = &mut self.state else { return };
        if text.is_empty() {
            return;
        }
        self.shared.last = text.chars().next_back();
        if let Some(held) = blank {
            if text.trim().is_empty() && held.len() + text.len() <= BLANK {
                held.push_str(text);
                return;
            }
            let held = blank.take().unwrap_or_default();
            self.shared.say(*part == Part::Reasoning, &held, on);
        }
        self.shared.say(*part == Part::Reasoning, text, on);
    }

    fn stop(&mut self, stop: Stop, on: &mut dyn FnMut(Event<'_>)) {
        if !std::mem::replace(&mut self.is_stopped, true) && !self.shared.is_silent {
            on(Event::Stop(stop));
        }
    }
}

impl Shared {
    /// Says text as content or as reasoning.
    pub fn say(&mut self, is_reasoning: bool, text: &str, on: &mut dyn FnMut(Event<'_>)) {
        self.has_spoken = true;
        if !text.is_empty() && !self.is_silent {
            on(match is_reasoning {
                true => Event::Reasoning(text),
                false => Event::Content(text),
            });
        }
    }

    /// Whether what stands here ends a call: another one, the end of them all, or of the turn; none, if that is not known yet.
    pub fn ends_call(&self, input: Input<'_>, at: usize, is_last: bool) -> Option<bool> {
        let rest = &input.text[at..];
        let start = at + rest.len() - rest.trim_start().len();
        match self.reply.after_call.at(input, start, is_last) {
            _ if start == input.text.len() => is_last.then_some(true),
            Here::Mark(..) => Some(true),
            Here::Open => None,
            Here::Nothing => Some(false),
        }
    }

    /// The most bytes that are kept for one open value.
    pub fn cap(&self) -> usize {
        self.options.cap.unwrap_or(CAP)
    }

    /// The id of the next call, where the model writes none.
    pub fn make_id(&self, name: &str) -> String {
        ids::make(&self.reply.call_ids, self.options.ids, name, self.calls)
    }
}

/// Output that may be read now: up to where a cap ends.
#[derive(Clone, Copy)]
pub(crate) struct View<'p> {
    pending: &'p Pending,
    end: usize,
    /// Whether nothing comes behind it.
    pub is_last: bool,
}

impl<'p> View<'p> {
    /// No more than so many bytes of it, however much there is, so that a cap ends at the same byte in every chunking.
    pub fn up_to(self, end: usize) -> View<'p> {
        if end >= self.end {
            return self;
        }
        let mut end = end;
        while !self.pending.text.is_char_boundary(end) {
            end -= 1;
        }
        View { end, is_last: false, ..self }
    }

    /// Whether a cap ends it.
    pub fn is_cut(self) -> bool {
        self.end < self.pending.text.len()
    }

    pub fn text(self) -> &'p str {
        &self.pending.text[..self.end]
    }

    pub fn input(self) -> Input<'p> {
        let control = &self.pending.control;
        Input { text: self.text(), control: &control[..self.end.min(control.len())] }
    }

    /// A part of it without what is the prompt's.
    pub fn shown(self, range: std::ops::Range<usize>) -> &'p str {
        self.pending.shown(range)
    }

    /// Where a byte of it stands in the output.
    pub fn offset(self, at: usize) -> u64 {
        self.pending.offset(at)
    }
}

impl Pending {
    fn view(&self, is_last: bool) -> View<'_> {
        View { pending: self, end: self.text.len(), is_last }
    }

    fn input(&self) -> Input<'_> {
        Input { text: &self.text, control: &self.control }
    }

    /// A part of it without what is the prompt's.
    fn shown(&self, range: std::ops::Range<usize>) -> &str {
        &self.text[range.start.max(self.hidden).min(range.end)..range.end]
    }

    /// Where a byte of it stands in the output; what is the prompt's stands before its start.
    fn offset(&self, at: usize) -> u64 {
        self.start + at.saturating_sub(self.hidden) as u64
    }

    fn drop_up_to(&mut self, at: usize) {
        self.start += (at - self.hidden.min(at)) as u64;
        self.hidden -= self.hidden.min(at);
        match at == self.text.len() {
            true => self.text.clear(),
            false => drop(self.text.drain(..at)),
        }
        self.control.drain(..at.min(self.control.len()));
    }
}

/// What of a prompt's end stands behind the opening of the assistant's turn.
fn tail_of<'t>(reply: &Reply, tail: &'t str) -> &'t str {
    let opening = reply.opening.text();
    match tail.rfind(opening) {
        Some(at) if !opening.is_empty() => &tail[at + opening.len()..],
        _ => "",
    }
}

/// Reads a whole output.
pub fn read(reply: &Arc<Reply>, options: ParseOptions, output: &str, stop: Stop) -> Reading {
    let mut reading = Reading::default();
    let mut parser = OutputParser::new(reply, options);
    parser.push_text(output, &mut |event| reading.add(&event));
    parser.finish(stop, &mut |event| reading.add(&event));
    reading
}
