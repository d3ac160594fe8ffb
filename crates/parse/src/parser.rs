mod ahead;
mod apply;
mod header;
mod prompt;
mod say;
mod text;

use std::sync::Arc;

use crate::call::{OpenCall, Progress};
use crate::cursor::Cursor;
use crate::draft::Draft;
use crate::marks::Here;
use crate::pending::Pending;
use crate::progress::Falling;
use crate::reply::{Mark, Meaning, Reply};
use crate::shared::Shared;
use crate::{CallsInReasoning, Event, Malformed, ParseOptions, Reading, Stop, Why};
use header::HeaderText;

/// Parses model output into events while it streams.
///
/// The events do not depend on how the output is split into chunks, except for the boundaries of
/// deltas. No output is an error: text that does not match the layouts is reported and becomes
/// content.
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
    /// Text that may follow the last marker and belongs to it (usually white space), and how many
    /// of its bytes were read.
    pad: (Arc<str>, usize),
    /// Bytes of an incomplete character.
    carry: Vec<u8>,
    /// Whether the end of the turn was reported.
    is_stopped: bool,
    /// Whether the marker that ended the turn followed a call.
    ended_by_call: bool,
    /// The byte of a call in a line of the answer that was read ahead.
    call_at: Option<u64>,
    /// Whether the prompt opened reasoning and none of its text has arrived yet.
    is_opened: bool,
    /// The byte of the output after the marker that first closed reasoning.
    reasoning_end: Option<u64>,
    /// The text that may follow that marker and belongs to it, usually white space.
    closing_pad: Arc<str>,
}

#[derive(Clone, Debug)]
enum State {
    /// Directly after the turn's opening, or after reasoning.
    Head { is_fresh: bool },
    /// In the header of a message.
    Header(HeaderText),
    /// In text. White space at its start is held back until something else follows.
    Text { part: TextPart, blank: Option<String> },
    /// In a call.
    Call(Box<OpenCall>),
    /// At a call in reasoning, which counts only if the reasoning is never closed, or in a line of the answer. The
    /// call is read ahead without emitting events.
    Draft(Draft),
    /// After a call, with the white space since then.
    AfterCall { blank: String, is_group: bool },
    /// After the end of the turn.
    Ended,
}

/// The part of a turn that an output has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Within {
    /// The start of the turn, of a message in it, or of the text after the reasoning.
    Opening,
    /// The reasoning.
    Reasoning,
    /// The answer.
    Content,
    /// A call.
    Call,
    /// After a call or a whole message; another one may follow.
    AfterCall,
    /// After the end of the turn.
    Ended,
}

/// The part of the turn that text belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TextPart {
    Content,
    Reasoning,
}

/// Whether the available input may allow another step.
enum Flow {
    Again,
    Wait,
}

/// The maximum number of bytes of white space to hold back.
const BLANK: usize = 4096;

/// The number of bytes that a call may hold back in addition to the cap.
const KEPT: u64 = 1 << 13;

/// Replaces invalid UTF-8.
const REPLACEMENT: &str = "\u{fffd}";

/// The maximum number of bytes to read at once, so that long chunks are not copied whole.
const PIECE: usize = 1 << 12;

impl OutputParser {
    /// Creates a parser for one turn. It first reads the end of the prompt without emitting events,
    /// and then continues from the state that this leaves.
    pub fn new(reply: &Arc<Reply>, mut options: ParseOptions) -> OutputParser {
        options.forget_texts();
        let tail = reply.respell(&options.prompt_tail);
        let tail = reply.behind_opening(&tail).to_owned();
        let shared = Shared::new(reply, options);
        let mut parser = OutputParser {
            shared,
            state: OutputParser::start(reply),
            pending: Pending::default(),
            pad: ("".into(), 0),
            carry: Vec::new(),
            is_stopped: false,
            ended_by_call: false,
            call_at: None,
            is_opened: false,
            reasoning_end: None,
            closing_pad: "".into(),
        };
        let mut opened = Reading::default();
        parser.push(&tail, None, &mut |event| {
            // A call that the prompt began belongs to the answer.
            if !matches!(event, Event::Content(_) | Event::Reasoning(_) | Event::Stop(_) | Event::Malformed(_)) {
                opened.add(&event);
            }
        });
        parser.forget_answered(&mut opened);
        if matches!(parser.state, State::Ended) {
            parser.state = OutputParser::start(reply);
        }
        parser.is_stopped = false;
        // Some models repeat the marker that the prompt ends with.
        parser.is_opened = matches!(parser.state, State::Text { part: TextPart::Reasoning, blank: Some(_) });
        parser.shared.reasoning_at = parser.in_reasoning().then_some(0);
        parser.pending.hide();
        parser.shared.trim.hide();
        parser.reasoning_end = None;
        match (&mut parser.state, &reply.headers) {
            (State::Call(running), _) => running.hide(),
            (State::Header(header), Some(headers)) => header.hide(&headers.words),
            // White space that the prompt ends with is none of the reply's.
            (State::Text { blank: Some(blank), .. }, _) => blank.clear(),
            (State::AfterCall { blank, .. }, _) => {
                parser.shared.is_behind_bare &= !blank.contains('\n');
                blank.clear();
            }
            _ => {}
        }
        parser.shared.opened = opened;
        (parser.shared.is_over, parser.shared.late) = (false, None);
        parser.shared.is_silent = false;
        parser
    }

