//! What a marker does, and what may follow a call or the end of the turn.

use std::ops::Range;
use std::sync::Arc;

use super::{BLANK, Flow, OutputParser, State, TextPart};
use crate::call::OpenCall;
use crate::cursor::Cursor;
use crate::marks::Here;
use crate::reply::{Mark, Meaning};
use crate::{Event, Malformed, Stop, Why};

impl OutputParser {
    pub(super) fn after_call(&mut self, cursor: &mut Cursor<'_, '_>) -> Flow {
        let State::AfterCall { blank, is_group } = &mut self.state else { return Flow::Again };
        let rest = cursor.rest();
        let spaces = rest.len() - rest.trim_start().len();
        if spaces > 0 {
            // Hold back the same white space in every chunking.
            let most = rest[..spaces].char_indices().map(|(at, space)| at + space.len_utf8());
            let taken = most.into_iter().find(|end| blank.len() + end > BLANK).unwrap_or(spaces);
            blank.push_str(&rest[..taken]);
            cursor.at += taken;
            if blank.len() > BLANK {
                let blank = std::mem::take(blank);
                self.state = State::Text { part: TextPart::Content, blank: None };
                self.shared.say(cursor.offset(), false, &blank, cursor.on);
            }
            return Flow::Again;
        }
        let reply = Arc::clone(&self.shared.reply);
        let start = cursor.at;
        if self.shared.stops_inside(&reply.closing, cursor) {
            let begun = cursor.offset();
            // A reply without its stop token ends between two markers.
            let is_cut = cursor.rest().rfind(['<', '[']) > cursor.rest().rfind(['>', ']']);
            cursor.at = cursor.text().len();
            if is_cut {
                let span = begun..cursor.offset();
                cursor.emit(Event::Malformed(Malformed { span, why: Why::Expected("the rest of a marker".into()) }));
            }
            return Flow::Again;
        }
        // A bracket alone that closes no list is text.
        let is_text = |end: usize, mark: &Mark| {
            mark.meaning == Meaning::CallsClosed && !self.shared.is_list_open && &cursor.text()[start..end] == "]"
        };
        match cursor.marker_here(&reply.after_call) {
            Here::Open => Flow::Wait,
            Here::Mark(end, action) if !is_text(end, reply.after_call.action(action)) => {
                cursor.at = end;
                self.apply(reply.after_call.action(action), start..end, cursor);
                Flow::Again
            }
            Here::Mark(..) | Here::Nothing => {
                // The output may be cut off inside a marker.
                let is_cut = cursor.is_last() && reply.after_call.at(cursor.input(), start, false) == Here::Open;
                let at = (!is_cut).then(|| cursor.offset());
                let blank = std::mem::take(blank);
                self.shared.is_behind_bare &= !blank.contains('\n');
                if let Some(program) = reply.next_call.filter(|_| *is_group) {
                    *is_group = false;
                    self.start_call(program, start..start, cursor);
                    // Until a call begins here.
                    self.shared.closed_at = at;
                    if let State::Call(running) = &mut self.state {
                        running.prefix(&blank);
                    }
                    return Flow::Again;
                }
                if let Some(flow) = reply.headers.as_ref().and_then(|headers| self.header_at_word(headers, cursor)) {
                    if let State::AfterCall { blank: again, .. } = &mut self.state {
                        *again = blank;
                    }
                    return flow;
                }
                self.shared.closed_at = at;
                self.shared.report_behind_calls(cursor.rest(), cursor.on);
                self.state = State::Text { part: TextPart::Content, blank: None };
                self.shared.say(cursor.offset(), false, &blank, cursor.on);
                Flow::Again
            }
        }
    }

    pub(super) fn ended(&mut self, cursor: &mut Cursor<'_, '_>) -> Flow {
        cursor.skip_space();
        if cursor.is_at_end() {
            return Flow::Wait;
        }
        let reply = Arc::clone(&self.shared.reply);
        match cursor.marker_here(&reply.after_call) {
            Here::Open => Flow::Wait,
            Here::Mark(end, action) if reply.after_call.action(action).meaning == Meaning::End => {
                cursor.at = end;
                Flow::Again
            }
            // Another message, after the end of a call that also ends turns.
            Here::Mark(end, action)
                if self.ended_by_call && reply.after_call.action(action).meaning == Meaning::Header =>
            {
                self.shared.report_late(cursor.on);
                self.shared.is_over = false;
                self.state = self.header_at(cursor.at..end, cursor);
                cursor.at = end;
                Flow::Again
            }
            _ => {
                let start = cursor.offset();
                self.shared.late.get_or_insert(start..start);
                self.shared.is_over = true;
                self.state = State::Text { part: TextPart::Content, blank: None };
                Flow::Again
            }
        }
    }

