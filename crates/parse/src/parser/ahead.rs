//! Reads as much of the open call as is at hand.

use super::{Flow, OutputParser, PIECE, State};
use crate::Event;
use crate::cursor::Cursor;

impl OutputParser {
    /// Parses the beginning of the bytes of many tokens, as far as it certainly belongs to the open
    /// call, and returns its length. The rest is not parsed. None of them is a control token.
    ///
    /// The events are those of parsing token by token, except for the boundaries of deltas. Outside
    /// of calls, and in calls where this would be slower, nothing is parsed.
    pub fn push_in_call(&mut self, bytes: &[u8], on: &mut impl FnMut(Event<'_>)) -> usize {
        self.begin(on);
        let State::Call(running) = &self.state else { return 0 };
        if !self.carry.is_empty() || !self.pending.text().is_empty() || self.shared.is_silent {
            return 0;
        }
        let bytes = &bytes[..bytes.len().min(running.room(&self.shared)).min(PIECE)];
        let text = match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(),
        };
        let mut pending = std::mem::take(&mut self.pending);
        let start = pending.offset(0);
        self.shared.strays.add_control(start..start + text.len() as u64, false);
        pending.push(text, Some(false));
        let mut cursor = Cursor::new(pending.view(false), 0, on);
        // After one step, the call goes on or is over.
        if let Flow::Again = self.eat_pad(&mut cursor) {
            self.step(&mut cursor);
        }
        let read = cursor.at;
        pending.drop_up_to(read);
        pending.drop_rest();
        self.forget_strays(&pending);
        self.pending = pending;
        read
    }
}
