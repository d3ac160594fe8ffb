use std::mem;
use std::ops::Range;
use std::sync::Arc;

use crate::bare_call::{BareCall, BareKind, BareName};
use crate::cursor::Cursor;
use crate::held::HeldReasoning;
use crate::ids;
use crate::marks::{Here, Marks, PendingInput};
use crate::reply::{Program, Reply};
use crate::stray::{Stray, Strays};
use crate::tail::{KEPT, Tail, last, misspelled_marker, other_end};
use crate::trim::Trim;
use crate::{
    CallsInReasoning, Event, Ids, Malformed, ParseOptions, Reading, Stop, TextAfterCalls, UnclosedReasoning, Why,
};

/// State that all parts of the parser share.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    pub reply: Arc<Reply>,
    pub options: Arc<ParseOptions>,
    /// How to generate the ids of calls.
    pub ids: Ids,
    /// The number of calls that have begun.
    pub calls: usize,
    /// The number of calls when a group of calls was last closed.
    pub closed: usize,
    /// The byte at which a group of calls was closed, until text that follows is reported.
    pub closed_at: Option<u64>,
    /// Whether calls may be objects without a marker, for which lines count.
    has_bare_objects: bool,
    /// Whether the line of the answer so far has any text.
    pub is_in_line: bool,
    /// Whether the last call had no marker, and its line goes on.
    pub is_behind_bare: bool,
    /// Whether a list of calls is open.
    pub is_list_open: bool,
    /// The byte at which the open reasoning begins.
    pub reasoning_at: Option<u64>,
    /// Whether the input is the end of the prompt, whose text emits no events.
    pub is_silent: bool,
    /// Whether the place of each text is emitted before the text.
    pub has_places: bool,
    /// The calls that the prompt began. They are emitted when the output begins.
    pub opened: Reading,
    /// Whether the answer has any text yet.
    pub has_spoken: bool,
    /// The reason the output ended, once it has.
    pub stop: Option<Stop>,
    /// The previous character, to detect a marker in backticks.
    pub last: Option<char>,
    /// The search for markers in emitted text.
    pub strays: Strays,
    /// The beginning of the content, if calls are possible and there are none.
    pub bare_call: BareCall,
    /// Reasoning that is held back, if it may become content.
    pub held: HeldReasoning,
    /// The end of the reasoning so far.
    reasoning: Tail,
    /// The place of the last misspelled closing marker in the reasoning.
    misspelled: Option<Range<u64>>,
    /// The white space around the answer, where it means nothing.
    pub trim: Trim,
    /// Whether the turn has ended, so that text belongs to no part of the reply.
    pub is_over: bool,
    /// The text since then that was not reported yet.
    pub late: Option<Range<u64>>,
    /// A reusable buffer for arguments as JSON text.
    pub scratch: String,
}

/// What a parser knows of the text and the calls that it emitted.
pub(crate) struct EmittedText {
    calls: usize,
    is_list_open: bool,
    is_in_line: bool,
    has_spoken: bool,
    strays: Strays,
    bare_call: BareCall,
    held: HeldReasoning,
    trim: Trim,
    late: Option<Range<u64>>,
}

/// The maximum number of bytes of white space to skip when looking for the end of a call.
const BEHIND: usize = 256;

/// The signs that separate and close calls and their arguments. No answer begins with one.
const SIGNS: [char; 5] = [',', ';', ']', '}', ')'];

/// The default of [`ParseOptions::cap`].
pub(crate) const CAP: usize = 1 << 20;

impl Shared {
    pub fn new(reply: &Arc<Reply>, options: ParseOptions) -> Shared {
        Shared {
            reply: Arc::clone(reply),
            ids: options.ids,
            options: Arc::new(options),
            calls: 0,
            closed: 0,
            closed_at: None,
            has_bare_objects: reply.programs.iter().any(Program::is_bare_object),
            is_in_line: false,
            is_behind_bare: false,
            is_list_open: false,
            reasoning_at: None,
            is_silent: true,
            has_places: false,
            opened: Reading::default(),
            has_spoken: false,
            stop: None,
            last: None,
            strays: Strays::default(),
            bare_call: BareCall::default(),
            held: HeldReasoning::default(),
            reasoning: Tail::default(),
            misspelled: None,
            trim: Trim::default(),
            is_over: false,
            late: None,
            scratch: String::new(),
        }
    }

