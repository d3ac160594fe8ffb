//! The state in which the end of the prompt leaves the parser.

use super::{OutputParser, State, TextPart};
use crate::{Ids, Reading};

impl OutputParser {
    /// Returns a parser in the state after the same prompt that generates other ids for calls. The
    /// parser must not have parsed any output yet. Returns `None` if the prompt began a call, because
    /// that call already has its id.
    ///
    /// This is faster than to create another parser for the same prompt.
    pub fn with_ids(&self, ids: Ids) -> Option<OutputParser> {
        if !self.shared.opened.calls.is_empty() || matches!(self.state, State::Call(_)) {
            return None;
        }
        let mut parser = self.clone();
        parser.shared.ids = ids;
        Some(parser)
    }

    /// Forgets the calls of the prompt if something follows them. They are part of the
    /// conversation: in some families a turn continues after the results of its calls, so the last
    /// opening in the prompt belongs to an earlier message.
    pub(super) fn forget_answered(&mut self, opened: &mut Reading) {
        if opened.calls.is_empty() || matches!(self.state, State::Call(_) | State::AfterCall { .. }) {
            return;
        }
        *opened = Reading::default();
        self.shared.calls = 0;
        self.shared.closed = 0;
        self.shared.has_spoken = false;
        if matches!(self.state, State::Text { part: TextPart::Content, .. }) {
            self.state = OutputParser::start(&self.shared.reply);
        }
    }
}
