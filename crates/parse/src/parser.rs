use std::sync::Arc;

use crate::call::{Progress, Running};
use crate::ids;
use crate::marks::{Found, Here, Input};
use crate::pending::{Pending, View};
use crate::progress::Falling;
use crate::reply::{Mark, Meaning, Reply};
use crate::{CallsInReasoning, Event, Malformed, ParseOptions, Reading, Stop, TextAfterCalls, Why};

/// Reads what a model writes while it comes, and says what it means.
///
/// However the output is cut into pieces, the events are the same but for the borders of deltas. Nothing is an error: what cannot be
/// read as the layouts say is reported and goes on as content.
///
/// ```
/// use std::sync::Arc;
/// use rolecall_format::builtin;
/// use rolecall_parse::{Event, OutputParser, ParseOptions, Reply, Stop};
/// let registry = builtin();
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
    /// In reasoning, at a call that counts only if the reasoning is never closed. It is read ahead without events.
    Draft(Draft),
    /// Behind a call, with white space that came since.
    AfterCall { blank: String, is_group: bool },
    /// Behind the turn's end.
    Ended,
}

/// A call in reasoning, read ahead. Nothing of it is dropped before it is known what it is.
#[derive(Clone, Debug)]
struct Draft {
    /// The call, until it is whole.
    shadow: Option<Box<Running>>,
    /// How many bytes were looked at, its mark included.
    seen: usize,
    /// How many bytes may be looked at: the cap, and its mark in any case.
    room: usize,
}

/// What a draft turns out to be.
enum Verdict {
    /// The turn ends behind it, and the reasoning was never closed: a call.
    Call,
    /// The reasoning goes on behind it, from there on: reasoning as it stands.
    Draft(usize),
    /// Up to there it is no whole call: text, in which the reasoning may be closed.
    Text(usize),
}

/// Whose text it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Content,
    Reasoning,
}

/// Whether there is more to be done with what is there.
enum Flow {
    Again,
    Wait,
}

/// White space behind a call's end that is looked through at most.
const BEHIND: usize = 256;

/// White space that is kept back at most.
const BLANK: usize = 4096;

/// Long pieces are read in parts, so that no copy of them is made.
const PIECE: usize = 1 << 12;

/// The default of [`ParseOptions::cap`].
pub(crate) const CAP: usize = 1 << 20;