    /// Takes away what is known of what was emitted, while a call is read ahead of which nothing is.
    pub fn set_aside(&mut self) -> EmittedText {
        EmittedText {
            calls: self.calls,
            is_list_open: self.is_list_open,
            is_in_line: self.is_in_line,
            has_spoken: self.has_spoken,
            strays: mem::take(&mut self.strays),
            bare_call: mem::take(&mut self.bare_call),
            held: mem::take(&mut self.held),
            trim: mem::take(&mut self.trim),
            late: self.late.take(),
        }
    }

    /// Puts it back.
    pub fn restore(&mut self, emitted: EmittedText) {
        let EmittedText { calls, is_list_open, is_in_line, has_spoken, strays, bare_call, held, trim, late } = emitted;
        (self.calls, self.is_list_open) = (calls, is_list_open);
        (self.is_in_line, self.has_spoken) = (is_in_line, has_spoken);
        (self.strays, self.bare_call, self.held, self.trim) = (strays, bare_call, held, trim);
        self.late = late;
    }

    /// Returns how to treat calls inside reasoning.
    pub fn calls_in_reasoning(&self) -> CallsInReasoning {
        self.options.calls_in_reasoning.unwrap_or(self.reply.calls_in_reasoning)
    }

    /// Reports whether a chunk only continues content or reasoning: no marker begins in it.
    pub fn is_plain(&self, is_reasoning: bool, text: &str) -> bool {
        let marks = self.reply.marks(is_reasoning, self.calls_in_reasoning());
        self.strays.is_idle() && marks.is_plain(text.as_bytes()) && self.reply.strays.is_plain(text.as_bytes())
    }