    /// Creates a parser for the rest of a turn after its reasoning, as [`ReasoningSplit`] returns it.
    ///
    /// If the reply has no reasoning, or the prompt has closed it, this is the same as
    /// [`new`](OutputParser::new).
    ///
    /// [`ReasoningSplit`]: crate::ReasoningSplit
    pub fn after_reasoning(reply: &Arc<Reply>, options: ParseOptions) -> OutputParser {
        let mut parser = OutputParser::new(reply, options);
        if parser.may_reason() && reply.headers.is_none() {
            parser.pad = ("".into(), 0);
            parser.state = State::Head { is_fresh: false };
            parser.pending = Pending::default();
            parser.is_opened = false;
        }
        parser
    }

    /// Returns a parser that emits the place of each delta of the answer and of the reasoning before the
    /// delta, as [`Event::Place`].
    ///
    /// ```
    /// use std::sync::Arc;
    /// use rolecall_format::builtin;
    /// use rolecall_parse::{Event, OutputParser, ParseOptions, Reply};
    /// let registry = builtin();
    /// let reply = Arc::new(Reply::new(registry.get("internlm2").expect("built in")));
    /// let mut parser = OutputParser::new(&reply, ParseOptions::default()).with_places();
    /// let mut places = Vec::new();
    /// for chunk in ["Hi <", "b>"] {
    ///     parser.push_text(chunk, &mut |event| {
    ///         if let Event::Place(place) = event {
    ///             places.push(place);
    ///         }
    ///     });
    /// }
    /// // `<` was held back, because a marker may begin with it.
    /// assert_eq!(places, [0..3, 3..6]);
    /// ```
    pub fn with_places(mut self) -> OutputParser {
        self.shared.has_places = true;
        self
    }

    /// Reports whether reasoning is open or the next text may open it.
    pub fn may_reason(&self) -> bool {
        match &self.state {
            State::Text { part: TextPart::Reasoning, .. } | State::Header(_) => true,
            State::Draft(draft) => draft.in_reasoning,
            State::Head { is_fresh } => {
                let opens = |mark: &Mark| matches!(mark.meaning, Meaning::Reasoning | Meaning::Header);
                *is_fresh && self.shared.reply.head.actions().iter().any(opens)
            }
            _ => false,
        }
    }

    /// Returns the length of the white space at the start of a text that was held back.
    pub(crate) fn blank_length(&self) -> usize {
        match &self.state {
            State::Text { blank: Some(blank), .. } => blank.len(),
            _ => 0,
        }
    }

    /// Returns the output that was held back, since it may become a marker.
    pub(crate) fn pending_text(&self) -> &str {
        self.pending.shown(0..self.pending.text().len())
    }

    /// Returns the byte of the output after the marker that first closed reasoning.
    pub(crate) fn reasoning_end(&self) -> Option<u64> {
        self.reasoning_end
    }

    /// Returns the text that may follow the marker that first closed reasoning, and belongs to it.
    pub(crate) fn pad(&self) -> &str {
        &self.closing_pad
    }

    /// Returns the number of bytes of output so far.
    pub(crate) fn length(&self) -> u64 {
        self.pending.offset(self.pending.text().len())
    }