impl OutputParser {
    /// A parser for one turn. The prompt's tail is read first, in silence: what it opened is open.
    pub fn new(reply: &Arc<Reply>, options: ParseOptions) -> OutputParser {
        let tail = reply.respell(&options.prompt_tail);
        let tail = tail_of(reply, &tail).to_owned();
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
        parser.pending.hide();
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
                let end = self.pending.offset(0);
                running.abandon(&mut self.shared, Why::Unfinished, end, on);
            }
            _ => {}
        }
        self.state = State::Ended;
        self.stop(stop, on);
    }

    fn not_utf8(&mut self, length: usize, on: &mut impl FnMut(Event<'_>)) {
        let start = self.pending.offset(self.pending.text().len());
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
            self.pending.push(piece, control);
            self.run(false, on);
            rest = others;
        }
    }

    /// Reads what there is.
    fn run(&mut self, is_last: bool, on: &mut dyn FnMut(Event<'_>)) {
        let mut pending = std::mem::take(&mut self.pending);
        let mut at = 0;
        let mut progress = Falling::default();
        while let Flow::Again = self.eat_pad(&pending, &mut at, is_last) {
            progress.check((pending.text().len() - at, self.rank(&pending, at)));
            if let Flow::Wait = self.step(&mut pending, &mut at, is_last, on) {
                break;
            }
        }
        pending.drop_up_to(at);
        self.pending = pending;
    }

    /// A step that reads no byte leads to a state of a lower rank.
    fn rank(&self, pending: &Pending, at: usize) -> u8 {
        let is_unclosed = self.shared.calls_in_reasoning() == CallsInReasoning::Unclosed;
        match &self.state {
            State::Ended => 9,
            State::Head { .. } => 8,
            State::Call(running) if running.has_read() => 7,
            State::AfterCall { is_group: true, .. } => 6,
            State::Call(_) => 5,
            State::AfterCall { is_group: false, .. } => 4,
            State::Text { part: Part::Reasoning, .. } if is_unclosed && !pending.is_tried(at) => 3,
            State::Draft(_) => 2,
            State::Text { .. } => 1,
        }
    }

    fn eat_pad(&mut self, pending: &Pending, at: &mut usize, is_last: bool) -> Flow {
        let (pad, seen) = &mut self.pad;
        // Text behind the end is taken whole or not at all.
        if *seen == 0 && !pad.trim().is_empty() {
            let rest = &pending.text()[*at..];
            if rest.starts_with(&**pad) {
                *at += pad.len();
            } else if pad.starts_with(rest) && !is_last {
                return Flow::Wait;
            }
            *seen = pad.len();
        }
        while let Some(expected) = pad[*seen..].chars().next() {
            match pending.text()[*at..].chars().next() {
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

    fn step(&mut self, pending: &mut Pending, at: &mut usize, is_last: bool, on: &mut dyn FnMut(Event<'_>)) -> Flow {
        if *at == pending.text().len() && !(is_last && matches!(self.state, State::Call(_) | State::Draft(_))) {
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
                    Progress::Finished => {
                        // Behind a call of no characters there could be as many of them as one likes.
                        self.state = State::AfterCall { blank: String::new(), is_group: running.has_read() };
                    }
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
            State::Draft(_) => self.draft(pending, at, is_last, on),
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
            Here::Mark(end, action) if is_fresh || !pending.text()[*at..end].trim().is_empty() => {
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
        let policy = self.shared.calls_in_reasoning();
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
                    let draft = match (part, mark.meaning, policy) {
                        (Part::Reasoning, Meaning::Call(program), CallsInReasoning::Unclosed) => Some(program),
                        _ => None,
                    };
                    // Nothing was opened that it could close, or it was tried and is no call.
                    let closes_nothing =
                        mark.meaning == Meaning::CallsClosed && self.shared.calls == self.shared.closed;
                    if closes_nothing || (draft.is_some() && pending.is_tried(start)) {
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
                    if let Some(program) = draft {
                        *at = start;
                        let seen = end - start;
                        let shadow = Some(Box::new(Running::new(program, 0, "", true)));
                        self.state = State::Draft(Draft { shadow, seen, room: seen.max(self.shared.cap()) });
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
                    let end = pending.text().len();
                    self.say(pending.shown(*at..end), on);
                    *at = end;
                    return Flow::Wait;
                }
            }
        }
    }

    /// Reads a call in reasoning ahead, until it is known what it is.
    fn draft(&mut self, pending: &mut Pending, at: &mut usize, is_last: bool, on: &mut dyn FnMut(Event<'_>)) -> Flow {
        let State::Draft(draft) = &mut self.state else { return Flow::Again };
        match draft.read(&mut self.shared, pending.view(is_last), *at) {
            None => return Flow::Wait,
            Some(Verdict::Call) => {
                self.shared.options.calls_in_reasoning = Some(CallsInReasoning::Call);
                self.state = State::Text { part: Part::Reasoning, blank: None };
            }
            Some(Verdict::Draft(end)) => {
                self.state = State::Text { part: Part::Reasoning, blank: None };
                self.say(pending.shown(*at..end), on);
                *at = end;
            }
            Some(Verdict::Text(end)) => {
                // The text is read once more, and no call is tried in it again.
                pending.set_tried(end);
                self.state = State::Text { part: Part::Reasoning, blank: None };
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
        let before = pending.text()[from..start].chars().next_back().or(self.shared.last);
        match (before, pending.text().as_bytes().get(end)) {
            (Some('`'), Some(b'`')) => Some(true),
            (Some('`'), None) if !is_last => None,
            _ => Some(false),
        }
    }

    fn after_call(&mut self, pending: &Pending, at: &mut usize, is_last: bool, on: &mut dyn FnMut(Event<'_>)) -> Flow {
        let State::AfterCall { blank, is_group } = &mut self.state else { return Flow::Again };
        let rest = &pending.text()[*at..];
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
        let rest = &pending.text()[*at..];
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
                // White space is an answer where nothing else is.
                if let State::Text { part: Part::Content, blank: Some(blank) } = &mut self.state
                    && !self.shared.has_spoken
                    && self.shared.calls == 0
                {
                    let blank = std::mem::take(blank);
                    self.shared.say(false, &blank, on);
                }
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
                // It stays reasoning, which ends where its own mark is.
                State::Text { part: Part::Reasoning, .. } => return self.say(pending.shown(mark), on),
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

impl Draft {
    /// Reads on from where it begins; none, if it is not known yet what it is.
    fn read(&mut self, shared: &mut Shared, view: View<'_>, at: usize) -> Option<Verdict> {
        let reply = Arc::clone(&shared.reply);
        let room = view.up_to(at + self.room);
        let mut here = at + self.seen;
        if let Some(running) = &mut self.shadow {
            let calls = shared.calls;
            let progress = running.read(shared, room, &mut here, &mut |_| {});
            shared.calls = calls;
            match progress {
                Progress::Wait => {}
                Progress::Finished => self.shadow = None,
                Progress::Text { .. } | Progress::Nothing => return Some(Verdict::Text(here)),
            }
        }
        if self.shadow.is_none() {
            match reply.reasoning.find(room.input(), here, room.is_last) {
                Found::Mark(start, _, action) => {
                    let is_end = reply.reasoning.action(action).meaning == Meaning::End;
                    let is_over = shared.stop.is_none_or(|stop| stop == Stop::End);
                    return Some(if is_end && is_over { Verdict::Call } else { Verdict::Draft(start) });
                }
                Found::Open(start) => here = start,
                Found::Nothing => here = room.text().len(),
            }
        }
        self.seen = here - at;
        if room.is_last && self.shadow.is_none() && shared.stop == Some(Stop::End) {
            return Some(Verdict::Call);
        }
        (room.is_last || room.is_shorter_than(view)).then(|| Verdict::Text(room.text().len()))
    }
}

impl Shared {
    /// What a call inside reasoning is.
    pub fn calls_in_reasoning(&self) -> CallsInReasoning {
        self.options.calls_in_reasoning.unwrap_or(self.reply.calls_in_reasoning)
    }

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
            // So much white space is not looked through again for each piece of it that comes.
            _ if start - at > BEHIND => Some(true),
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