    /// Emits text that ends at this offset of the output as content or as reasoning.
    pub fn say(&mut self, end: u64, is_reasoning: bool, text: &str, on: &mut dyn FnMut(Event<'_>)) {
        if !text.is_empty() {
            self.end_strays(on);
            self.strays.reset();
        }
        self.emit(end, is_reasoning, text, on);
    }

    /// Emits text that ends at this offset of the output, and reports the markers in it.
    pub fn say_up_to(&mut self, end: u64, is_reasoning: bool, text: &str, on: &mut dyn FnMut(Event<'_>)) {
        if self.is_silent {
            return self.emit(end, is_reasoning, text, on);
        }
        let start = end.saturating_sub(text.len() as u64);
        let reply = Arc::clone(&self.reply);
        let before = self.strays.enter(&reply.strays, is_reasoning, text, start);
        self.report_stray(before, on);
        let mut given = 0;
        while let Some((to, stray)) = self.strays.find(&reply.strays, text, given, start) {
            let after = (text.len() - to) as u64;
            self.emit(end.saturating_sub(after), is_reasoning, &text[given..to], on);
            given = to;
            self.report_stray(Some(stray), on);
        }
        self.emit(end, is_reasoning, &text[given..], on);
    }

    /// Emits text that ends at this offset of the output. The markers in it were already reported,
    /// but one that begins in it may go on in the text that follows.
    pub fn say_reported(&mut self, end: u64, is_reasoning: bool, text: &str, on: &mut dyn FnMut(Event<'_>)) {
        if !self.is_silent && !text.is_empty() {
            let reply = Arc::clone(&self.reply);
            let start = end.saturating_sub(text.len() as u64);
            let before = self.strays.enter(&reply.strays, is_reasoning, text, start);
            self.report_stray(before, on);
            let mut searched = 0;
            while let Some((end, _)) = self.strays.find(&reply.strays, text, searched, start) {
                searched = end;
            }
            self.strays.take_open();
            self.strays.reported = end;
        }
        let bare_call = mem::take(&mut self.bare_call);
        self.emit(end, is_reasoning, text, on);
        self.bare_call = bare_call;
        self.bare_call.skip_line(&self.options.tools);
    }

    /// Reports a marker after a backtick, because no other backtick follows.
    pub fn end_strays(&mut self, on: &mut dyn FnMut(Event<'_>)) {
        let open = self.strays.take_open();
        self.report_stray(open, on);
    }

    /// Reports the beginning of a marker with which the answer ends. The model stopped inside it.
    pub fn report_begun(&mut self, on: &mut dyn FnMut(Event<'_>)) {
        let reply = Arc::clone(&self.reply);
        if let Some(span) = self.strays.take_begun(&reply.strays) {
            on(Event::Malformed(Malformed { span, why: Why::Expected("the rest of a marker".into()) }));
        }
    }

    /// Reports the text after the end of the turn.
    pub fn report_late(&mut self, on: &mut dyn FnMut(Event<'_>)) {
        if let Some(span) = self.late.take() {
            on(Event::Malformed(Malformed { span, why: Why::AfterEnd }));
        }
    }

    /// Reports whether the turn has as many calls as the options allow.
    pub fn has_all_calls(&self) -> bool {
        self.options.max_calls.is_some_and(|most| self.calls >= most)
    }

    fn report_stray(&self, stray: Option<Stray>, on: &mut dyn FnMut(Event<'_>)) {
        if let Some(stray) = stray {
            let why = self.reply.strays.why(&stray);
            on(Event::Malformed(Malformed { span: stray.span, why }));
        }
    }

    /// Emits text that ends at this offset of the output, without a search for markers.
    pub fn emit(&mut self, end: u64, is_reasoning: bool, text: &str, on: &mut dyn FnMut(Event<'_>)) {
        self.has_spoken = true;
        if !is_reasoning && self.has_bare_objects {
            self.is_in_line = match text.rfind('\n') {
                Some(at) => !text[at..].trim().is_empty(),
                None => self.is_in_line || !text.trim().is_empty(),
            };
        }
        if is_reasoning || !self.reply.trims {
            return self.emit_whole(end, is_reasoning, text, on);
        }
        let start = end.saturating_sub(text.len() as u64);
        let (before, text, from) = self.trim.take(text);
        let start = start + from as u64;
        self.emit_whole(start, false, &before, on);
        self.emit_whole(start + text.len() as u64, false, text, on);
    }

    fn emit_whole(&mut self, end: u64, is_reasoning: bool, text: &str, on: &mut dyn FnMut(Event<'_>)) {
        if self.is_over {
            let start = end.saturating_sub(text.len() as u64);
            let late = self.late.get_or_insert(start..end);
            late.end = late.end.max(end);
            return;
        }
        if !text.is_empty() && !self.is_silent {
            if is_reasoning {
                self.follow_reasoning(end, text);
            }
            let cap = self.cap();
            let place = end.saturating_sub(text.len() as u64)..end;
            let may_be_content = self.options.unclosed_reasoning == Some(UnclosedReasoning::Content);
            if is_reasoning && may_be_content && self.held.keep(place.clone(), text, cap) {
                return;
            }
            self.release(on);
            if !is_reasoning && !self.options.tools.is_empty() {
                self.bare_call.add(&place, text, &self.options.tools);
            }
            if self.has_places {
                on(Event::Place(place));
            }
            on(match is_reasoning {
                true => Event::Reasoning(text),
                false => Event::Content(text),
            });
        }
    }

    /// Emits the reasoning that is held back, because something else follows it.
    pub fn release(&mut self, on: &mut dyn FnMut(Event<'_>)) {
        self.held.emit(true, self.has_places, on);
    }

    /// Looks for misspelled closing markers in the next text of the reasoning, which ends at this offset.
    fn follow_reasoning(&mut self, end: u64, text: &str) {
        let Shared { reply, reasoning, misspelled, .. } = self;
        let mark = reply.around_reasoning().map_or("", |(_, close)| close.trim());
        let (mut from, start) = (0, end.saturating_sub(text.len() as u64));
        // The last sign may be missing at the end of a line.
        let sign = mark.as_bytes().last().copied().unwrap_or(b'\n');
        let is_sign = |byte: u8| byte == b'\n' || byte == sign;
        let signs = text.bytes().enumerate().filter(|(_, byte)| is_sign(*byte)).map(|(at, _)| at + 1);
        for to in signs.filter(|to| text.is_char_boundary(*to)) {
            // Only the beginning of the text needs what came before.
            let near = if to < KEPT {
                reasoning.push(&text[from..to]);
                from = to;
                reasoning.text()
            } else {
                last(&text[..to])
            };
            let kept = near.trim_end();
            if let Some(found) = misspelled_marker(kept, mark).or_else(|| other_end(kept, mark)) {
                let behind = near.len() - kept.len();
                let end = (start + to as u64).saturating_sub(behind as u64);
                *misspelled = Some(end.saturating_sub(found.len() as u64)..end);
            }
        }
        reasoning.push(&text[from..]);
    }

    /// Reports a misspelled closing marker in or behind the open reasoning, which a call at this byte ends.
    pub fn report_unclosed(&self, at: u64, on: &mut dyn FnMut(Event<'_>)) {
        let Some((_, close)) = self.reply.around_reasoning() else { return };
        let before = self.misspelled.clone().filter(|place| Some(place.start) >= self.reasoning_at);
        if let Some(span) = before.or_else(|| self.reasoning.almost_is(close.trim()).then_some(at..at)) {
            on(Event::Malformed(Malformed { span, why: Why::Expected(format!("`{}`", close.trim())) }));
        }
    }

    /// Reports content that is a call without its markers. The content ends with a stop, or a call follows.
    pub fn report_bare_call(&mut self, stop: Option<Stop>, on: &mut dyn FnMut(Event<'_>)) {
        if self.is_silent || !self.reply.reads_calls() || self.has_all_calls() {
            return;
        }
        if let Some((span, BareName { name, kind, is_enclosed })) = self.bare_call.end(&self.options.tools)
            && (is_enclosed || self.calls == 0)
        {
            let why = match kind {
                BareKind::Cut => cut_call(stop),
                BareKind::Unmarked => Why::MissingMarkers(name),
                BareKind::UnknownTool => Why::UnknownName { name, offered: self.options.names() },
            };
            on(Event::Malformed(Malformed { span, why }));
        }
    }

    /// Reports text behind calls that is none of the layout's markers, if it can be no answer: a list of calls is
    /// open, the line of a call without a marker goes on, or the text begins with a sign that goes on with a call or
    /// ends one. All of it is reported if the options say so.
    pub fn report_behind_calls(&mut self, text: &str, on: &mut dyn FnMut(Event<'_>)) {
        let Some(at) = self.closed_at.take().filter(|_| !self.is_silent) else { return };
        let is_broken = self.is_list_open || self.is_behind_bare || text.trim_start().starts_with(SIGNS);
        if is_broken || self.options.text_after_calls == TextAfterCalls::Report || self.reply.headers.is_some() {
            let why = Why::Expected("another call or the end of the turn".into());
            on(Event::Malformed(Malformed { span: at..at, why }));
            self.bare_call.skip_line(&self.options.tools);
        }
    }

    /// Returns the reason why the output ends inside a call.
    pub fn cut_call(&self) -> Why {
        cut_call(self.stop)
    }

    /// Reports whether the text at a byte ends a call: another call, or the end of the calls or of
    /// the turn. Returns `None` if that is not known yet.
    pub fn ends_call(&self, input: PendingInput<'_>, at: usize, is_last: bool) -> Option<bool> {
        let rest = &input.text[at..];
        let start = at + rest.len() - rest.trim_start().len();
        match self.reply.after_call.at(input, start, is_last) {
            // Longer white space is not scanned again for each chunk.
            _ if start - at > BEHIND => Some(true),
            _ if start == input.text.len() => is_last.then_some(true),
            Here::Mark(..) => Some(true),
            Here::Open => None,
            // Another call may follow on its own line.
            Here::Nothing => Some(self.reply.next_call.is_some() && rest[..start - at].contains('\n')),
        }
    }

    /// Reports whether a marker of the layout follows a byte where a call ends: another call, or the end of the
    /// calls or of the turn. Returns `None` if that is not known yet.
    pub fn begins_after_call(&self, input: PendingInput<'_>, at: usize, is_last: bool) -> Option<bool> {
        let rest = &input.text[at..];
        let start = at + rest.len() - rest.trim_start().len();
        match self.reply.after_call.at(input, start, is_last) {
            _ if start - at > BEHIND => Some(false),
            _ if start == input.text.len() => is_last.then_some(self.stop == Some(Stop::End)),
            Here::Mark(..) => Some(true),
            Here::Open => None,
            Here::Nothing => Some(false),
        }
    }

    /// Reports whether the model stopped inside one of these markers, that is, whether the rest of
    /// the output is the beginning of one.
    pub fn stops_inside<A>(&self, marks: &Marks<A>, cursor: &Cursor<'_, '_>) -> bool {
        cursor.is_last() && self.stop == Some(Stop::End) && marks.at(cursor.input(), cursor.at, false) == Here::Open
    }

    /// Returns the maximum number of bytes to keep for one open value.
    pub fn cap(&self) -> usize {
        self.options.cap.unwrap_or(CAP)
    }

    /// Generates the id of the next call, for a model that writes none.
    pub fn make_id(&self, name: &str) -> String {
        ids::make(&self.reply.call_ids, self.ids, name, self.calls)
    }
}

/// Returns the reason why an output ends inside a call.
fn cut_call(stop: Option<Stop>) -> Why {
    if stop == Some(Stop::End) { Why::UnclosedCall } else { Why::Unfinished }
}
