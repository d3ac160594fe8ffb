//! Emits the text of the answer and the reasoning, and the end of the turn.

use std::ops::Range;

use super::{BLANK, OutputParser, State, TextPart};
use crate::cursor::Cursor;
use crate::{Event, Malformed, Stop, Why};

impl OutputParser {
    /// Emits the text of the current part up to a byte, and moves there.
    pub(super) fn say_up_to(&mut self, to: usize, cursor: &mut Cursor<'_, '_>) {
        let text = cursor.take_up_to(to);
        self.say(text, cursor.offset(), false, cursor.on);
    }

    /// Emits a marker as text of the current part.
    pub(super) fn say_mark(&mut self, mark: Range<usize>, cursor: &mut Cursor<'_, '_>) {
        let end = cursor.view().offset(mark.end);
        self.say(cursor.shown(mark), end, false, cursor.on);
    }

    /// Emits text of the current part that ends at this offset of the output, and reports the
    /// markers in it unless the text is reported as a whole.
    pub(super) fn say(&mut self, text: &str, end: u64, is_reported: bool, on: &mut dyn FnMut(Event<'_>)) {
        let State::Text { part, blank } = &mut self.state else { return };
        if text.is_empty() {
            return;
        }
        self.is_opened &= text.trim().is_empty();
        self.shared.last = text.chars().next_back();
        if *part == TextPart::Content && !text.trim().is_empty() {
            self.shared.report_behind_calls(text, on);
        }
        let is_reasoning = *part == TextPart::Reasoning;
        if let Some(held) = blank {
            if text.trim().is_empty() && held.len() + text.len() <= BLANK {
                held.push_str(text);
                return;
            }
            let held = blank.take().unwrap_or_default();
            let start = end.saturating_sub(text.len() as u64);
            self.shared.say_up_to(start, is_reasoning, &held, on);
        }
        match is_reported {
            true => self.shared.say_reported(end, is_reasoning, text, on),
            false => self.shared.say_up_to(end, is_reasoning, text, on),
        }
    }

    /// Reports whether the current text is reasoning.
    pub(super) fn in_reasoning(&self) -> bool {
        matches!(self.state, State::Text { part: TextPart::Reasoning, .. })
    }

    /// Reports reasoning that is open when the model ends its turn.
    pub(super) fn unclosed(&mut self, end: u64, on: &mut dyn FnMut(Event<'_>)) {
        if self.in_reasoning() && !self.shared.is_silent {
            let start = self.shared.reasoning_at.take().unwrap_or(end);
            on(Event::Malformed(Malformed { span: start..end, why: Why::UnclosedReasoning }));
            self.shared.held.emit(false, self.shared.has_places, on);
        }
    }

    pub(super) fn stop(&mut self, stop: Stop, on: &mut dyn FnMut(Event<'_>)) {
        self.shared.end_strays(on);
        self.shared.release(on);
        if !std::mem::replace(&mut self.is_stopped, true) && !self.shared.is_silent {
            self.shared.report_bare_call(Some(stop), on);
            on(Event::Stop(stop));
        }
    }
}
