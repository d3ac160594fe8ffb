use std::sync::Arc;

use crate::call::{Progress, Running};
use crate::cursor::Cursor;
use crate::marks::Found;
use crate::reply::Meaning;
use crate::shared::Shared;
use crate::{Event, Stop};

/// A call in reasoning, read ahead. Nothing of it is dropped before it is known what it is.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    /// The call, until it is whole.
    shadow: Option<Box<Running>>,
    /// How many bytes were looked at, its mark included.
    seen: usize,
    /// How many bytes may be looked at: the cap, and its mark in any case.
    room: usize,
}

/// What a draft turns out to be.
pub(crate) enum Verdict {
    /// The turn ends behind it, and the reasoning was never closed: a call.
    Call,
    /// The reasoning goes on behind it, from there on: reasoning as it stands.
    Draft(usize),
    /// Up to there it is no whole call: text, in which the reasoning may be closed.
    Text(usize),
}

impl Draft {
    /// A draft of a call whose mark has so many bytes.
    pub fn new(program: usize, mark: usize, shared: &Shared) -> Draft {
        let shadow = Some(Box::new(Running::new(program, 0, "", true)));
        Draft { shadow, seen: mark, room: mark.max(shared.cap()) }
    }

    /// Reads on from where it begins, and leaves the cursor there; none, if it is not known yet what it is.
    pub fn read(&mut self, shared: &mut Shared, cursor: &Cursor<'_, '_>) -> Option<Verdict> {
        let reply = Arc::clone(&shared.reply);
        let view = cursor.view();
        let room = view.up_to(cursor.at + self.room);
        let mut silent = |_: Event<'_>| {};
        let mut ahead = Cursor::new(room, cursor.at + self.seen, &mut silent);
        if let Some(running) = &mut self.shadow {
            let calls = shared.calls;
            let progress = running.read(shared, &mut ahead);
            shared.calls = calls;
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
