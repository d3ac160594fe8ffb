//! What is kept while a template runs.

use std::sync::Arc;

use super::super::Vm;
use super::super::loops::LoopSource;
use super::freeze::LoopPoint;
use crate::growth::{Checkpoint, Growing, KeptStates, Stretch, TrackedList};
use crate::value::iter::Iter;
use crate::vm::Volatile;

/// The most passes at the end of a loop before which the state is kept. A template that looks further
/// ahead is rendered whole. Most look no further than before, and fewer states are kept then.
const LAST: usize = 3;

/// The most states that are kept besides the latest.
const MOST_KEPT: usize = 3;

/// What a rendering keeps of its states.
pub(crate) struct Recorder<'a> {
    tracked: &'a TrackedList<'a>,
    /// The output before that of this machine, in bytes.
    before: usize,
    /// The parts of the template that must be rendered again, up to now.
    stretches: Vec<Arc<Stretch>>,
    /// The state after the last of them, or the one that the first begins with. Without one, that is
    /// the start of the template.
    boundary: Option<Arc<Checkpoint>>,
    /// The latest state in the running loop.
    in_loop: Option<Arc<Checkpoint>>,
    /// Whether the switch was read before this machine started, since the last stretch.
    has_switched: bool,
    /// The latest states, none of which is before the last stretch.
    kept: Vec<Arc<Checkpoint>>,
    /// The number of stretches before them.
    kept_after: usize,
    /// The stretch that is rendered again, if that is all to do.
    wanted: Option<&'a Stretch>,
    /// Whether it had the same result.
    is_same: bool,
    /// The number of passes at the end of a loop before which the state is kept.
    near: usize,
}

impl<'a> Recorder<'a> {
    pub(super) fn new(
        tracked: &'a TrackedList<'a>,
        from: Option<&Arc<Checkpoint>>,
        is_boundary: bool,
        kept: &[Arc<Checkpoint>],
        stretches: Vec<Arc<Stretch>>,
        wanted: Option<&'a Stretch>,
        near: Option<usize>,
    ) -> Recorder<'a> {
        let mut recorder = Recorder {
            tracked,
            before: from.map_or(0, |from| from.written),
            stretches,
            boundary: None,
            in_loop: None,
            has_switched: from.is_some_and(|from| from.has_switched),
            kept: Vec::new(),
            kept_after: 0,
            wanted,
            is_same: false,
            near: near.unwrap_or(LAST).min(LAST),
        };
        match from {
            Some(from) if is_boundary => recorder.boundary = Some(Arc::clone(from)),
            Some(from) => {
                recorder.kept_after = recorder.stretches.len();
                for state in kept.iter().chain([from]) {
                    recorder.keep(Arc::clone(state));
                }
            }
            None => {}
        }
        recorder
    }

    /// Returns whether the wanted stretch had the same result, the stretches, and the states.
    pub(super) fn finish(self) -> (bool, Growing) {
        let kept = KeptStates { stretches: self.kept_after, checkpoints: self.kept };
        let count = self.tracked.inputs.count();
        let is_enough = |last: &&Arc<Checkpoint>| !last.has_switched && last.volatiles.is_empty();
        let latest = kept.checkpoints.last().filter(is_enough);
        let near = latest.map(|latest| count.saturating_sub(latest.next).max(1));
        (self.is_same, Growing { stretches: self.stretches, kept, near })
    }

    fn has_switched(&self) -> bool {
        self.has_switched || self.tracked.has_switched()
    }

    fn keep(&mut self, checkpoint: Arc<Checkpoint>) {
        if self.in_loop.is_none() || self.kept_after != self.stretches.len() {
            // Another loop began.
            self.kept.clear();
            self.kept_after = self.stretches.len();
        }
        // A later state that requires no more is always the better one.
        if self.kept.last().is_some_and(|last| checkpoint.requires_as(last)) {
            self.kept.pop();
        }
        if self.kept.len() > MOST_KEPT {
            self.kept.remove(0);
        }
        self.kept.push(Arc::clone(&checkpoint));
        self.in_loop = Some(checkpoint);
    }
}

