use std::sync::Arc;

use crate::call::{Progress, Running};
use crate::cursor::Cursor;
use crate::marks::Found;
use crate::reply::Meaning;
use crate::shared::Shared;
use crate::{Event, Stop};

/// A call in reasoning, read ahead. Its text stays pending until the verdict is known.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    /// The call, until it is complete.
    shadow: Option<Box<Running>>,
    /// The number of bytes read ahead, including the marker.
    seen: usize,
    /// The maximum number of bytes to read ahead: the cap, but at least the marker.
    room: usize,
}

/// The verdict on a draft.
pub(crate) enum Verdict {
    /// A call: the turn ends after it, and the reasoning was never closed.
    Call,
    /// Part of the reasoning: another marker follows, at this byte.
    Draft(usize),
    /// Text up to this byte, in which the reasoning may be closed: the call is incomplete.
    Text(usize),
}

impl Draft {
    /// Creates a draft of a call whose marker has `mark` bytes.
    pub fn new(program: usize, mark: usize, shared: &Shared) -> Draft {
        let shadow = Some(Box::new(Running::new(program, 0, "", true)));
        Draft { shadow, seen: mark, room: mark.max(shared.cap()) }
    }

    /// Reads ahead without moving the cursor. Returns `None` until the verdict is known.
    pub fn read(&mut self, shared: &mut Shared, cursor: &Cursor<'_, '_>) -> Option<Verdict> {
        let reply = Arc::clone(&shared.reply);
        let view = cursor.view();
        let room = view.up_to(cursor.at + self.room);
        let mut silent = |_: Event<'_>| {};
        let mut ahead = Cursor::new(room, cursor.at + self.seen, &mut silent);
        if let Some(running) = &mut self.shadow {
            let calls = shared.calls;
            let held = std::mem::take(&mut shared.held);
            let progress = running.read(shared, &mut ahead);
            shared.calls = calls;
            shared.held = held;
            match progress {
                Progress::Wait => {}
                Progress::Finished => self.shadow = None,
                Progress::Text { .. } | Progress::Nothing => return Some(Verdict::Text(ahead.at)),
            }
        }
        if self.shadow.is_none() {
            match ahead.find_marker(&reply.reasoning, ahead.at) {
                Found::Mark(start, _, action) => {
                    let is_end = reply.reasoning.action(action).meaning == Meaning::End;
                    let is_over = shared.stop.is_none_or(|stop| stop == Stop::End);
                    return Some(if is_end && is_over { Verdict::Call } else { Verdict::Draft(start) });
                }
                Found::Open(start) => ahead.at = start,
                Found::Nothing => ahead.at = room.text().len(),
            }
        }
        self.seen = ahead.at - cursor.at;
        if room.is_last && self.shadow.is_none() && shared.stop == Some(Stop::End) {
            return Some(Verdict::Call);
        }
        (room.is_last || room.is_shorter_than(view)).then(|| Verdict::Text(room.text().len()))
    }
}
