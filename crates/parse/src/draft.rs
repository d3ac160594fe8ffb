use std::sync::Arc;

use crate::call::{OpenCall, Progress};
use crate::cursor::Cursor;
use crate::marks::Here;
use crate::reply::Meaning;
use crate::shared::Shared;
use crate::{Event, Stop};

/// Calls in reasoning, or without a marker in a line of the answer, read ahead. Their text stays pending until the
/// verdict is known.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    /// Whether the calls are in reasoning, and not in the answer.
    pub in_reasoning: bool,
    /// The last call, until it is complete.
    shadow: Option<Box<OpenCall>>,
    /// The number of bytes read ahead, including the marker.
    seen: usize,
    /// The maximum number of bytes to read ahead: the cap, but at least the marker.
    room: usize,
}

/// The verdict on a draft.
pub(crate) enum Verdict {
    /// Calls: the turn ends after them, and the reasoning was never closed, or the answer goes no further.
    Call,
    /// Part of the text: other text or another marker follows, at this byte.
    Draft(usize),
    /// Text up to this byte, in which the reasoning may be closed: the call is incomplete.
    Text(usize),
}

impl Draft {
    /// Creates a draft of a call whose marker has `mark` bytes.
    pub fn new(program: usize, mark: usize, in_reasoning: bool, shared: &Shared) -> Draft {
        let shadow = Some(Box::new(OpenCall::new(program, 0, "", in_reasoning)));
        Draft { in_reasoning, shadow, seen: mark, room: mark.max(shared.cap()) }
    }

    /// Reads ahead without moving the cursor. Returns `None` until the verdict is known.
    pub fn read(&mut self, shared: &mut Shared, cursor: &Cursor<'_, '_>) -> Option<Verdict> {
        let reply = Arc::clone(&shared.reply);
        let view = cursor.view();
        let room = view.up_to(cursor.at + self.room);
        let mut silent = |_: Event<'_>| {};
        let mut ahead = Cursor::new(room, cursor.at + self.seen, &mut silent);
        loop {
            if let Some(running) = &mut self.shadow {
                let emitted = shared.set_aside();
                let progress = running.read(shared, &mut ahead);
                shared.restore(emitted);
                match progress {
                    Progress::Wait => break,
                    Progress::Finished => self.shadow = None,
                    Progress::Text { .. } | Progress::Nothing => return Some(Verdict::Text(ahead.at)),
                }
            }
            // Behind the call, the turn ends or another call begins. Any other text goes on thinking.
            let said = ahead.at;
            let blank = ahead.skip_space();
            if ahead.is_at_end() {
                ahead.at = said;
                break;
            }
            let (end, meaning) = match ahead.marker_here(&reply.after_call) {
                Here::Open => {
                    ahead.at = said;
                    break;
                }
                Here::Mark(end, action) => (end, reply.after_call.action(action).meaning),
                Here::Nothing => {
                    match reply.next_call.filter(|_| ahead.text()[..ahead.at].ends_with('\n') && blank > 0) {
                        Some(program) => (ahead.at, Meaning::Call(program)),
                        None => return Some(Verdict::Draft(said)),
                    }
                }
            };
            match meaning {
                Meaning::End if shared.stop.is_none_or(|stop| stop == Stop::End) => return Some(Verdict::Call),
                Meaning::Call(program) => {
                    self.shadow = Some(Box::new(OpenCall::new(program, 0, "", self.in_reasoning)));
                }
                Meaning::CallsClosed => {}
                _ => return Some(Verdict::Draft(said)),
            }
            ahead.at = end;
        }
        self.seen = ahead.at - cursor.at;
        if room.is_last && self.shadow.is_none() && shared.stop == Some(Stop::End) {
            return Some(Verdict::Call);
        }
        (room.is_last || room.is_shorter_than(view)).then(|| Verdict::Text(room.text().len()))
    }
}
