//! Reads the answer and the reasoning up to the next marker.

use std::ops::Range;
use std::sync::Arc;

use super::{Flow, OutputParser, State, TextPart};
use crate::cursor::Cursor;
use crate::draft::{Draft, Verdict};
use crate::marks::MarkSearch;
use crate::reply::{Mark, Meaning};
use crate::{CallsInReasoning, Event, Malformed, Why};

impl OutputParser {
    pub(super) fn text(&mut self, part: TextPart, cursor: &mut Cursor<'_, '_>) -> Flow {
        let reply = Arc::clone(&self.shared.reply);
        let policy = self.shared.calls_in_reasoning();
        let marks = reply.marks(part == TextPart::Reasoning, policy);
        let mut from = cursor.at;
        loop {
            let (start, end, action) = match cursor.find_marker(marks, from) {
                MarkSearch::Mark(start, end, action) => (start, end, action),
                MarkSearch::Open(start) => return self.wait_at(start, cursor),
                MarkSearch::Nothing => return self.wait_at(cursor.text().len(), cursor),
            };
            let mark = marks.action(action);
            match runs_on(cursor, start..end) {
                Some(true) => {
                    from = start + 1;
                    continue;
                }
                None => return self.wait_at(start, cursor),
                Some(false) => {}
            }
            let draft = self.draft_of(part, mark, policy, cursor, start..end);
            // There is nothing for this marker to close, or the call was already tried and is
            // unparseable.
            let says_nothing = cursor.text()[cursor.at..start].trim().is_empty()
                && matches!(self.state, State::Text { blank: Some(_), .. });
            let closes_nothing = mark.meaning == Meaning::CallsClosed
                && self.shared.calls == self.shared.closed
                && !(self.shared.calls > 0 && says_nothing);
            let is_repeated = self.is_opened && cursor.text()[cursor.at..start].trim().is_empty();
            if closes_nothing {
                from = end;
                continue;
            }
            if draft.is_some() && cursor.view().is_tried(start) {
                // White space before the call's marker belongs to it. The marker that closes the
                // reasoning may be the same.
                from = start + cursor.text()[start..].chars().next().map_or(1, char::len_utf8);
                continue;
            }
            // Reasoning is not nested. The marker is text.
            if part == TextPart::Reasoning && mark.meaning == Meaning::Reasoning && !is_repeated {
                self.say_up_to(start, cursor);
                report(cursor, start..end, Why::Expected("reasoning text, found its opening marker again".into()));
                from = end;
                continue;
            }
            match self.is_quoted(mark, cursor, start..end) {
                Some(true) => {
                    from = end;
                    continue;
                }
                None => return self.wait_at(start, cursor),
                Some(false) => {}
            }
            self.say_up_to(start, cursor);
            // The answer is open already.
            if part == TextPart::Content && mark.meaning == Meaning::Content && !says_nothing {
                let stray = cursor.text()[start..end].trim().to_owned();
                report(cursor, start..end, Why::StrayMarker(stray));
            }
            if let Some(program) = draft {
                let in_reasoning = part == TextPart::Reasoning;
                self.state = State::Draft(Draft::new(program, end - start, in_reasoning, &self.shared));
                return Flow::Again;
            }
            cursor.at = end;
            self.apply(mark, start..end, cursor);
            return Flow::Again;
        }
    }

    /// Says the text before a place, where more input is needed.
    fn wait_at(&mut self, end: usize, cursor: &mut Cursor<'_, '_>) -> Flow {
        self.say_up_to(end, cursor);
        Flow::Wait
    }

    /// Returns the program of a call that is tried before it counts: one in reasoning that may end with it, or an object
    /// in a line of the answer, which is a call only if the answer ends with it.
    fn draft_of(
        &self,
        part: TextPart,
        mark: &Mark,
        policy: CallsInReasoning,
        cursor: &Cursor<'_, '_>,
        span: Range<usize>,
    ) -> Option<usize> {
        let Meaning::Call(program) = mark.meaning else { return None };
        let is_object_in_line = || {
            self.shared.reply.program(program).is_bare_object()
                && self.call_at != Some(cursor.view().offset(span.start))
                && self.is_in_line(cursor.text()[cursor.at..span.end].trim_end_matches('{'))
        };
        let is_draft = match part {
            TextPart::Reasoning => policy == CallsInReasoning::Unclosed,
            TextPart::Content => is_object_in_line(),
        };
        is_draft.then_some(program)
    }

    /// Reports whether text of the answer stands in the line that ends with `text`.
    fn is_in_line(&self, text: &str) -> bool {
        let State::Text { blank, .. } = &self.state else { return false };
        let held = blank.as_deref().unwrap_or_default();
        match text.rfind('\n') {
            Some(line) => !text[line..].trim().is_empty(),
            None => !text.trim().is_empty() || (self.shared.is_in_line && !held.contains('\n')),
        }
    }

    /// Reads ahead in a call inside reasoning, or in a line of the answer, until it is known how to treat it.
    pub(super) fn draft(&mut self, cursor: &mut Cursor<'_, '_>) -> Flow {
        let State::Draft(draft) = &mut self.state else { return Flow::Again };
        let Some(verdict) = draft.read(&mut self.shared, cursor) else { return Flow::Wait };
        let in_reasoning = draft.in_reasoning;
        let part = if in_reasoning { TextPart::Reasoning } else { TextPart::Content };
        self.state = State::Text { part, blank: None };
        match verdict {
            Verdict::Call if !in_reasoning => self.call_at = Some(cursor.offset()),
            Verdict::Call => {
                Arc::make_mut(&mut self.shared.options).calls_in_reasoning = Some(CallsInReasoning::Call);
            }
            Verdict::Draft(end) => self.say_up_to(end, cursor),
            // The text is read again, without trying any calls in it.
            Verdict::Text(end) => cursor.view().set_tried(end),
        }
        Flow::Again
    }

    /// Reports whether a marker that closes reasoning is in backticks, where the model only
    /// mentions it. Returns `None` if that is not known yet.
    pub(super) fn is_quoted(&self, mark: &Mark, cursor: &Cursor<'_, '_>, span: Range<usize>) -> Option<bool> {
        if mark.meaning != Meaning::ReasoningClosed || cursor.input().is_control(span.start) {
            return Some(false);
        }
        let before = cursor.text()[cursor.at..span.start].chars().next_back().or(self.shared.last);
        match (before, cursor.text().as_bytes().get(span.end)) {
            (Some('`'), Some(b'`')) => Some(true),
            (Some('`'), None) if !cursor.is_last() => None,
            _ => Some(false),
        }
    }
}

/// Reports whether a marker that is one sign again and again, such as `>>>`, is followed by the same sign, which is
/// text that stands before the marker. Returns `None` if that is not known yet.
fn runs_on(cursor: &Cursor<'_, '_>, span: Range<usize>) -> Option<bool> {
    let bytes = cursor.text().as_bytes();
    let sign = bytes[span.start];
    let is_run = span.len() > 1 && sign.is_ascii_punctuation() && bytes[span.clone()].iter().all(|byte| *byte == sign);
    if !is_run || cursor.input().is_control(span.start) {
        return Some(false);
    }
    match bytes.get(span.end) {
        Some(next) => Some(*next == sign),
        None => cursor.is_last().then_some(false),
    }
}

/// Reports text that has a meaning elsewhere.
fn report(cursor: &mut Cursor<'_, '_>, span: Range<usize>, why: Why) {
    let span = cursor.view().offset(span.start)..cursor.view().offset(span.end);
    cursor.emit(Event::Malformed(Malformed { span, why }));
}