    /// Parses the next chunk of text.
    pub fn push_text(&mut self, chunk: &str, on: &mut impl FnMut(Event<'_>)) {
        self.begin(on);
        self.push(chunk, None, on);
    }

    /// Parses the bytes of the next token. `is_control` tells whether the token is one of the
    /// tokenizer's control tokens. A chunk may end inside a character.
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
                    self.not_utf8(on);
                    rest = &others[length..];
                }
            }
        }
    }

    /// Returns the number of bytes at the end of the output that were not parsed yet, since a marker may
    /// begin in them.
    pub fn pending_bytes(&self) -> usize {
        self.pending_text().len() + self.carry.len()
    }

    /// Returns the part of the turn that the output has reached.
    ///
    /// Text that may still become a marker counts as the part before it.
    pub fn within(&self) -> Within {
        match &self.state {
            State::Head { .. } | State::Header(_) => Within::Opening,
            State::Text { part: TextPart::Reasoning, .. } => Within::Reasoning,
            State::Draft(draft) if draft.in_reasoning => Within::Reasoning,
            State::Text { part: TextPart::Content, .. } | State::Draft(_) => Within::Content,
            State::Call(_) => Within::Call,
            State::AfterCall { .. } => Within::AfterCall,
            State::Ended => Within::Ended,
        }
    }

    /// Ends the output. Closes everything that is open and emits the remaining text.
    pub fn finish(&mut self, stop: Stop, on: &mut impl FnMut(Event<'_>)) {
        self.begin(on);
        if !self.carry.is_empty() {
            self.carry.clear();
            self.not_utf8(on);
        }
        self.shared.stop = Some(stop);
        self.run(true, on);
        match std::mem::replace(&mut self.state, State::Ended) {
            State::Text { part, blank } => {
                self.shared.say(self.length(), part == TextPart::Reasoning, &blank.unwrap_or_default(), on);
                self.state = State::Text { part, blank: None };
                if stop == Stop::End {
                    self.shared.report_begun(on);
                    self.unclosed(self.pending.offset(0), on);
                }
            }
            State::Header(header) => self.end_header(&header, self.pending.offset(0), on),
            State::Call(running) => {
                let end = self.pending.offset(0);
                running.abandon(&mut self.shared, Why::Unfinished, end, on);
            }
            _ => {}
        }
        self.state = State::Ended;
        self.shared.report_late(on);
        self.stop(stop, on);
    }

    fn not_utf8(&mut self, on: &mut impl FnMut(Event<'_>)) {
        let start = self.pending.offset(self.pending.text().len());
        let end = start + REPLACEMENT.len() as u64;
        on(Event::Malformed(Malformed { span: start..end, why: Why::NotUtf8 }));
        self.push(REPLACEMENT, Some(false), on);
    }

    /// Emits the calls that the prompt began.
    fn begin(&mut self, on: &mut dyn FnMut(Event<'_>)) {
        if !self.shared.opened.calls.is_empty() {
            std::mem::take(&mut self.shared.opened).replay(on);
        }
    }

    fn push(&mut self, text: &str, control: Option<bool>, on: &mut dyn FnMut(Event<'_>)) {
        if let Some(is_control) = control {
            let start = self.pending.offset(self.pending.text().len());
            self.shared.strays.add_control(start..start + text.len() as u64, is_control);
        }
        if control != Some(true) && self.continues(text, on) {
            return;
        }
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

    /// Emits a chunk that can only continue the open text or string, because nothing is pending and
    /// no marker, quote or escape begins in it. Returns whether it was emitted. Most chunks are,
    /// without a copy.
    fn continues(&mut self, text: &str, on: &mut dyn FnMut(Event<'_>)) -> bool {
        let (pad, seen) = &self.pad;
        let is_behind_call = self.shared.closed_at.is_some();
        if !self.pending.text().is_empty() || *seen < pad.len() || self.shared.is_silent || is_behind_call {
            return false;
        }
        let is_plain = match &mut self.state {
            State::Call(running) => running.continues(text, &mut self.shared, on),
            State::Text { part, blank: None } => {
                let is_plain = self.shared.is_plain(*part == TextPart::Reasoning, text);
                if is_plain {
                    self.shared.last = text.chars().next_back();
                    let end = self.pending.offset(0) + text.len() as u64;
                    self.shared.emit(end, *part == TextPart::Reasoning, text, on);
                }
                is_plain
            }
            _ => false,
        };
        if is_plain {
            self.pending.skip(text.len());
        }
        is_plain
    }

    /// Reads the available input.
    fn run(&mut self, is_last: bool, on: &mut dyn FnMut(Event<'_>)) {
        let mut pending = std::mem::take(&mut self.pending);
        let mut cursor = Cursor::new(pending.view(is_last), 0, on);
        let mut progress = Falling::default();
        while let Flow::Again = self.eat_pad(&mut cursor) {
            progress.check((cursor.rest().len(), self.rank(&cursor)));
            if let Flow::Wait = self.step(&mut cursor) {
                break;
            }
        }
        let at = cursor.at;
        pending.drop_up_to(at);
        self.forget_strays(&pending);
        self.pending = pending;
    }

    /// Forgets the control tokens before the pending output.
    fn forget_strays(&mut self, pending: &Pending) {
        // Text of a call that fails may still be emitted.
        self.shared.strays.forget(pending.offset(0).saturating_sub(self.shared.cap() as u64 + KEPT));
    }

    /// Returns the rank of the state. A step that reads no byte must lead to a state of a lower
    /// rank.
    fn rank(&self, cursor: &Cursor<'_, '_>) -> u8 {
        let is_unclosed = self.shared.calls_in_reasoning() == CallsInReasoning::Unclosed;
        match &self.state {
            State::Ended => 10,
            State::Header(header) if !header.is_settled() => 9,
            State::Header(_) => 8,
            State::Head { .. } => 8,
            State::Call(running) if running.has_read() => 7,
            State::AfterCall { is_group: true, .. } => 6,
            State::Call(_) => 5,
            State::AfterCall { is_group: false, .. } => 4,
            State::Text { part: TextPart::Reasoning, .. } if !is_unclosed => 1,
            State::Text { part: TextPart::Content, .. } if self.call_at == Some(cursor.offset()) => 1,
            State::Text { .. } if !cursor.view().is_tried(cursor.at) => 3,
            State::Draft(_) => 2,
            State::Text { .. } => 1,
        }
    }

    fn eat_pad(&mut self, cursor: &mut Cursor<'_, '_>) -> Flow {
        let (pad, seen) = &mut self.pad;
        // Text other than white space is skipped whole or not at all.
        if *seen == 0 && !pad.trim().is_empty() {
            if cursor.rest().starts_with(&**pad) {
                cursor.at += pad.len();
            } else if pad.starts_with(cursor.rest()) && !cursor.is_last() {
                return Flow::Wait;
            }
            *seen = pad.len();
        }
        if cursor.skip_pad(pad, seen) { Flow::Again } else { Flow::Wait }
    }

    fn step(&mut self, cursor: &mut Cursor<'_, '_>) -> Flow {
        let reads_end = cursor.is_last() && matches!(self.state, State::Call(_) | State::Draft(_));
        if cursor.is_at_end() && !reads_end {
            return Flow::Wait;
        }
        match &mut self.state {
            State::Head { is_fresh } => {
                let is_fresh = *is_fresh;
                self.head(is_fresh, cursor)
            }
            State::Header(_) => self.header(cursor),
            State::Text { part, .. } => {
                let part = *part;
                self.text(part, cursor)
            }
            State::AfterCall { .. } => self.after_call(cursor),
            State::Call(running) => {
                let progress = running.read(&mut self.shared, cursor);
                match progress {
                    Progress::Wait => return Flow::Wait,
                    Progress::Finished => {
                        self.shared.closed_at = None;
                        self.shared.is_behind_bare = running.is_bare_object(&self.shared);
                        // After an empty call, another empty call could follow without end.
                        self.state = State::AfterCall { blank: String::new(), is_group: running.has_read() };
                    }
                    // The call's text so far was emitted. The text from the fault on continues as
                    // text.
                    Progress::Text { in_reasoning } => {
                        self.shared.has_spoken = true;
                        self.shared.report_behind_calls("", cursor.on);
                        let part = if in_reasoning { TextPart::Reasoning } else { TextPart::Content };
                        self.state = State::Text { part, blank: None };
                    }
                    Progress::Nothing => {
                        self.state = State::Text { part: TextPart::Content, blank: Some(String::new()) };
                    }
                }
                Flow::Again
            }
            State::Draft(_) => self.draft(cursor),
            State::Ended => self.ended(cursor),
        }
    }

    fn head(&mut self, is_fresh: bool, cursor: &mut Cursor<'_, '_>) -> Flow {
        let reply = Arc::clone(&self.shared.reply);
        if reply.trims && is_fresh {
            let rest = cursor.rest();
            cursor.at += rest.len() - rest.trim_start_matches(|c: char| c.is_whitespace() && c != '\n').len();
            if cursor.is_at_end() {
                return Flow::Wait;
            }
        }
        let start = cursor.at;
        match cursor.marker_here(&reply.head) {
            Here::Open => return Flow::Wait,
            Here::Mark(end, action) if is_fresh || !cursor.text()[start..end].trim().is_empty() => {
                cursor.at = end;
                self.apply(reply.head.action(action), start..end, cursor);
            }
            _ => match reply.head_call.filter(|_| is_fresh) {
                Some(program) => self.start_call(program, start..start, cursor),
                None => self.state = State::Text { part: TextPart::Content, blank: Some(String::new()) },
            },
        }
        Flow::Again
    }
}

/// Parses a whole output.
pub fn read(reply: &Arc<Reply>, options: ParseOptions, output: &str, stop: Stop) -> Reading {
    let mut reading = Reading::default();
    let mut parser = OutputParser::new(reply, options);
    parser.push_text(output, &mut |event| reading.add(&event));
    parser.finish(stop, &mut |event| reading.add(&event));
    reading
}