    /// Applies a marker. The cursor is already past it.
    pub(super) fn apply(&mut self, mark: &Mark, span: Range<usize>, cursor: &mut Cursor<'_, '_>) {
        let text = |part| State::Text { part, blank: Some(String::new()) };
        self.shared.end_strays(cursor.on);
        self.shared.last = None;
        self.shared.is_in_line = false;
        self.pad = (Arc::clone(&mark.pad), 0);
        if mark.meaning == Meaning::CallsClosed {
            self.shared.closed = self.shared.calls;
            self.shared.closed_at = Some(cursor.offset());
        }
        if matches!(mark.meaning, Meaning::CallsClosed | Meaning::Opening | Meaning::Header | Meaning::End) {
            (self.shared.is_list_open, self.shared.is_behind_bare) = (false, false);
        }
        match mark.meaning {
            Meaning::Reasoning if !self.in_reasoning() => {
                self.shared.reasoning_at = Some(cursor.view().offset(span.start));
            }
            // The marker that opens the answer may be the one that closes the reasoning.
            Meaning::ReasoningClosed | Meaning::Content
                if self.reasoning_end.is_none()
                    && (mark.meaning == Meaning::ReasoningClosed || self.in_reasoning()) =>
            {
                self.reasoning_end = Some(cursor.offset());
                self.closing_pad = Arc::clone(&mark.pad);
            }
            Meaning::End => {
                self.unclosed(cursor.offset(), cursor.on);
                self.ended_by_call = matches!(self.state, State::AfterCall { .. });
            }
            _ => {}
        }
        let is_over = !matches!(mark.meaning, Meaning::Reasoning | Meaning::Call(_) | Meaning::Stray);
        if self.in_reasoning() && is_over {
            self.shared.release(cursor.on);
            self.shared.held.end();
        }
        if matches!(mark.meaning, Meaning::Opening | Meaning::Header) {
            self.shared.trim.restart();
        }
        self.state = match mark.meaning {
            Meaning::Opening => State::Head { is_fresh: true },
            Meaning::Reasoning => text(TextPart::Reasoning),
            Meaning::ReasoningClosed => State::Head { is_fresh: false },
            Meaning::Content | Meaning::ContentClosed | Meaning::CallsClosed => text(TextPart::Content),
            Meaning::Call(program) => return self.start_call(program, span, cursor),
            Meaning::Header => self.header_at(span, cursor),
            Meaning::HeaderWithoutStart(attribute) => return self.header_without_start(attribute, span, cursor),
            Meaning::MessageEnd => State::AfterCall { blank: String::new(), is_group: false },
            Meaning::Stray => return self.stray(span, cursor),
            Meaning::End => {
                // White space is the answer if there is nothing else.
                if let State::Text { part: TextPart::Content, blank: Some(blank) } = &mut self.state
                    && !self.shared.has_spoken
                    && self.shared.calls == 0
                {
                    let blank = std::mem::take(blank);
                    self.shared.say(cursor.view().offset(span.start), false, &blank, cursor.on);
                }
                self.stop(Stop::End, cursor.on);
                State::Ended
            }
        };
    }

    pub(super) fn start_call(&mut self, program: usize, mark: Range<usize>, cursor: &mut Cursor<'_, '_>) {
        let shared = &mut self.shared;
        let is_bare = shared.reply.program(program).is_bare();
        let is_over = shared.has_all_calls();
        // Only a tool's name distinguishes such a call from an answer in JSON.
        let is_answer = is_bare && shared.options.tools.is_empty() && shared.has_spoken;
        if is_over || is_answer {
            let blank = match &mut self.state {
                // The text stays reasoning, which ends at its own marker.
                State::Text { part: TextPart::Reasoning, .. } => return self.say_mark(mark, cursor),
                State::Text { blank, .. } => blank.take(),
                State::AfterCall { blank, .. } => Some(std::mem::take(blank)),
                _ => None,
            };
            self.state = State::Text { part: TextPart::Content, blank: Some(blank.unwrap_or_default()) };
            return self.say_mark(mark, cursor);
        }
        shared.closed_at = None;
        shared.report_late(cursor.on);
        shared.is_list_open |= shared.reply.program(program).opens_list;
        let start = cursor.view().offset(mark.start);
        let in_reasoning = matches!(self.state, State::Text { part: TextPart::Reasoning, .. });
        if in_reasoning {
            shared.report_unclosed(start, cursor.on);
        }
        self.state = State::Call(Box::new(OpenCall::new(program, start, cursor.shown(mark), in_reasoning)));
    }
}
