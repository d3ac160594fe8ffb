//! Reads calls whose text is the whole text of a message.

use super::{CallStep, OpenCall};
use crate::cursor::Cursor;
use crate::marks::{Here, MarkSearch, Marks};
use crate::shared::Shared;
use crate::{Event, Stop, Why};

impl OpenCall {
    /// Reads code up to a marker, which is not part of it.
    pub(super) fn body(&mut self, closes: &Marks<()>, shared: &mut Shared, cursor: &mut Cursor<'_, '_>) -> CallStep {
        if self.index.is_none() {
            self.is_code = true;
            if let Err(why) = self.announce(shared, cursor.on) {
                return CallStep::Bad(why);
            }
        }
        let (end, is_over) = match cursor.find_marker(closes, cursor.at) {
            MarkSearch::Mark(start, ..) => (start, true),
            MarkSearch::Open(start) => (start, false),
            MarkSearch::Nothing => (cursor.text().len(), false),
        };
        let text = cursor.take_up_to(end);
        let index = self.index.unwrap_or_default();
        if !text.is_empty() && !shared.is_silent {
            cursor.emit(Event::Code { index, text });
        }
        // Engines remove the marker at which they stop.
        self.is_whole = is_over || (cursor.is_last() && shared.stop == Some(Stop::End));
        if is_over { CallStep::Next } else { CallStep::Wait }
    }

    /// Reads the end of a message without text: a call without arguments. Text that begins with
    /// anything but an object is not a call.
    pub(super) fn no_arguments(
        &mut self,
        closes: &Marks<()>,
        shared: &mut Shared,
        cursor: &mut Cursor<'_, '_>,
    ) -> CallStep {
        cursor.skip_space();
        let Some(first) = cursor.peek() else { return CallStep::Wait };
        match cursor.marker_here(closes) {
            Here::Open => CallStep::Wait,
            Here::Mark(..) => {
                if let Err(why) = self.announce(shared, cursor.on) {
                    return CallStep::Bad(why);
                }
                self.give_some(shared, "{}", cursor.on);
                self.is_whole = true;
                // The arguments, which would be the next item, are missing.
                self.item += 1;
                CallStep::Next
            }
            Here::Nothing if matches!(first, '{' | '"') => CallStep::Next,
            Here::Nothing => CallStep::Bad(Why::BadValue("expected a JSON object".into())),
        }
    }
}