impl<'a> Vm<'_, 'a> {
    /// Notes that a loop is at the top of a pass.
    ///
    /// Before the first pass, it ends a stretch if something depended on the list's end. Before the
    /// last ones, it keeps the state if nothing did. Returns true if nothing else is to do.
    #[cold]
    pub(in super::super) fn at_top(&mut self) -> bool {
        let Some(next) = self.next_of_outermost() else { return false };
        let is_new = self.loops.last_mut().is_some_and(|run| std::mem::replace(&mut run.is_new, false));
        let Some(recorder) = &mut self.recorder else { return false };
        if is_new {
            recorder.in_loop = None;
            let is_wanted = recorder.wanted.is_some_and(|wanted| wanted.to.pc as usize + 1 == self.pc);
            let depends = recorder.tracked.has_ended() || recorder.tracked.has_switched() || is_wanted;
            if depends && self.end_stretch(LoopPoint::Top { next }) {
                return true;
            }
        }
        let Some(recorder) = &self.recorder else { return false };
        let is_near = next.saturating_add(recorder.near) >= recorder.tracked.inputs.count();
        // This may be where the rendering was taken up.
        let is_known = recorder.in_loop.as_ref().is_some_and(|latest| latest.next == next);
        if recorder.tracked.has_ended() || !is_near || is_known {
            return false;
        }
        let written = recorder.before + self.sink.len();
        let kept = self.freeze(recorder.tracked, LoopPoint::Top { next }, written, recorder.has_switched());
        if let (Some((checkpoint, _)), Some(recorder)) = (kept, &mut self.recorder) {
            recorder.keep(Arc::new(checkpoint));
        }
        false
    }

    /// Notes that a loop has no more items. If another loop may follow, it ends a stretch, or begins
    /// one. Returns true if nothing else is to do.
    #[cold]
    pub(in super::super) fn at_end(&mut self, end: u32) -> bool {
        let is_followed = self.pc.checked_sub(1).is_some_and(|pc| self.program.live().is_followed(pc));
        if !is_followed || !self.is_outermost() {
            return false;
        }
        let at = LoopPoint::End { pc: end as usize };
        if self.next_of_outermost().is_some() {
            return self.end_stretch(at);
        }
        self.begin_stretch(at);
        false
    }

    /// Reports whether nothing runs but the template itself and one of its loops.
    fn is_outermost(&self) -> bool {
        self.calls.len() == 1
            && self.loops.len() == 1
            && self.outer_sinks.is_empty()
            && self.shown.is_none()
            && self.looks == 0
            && self.stack.is_empty()
    }

    /// Returns the index of the next item of the running loop, if it is a loop over the growing
    /// list, and nothing else runs.
    fn next_of_outermost(&self) -> Option<usize> {
        match self.loops.last().map(|run| &run.source) {
            Some(LoopSource::Plain(Iter::InputList(items))) if self.is_outermost() => items.open_start(),
            Some(LoopSource::Shared(state)) if self.is_outermost() => state.try_borrow().ok()?.open_start(),
            _ => None,
        }
    }

    /// Begins the first stretch here, after a loop over another list, if nothing has depended on the
    /// end of the growing one or on the switch. So what comes before, for example all tools, is not
    /// rendered again.
    fn begin_stretch(&mut self, at: LoopPoint) {
        let Some(recorder) = &self.recorder else { return };
        let tracked = recorder.tracked;
        let depends = tracked.has_ended() || recorder.has_switched();
        if depends || !recorder.stretches.is_empty() || recorder.in_loop.is_some() {
            return;
        }
        let written = recorder.before + self.sink.len();
        let kept = self.freeze(tracked, at, written, false);
        if let (Some((checkpoint, _)), Some(recorder)) = (kept, &mut self.recorder) {
            recorder.boundary = Some(Arc::new(checkpoint));
        }
    }

    /// Ends a stretch, after which nothing depends on the list's end but the state. Returns true if
    /// it is the wanted one and had the same result.
    fn end_stretch(&mut self, at: LoopPoint) -> bool {
        let Some(recorder) = &self.recorder else { return false };
        let tracked = recorder.tracked;
        let from = match at {
            LoopPoint::Top { .. } => recorder.boundary.clone(),
            // A loop is rendered again from its last passes on.
            LoopPoint::End { .. } if recorder.in_loop.is_none() => return false,
            LoopPoint::End { .. } => recorder.in_loop.clone(),
        };
        let (before, written) = (recorder.before, recorder.before + self.sink.len());
        // What is before `from` is not rendered again, so if it read the switch, that stays so.
        let has_switched = from.as_ref().is_some_and(|from| from.has_switched);
        let start = from.as_ref().map_or(0, |from| from.written).checked_sub(before);
        let wrote = start.and_then(|start| self.wrote(tracked, start));
        let to = self.freeze(tracked, at, written, has_switched);
        let (Some(start), Some(wrote), Some((mut to, ids))) = (start, wrote, to) else { return false };
        // From here on, what happens depends on the state alone.
        to.volatiles = to.numbers();
        let volatiles = to.volatiles.clone();
        // The wanted stretch began where this machine did.
        let is_wanted = recorder.wanted.is_some_and(|wanted| {
            wanted.to.is_like(&to)
                && match start {
                    0 => wanted.wrote == wrote,
                    _ => self.wrote(tracked, 0).is_some_and(|wrote| wanted.wrote == wrote),
                }
        });
        let Some(recorder) = &mut self.recorder else { return false };
        let to = Arc::new(to);
        let has_ended = tracked.has_ended();
        recorder.stretches.push(Arc::new(Stretch { from, to: Arc::clone(&to), wrote, has_ended }));
        recorder.boundary = Some(to);
        recorder.in_loop = None;
        recorder.has_switched = has_switched;
        recorder.is_same = is_wanted;
        tracked.clear();
        let own = |number: &Volatile| Some(Volatile { namespace: *ids.get(number.namespace as usize)?, ..*number });
        self.world.volatiles().set(volatiles.iter().filter_map(own).collect());
        is_wanted
    }
}
