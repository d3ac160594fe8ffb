//! Keeps the state of the machine.

use std::any::Any;
use std::rc::Rc;

use super::super::Vm;
use super::super::loops::LoopSource;
use crate::growth::{
    Checkpoint, FrozenAbsence, FrozenLoop, FrozenMark, FrozenOrigin, FrozenRun, FrozenState, FrozenText, FrozenValue,
    InputPlace, Items, TrackedList, Wrote,
};
use crate::input::{InputValue, Tag};
use crate::output::{Generation, MarkId, Offset, Origin, Run};
use crate::value::text::{JoinedText, Slice, Str};
use crate::value::{Absence, List, Value};
use crate::vm::Volatile;

/// The largest state that is kept, in bytes of text and values.
const MOST_BYTES: usize = 64 << 10;

/// The largest part of the output that is kept, in bytes of text and runs.
const MOST_TEXT: usize = 1 << 20;

/// The bytes that a value counts as.
const VALUE_BYTES: usize = 32;

/// The longest text of the caller that is copied; longer ones are found again.
const COPIED_BYTES: usize = 256;

/// Copies values. `None` means that the state cannot be kept.
struct Freezer<'f, 'w, 'a> {
    vm: &'f Vm<'w, 'a>,
    tracked: &'f TrackedList<'a>,
    /// The bytes that may still be kept.
    left: usize,
    /// Whether the running loop is over.
    is_over: bool,
    /// The old numbers of the namespaces, by new number.
    namespaces: Vec<u32>,
    items: Vec<Items>,
    /// The addresses of the values in `items`, which may be shared.
    known: Vec<(usize, u32)>,
    marks: Vec<FrozenMark>,
    mark_ids: Vec<MarkId>,
}

/// Where the machine is in the loop whose step it is at.
#[derive(Clone, Copy)]
pub(super) enum LoopPoint {
    /// Before a pass. The next item has this index in the growing list.
    Top { next: usize },
    /// After the last pass, with the position of the next step.
    End { pc: usize },
}

impl<'a> Vm<'_, 'a> {
    /// Copies the state. The output so far is `written` bytes long. Also returns the numbers that
    /// the namespaces have in the machine.
    pub(super) fn freeze(
        &self,
        tracked: &TrackedList<'a>,
        at: LoopPoint,
        written: usize,
        has_switched: bool,
    ) -> Option<(Checkpoint, Vec<u32>)> {
        if !self.world.changed.borrow().is_empty() {
            return None;
        }
        let own = self.pc.checked_sub(1)?;
        let (pc, next, is_over) = match at {
            LoopPoint::Top { next } => (own, next, false),
            LoopPoint::End { pc } => (pc, 0, true),
        };
        let mut freezer = Freezer::new(self, tracked, MOST_BYTES);
        freezer.is_over = is_over;
        let live = self.program.live().at(own, is_over);
        let mut slots = Vec::with_capacity(live.len());
        for slot in live {
            let value = freezer.value(&self.slots[*slot as usize])?;
            slots.push((*slot, value));
        }
        let running = freezer.running()?;
        // Freezing a namespace may find more of them.
        let mut namespaces = Vec::new();
        while let Some(id) = freezer.namespaces.get(namespaces.len()).copied() {
            let entries = self.world.kept_entries(id);
            let mut frozen = Vec::with_capacity(entries.len());
            for (key, value) in &entries {
                frozen.push((freezer.value(key)?, freezer.value(value)?));
            }
            namespaces.push(frozen);
        }
        let Freezer { items, marks, namespaces: ids, .. } = freezer;
        let moved = |mut volatile: Volatile| {
            match ids.iter().position(|id| *id == volatile.namespace) {
                Some(at) => volatile.namespace = at as u32,
                // It cannot be read any more.
                None => volatile.is_kept = false,
            }
            volatile
        };
        let checkpoint = Checkpoint {
            volatiles: self.world.volatiles().all().into_iter().map(moved).collect(),
            pc: u32::try_from(pc).ok()?,
            next,
            written,
            has_switched,
            running,
            slots,
            namespaces,
            items,
            marks,
        };
        Some((checkpoint, ids))
    }
}

impl<'a> Vm<'_, 'a> {
    /// Copies the output from a byte on.
    pub(super) fn wrote(&self, tracked: &TrackedList<'a>, start: usize) -> Option<Wrote> {
        let (text, runs) = self.sink.since(start)?;
        let mut freezer = Freezer::new(self, tracked, MOST_TEXT);
        let (text, runs) = (freezer.copied(text)?, freezer.runs(&runs)?);
        let generations = self.generations.iter().filter(|span| span.start >= start);
        let generations = generations.map(|span| Generation { start: span.start - start, ..*span }).collect();
        Some(Wrote { text, runs, marks: freezer.marks, generations })
    }
}

impl<'f, 'w, 'a> Freezer<'f, 'w, 'a> {
    fn new(vm: &'f Vm<'w, 'a>, tracked: &'f TrackedList<'a>, left: usize) -> Freezer<'f, 'w, 'a> {
        Freezer {
            vm,
            tracked,
            left,
            is_over: false,
            namespaces: Vec::new(),
            items: Vec::new(),
            known: Vec::new(),
            marks: Vec::new(),
            mark_ids: Vec::new(),
        }
    }

    fn spend(&mut self, bytes: usize) -> Option<()> {
        self.left = self.left.checked_sub(bytes)?;
        Some(())
    }

    fn running(&mut self) -> Option<FrozenLoop> {
        let run = self.vm.loops.last()?;
        let at = self.vm.world.innermost_loop()?;
        if self.is_over {
            // Nothing of it remains but this.
            let has_passed = run.has_passed;
            return Some(FrozenLoop { at, is_over: true, passes: 0, has_passed, first: 0, shared: None });
        }
        let (first, shared) = match &run.source {
            LoopSource::Plain(_) => (0, None),
            LoopSource::Shared(state) => {
                let state = state.try_borrow().ok()?;
                let kept = state.kept()?;
                let mut own = |value: &Value<'a>| self.value(value);
                let test = match kept.test {
                    // The frame of the template itself.
                    Some((routine, 0)) => Some(routine),
                    Some(_) => return None,
                    None => None,
                };
                let shared = FrozenState {
                    index0: kept.index0,
                    depth0: kept.depth0,
                    depth_of_values: kept.depth_of_values,
                    before: own(kept.before)?,
                    current: own(kept.current)?,
                    after: match kept.after {
                        Some(after) => Some(own(after)?),
                        None => None,
                    },
                    is_indexed: kept.first.is_some(),
                    test,
                    is_testing: kept.is_testing,
                };
                (kept.first.unwrap_or(0), Some(shared))
            }
        };
        Some(FrozenLoop { at, is_over: false, passes: run.passes, has_passed: run.has_passed, first, shared })
    }

    fn value(&mut self, value: &Value<'a>) -> Option<FrozenValue> {
        self.spend(VALUE_BYTES)?;
        Some(match value {
            Value::Missing => FrozenValue::Missing,
            Value::Undefined(absence) => FrozenValue::Undefined(self.absence(absence)?),
            Value::None => FrozenValue::None,
            Value::Bool(value) => FrozenValue::Bool(*value),
            Value::Int(value) => FrozenValue::Int(*value),
            Value::Big(value) => {
                self.spend(usize::try_from(value.bits() / 8).ok()?)?;
                FrozenValue::Big((**value).clone())
            }
            Value::Float(value) => FrozenValue::Float(value.to_bits()),
            Value::Str(text) => FrozenValue::Str(self.text(text)?),
            Value::InputList(node, _) | Value::InputDict(node, _) => FrozenValue::Input(self.place(*node)?),
            Value::InputPart(part) => {
                let (list, selection) = part.items.selection();
                FrozenValue::InputPart(self.place(list)?, selection)
            }
            Value::List(list) => self.list(list, Items::List)?,
            Value::Tuple(list) => {
                let of = if list.is_group { Items::Group } else { Items::Tuple };
                self.list(list, of)?
            }
            Value::Dict(dict) => {
                let place = Rc::as_ptr(dict).cast::<()>() as usize;
                if let Some(known) = self.known(place) {
                    return Some(known);
                }
                let entry = |(key, value): &(Value<'a>, Value<'a>)| Some((self.value(key)?, self.value(value)?));
                let entries = dict.entries().iter().map(entry).collect::<Option<Vec<_>>>()?;
                self.add(place, Items::Dict(entries))
            }
            Value::Range(range) => {
                FrozenValue::Range { start: range.start, stop: range.stop, step: range.step, len: range.len }
            }
            Value::Namespace(id) => {
                let known = self.namespaces.iter().position(|known| known == id);
                FrozenValue::Namespace(known.unwrap_or_else(|| {
                    self.namespaces.push(*id);
                    self.namespaces.len() - 1
                }) as u32)
            }
            Value::Macro(found) if found.frame == 0 && found.depth == 0 => FrozenValue::Macro(found.routine),
            Value::Function(function) => FrozenValue::Function(*function),
            Value::Loop(state) => match &self.vm.loops.last()?.source {
                LoopSource::Shared(running) if !self.is_over && Rc::ptr_eq(running, state) => FrozenValue::Loop,
                _ => return None,
            },
            Value::Macro(_)
            | Value::View(_)
            | Value::Method(_)
            | Value::Generator(_)
            | Value::Cycler(_)
            | Value::Joiner(_) => return None,
        })
    }

    fn list(&mut self, list: &Rc<List<'a>>, of: impl FnOnce(Vec<FrozenValue>) -> Items) -> Option<FrozenValue> {
        let place = Rc::as_ptr(list).cast::<()>() as usize;
        if let Some(known) = self.known(place) {
            return Some(known);
        }
        let items = list.items.iter().map(|item| self.value(item)).collect::<Option<Vec<_>>>()?;
        Some(self.add(place, of(items)))
    }

    fn known(&self, place: usize) -> Option<FrozenValue> {
        let found = self.known.iter().find(|(known, _)| *known == place)?;
        Some(FrozenValue::Items(found.1))
    }

    fn add(&mut self, place: usize, items: Items) -> FrozenValue {
        let at = self.items.len() as u32;
        self.items.push(items);
        self.known.push((place, at));
        FrozenValue::Items(at)
    }

    fn place(&self, node: &dyn Any) -> Option<InputPlace> {
        self.tracked.inputs.place(node)
    }

    fn copied(&mut self, text: &str) -> Option<Box<str>> {
        self.spend(text.len())?;
        Some(text.into())
    }

    fn text(&mut self, text: &Str<'a>) -> Option<FrozenText> {
        Some(match text {
            Str::Slice(slice) => match self.found_again(slice) {
                Some(found) => found,
                None => FrozenText::Slice { text: self.copied(slice.text)?, origin: self.origin(slice.origin)? },
            },
            Str::Joined(joined) => self.joined(joined)?,
        })
    }

    fn joined(&mut self, joined: &JoinedText) -> Option<FrozenText> {
        let (plain, runs, is_markup) = joined.parts();
        Some(FrozenText::Joined { text: self.copied(plain)?, runs: self.runs(runs)?, is_markup })
    }

    fn runs(&mut self, runs: &[Run]) -> Option<Vec<FrozenRun>> {
        self.spend(runs.len() * VALUE_BYTES)?;
        let mut frozen = Vec::with_capacity(runs.len());
        for run in runs {
            frozen.push(FrozenRun { origin: self.origin(run.origin)?, end: run.end, mark: self.mark(run.mark)? });
        }
        Some(frozen)
    }

    /// Returns where the text is in the program or in the inputs, if it need not be copied.
    fn found_again(&self, slice: &Slice<'a>) -> Option<FrozenText> {
        let is_part = |whole: &str, start: usize| {
            whole.get(start..start + slice.text.len()).is_some_and(|part| std::ptr::eq(part, slice.text))
        };
        match slice.origin {
            Origin::Literal { id, offset } => {
                let start = offset.get()?;
                let is_own = self.vm.literals.get(id as usize).is_some_and(|literal| is_part(literal, start));
                is_own.then_some(FrozenText::Literal { id, start, len: slice.text.len() })
            }
            Origin::Input { tag, offset } if slice.text.len() > COPIED_BYTES => {
                let start = offset.get()?;
                let place = self.tracked.inputs.tag_place(tag)?;
                let node = self.tracked.inputs.node(&place)?;
                match self.tracked.inputs.look(node).value {
                    InputValue::Str(whole) if is_part(whole, start) => {
                        Some(FrozenText::Input { place, start, len: slice.text.len() })
                    }
                    _ => None,
                }
            }
            Origin::Input { .. } | Origin::Engine => None,
        }
    }

    fn origin(&mut self, origin: Origin) -> Option<FrozenOrigin> {
        Some(match origin {
            Origin::Literal { id, offset } => FrozenOrigin::Literal { id, offset },
            Origin::Input { tag, offset } => self.input(tag, offset)?,
            Origin::Engine => FrozenOrigin::Engine,
        })
    }

    fn input(&mut self, tag: Tag, offset: Offset) -> Option<FrozenOrigin> {
        Some(FrozenOrigin::Input { place: self.tracked.inputs.tag_place(tag)?, offset })
    }

    /// Returns the number of a pass in the kept state.
    fn mark(&mut self, id: MarkId) -> Option<u32> {
        if !id.is_some() {
            return Some(0);
        }
        if let Some(known) = self.mark_ids.iter().rposition(|known| *known == id) {
            return Some(known as u32 + 1);
        }
        self.spend(VALUE_BYTES)?;
        let mark = self.vm.world.mark(id)?;
        let frozen = FrozenMark {
            outer: self.mark(mark.outer)?,
            loop_at: mark.loop_at,
            item: self.tracked.inputs.tag_place(mark.item)?,
            index: mark.index,
        };
        self.marks.push(frozen);
        self.mark_ids.push(id);
        Some(self.marks.len() as u32)
    }

    fn absence(&mut self, absence: &Absence<'a>) -> Option<FrozenAbsence> {
        Some(match absence {
            Absence::Variable(name) => FrozenAbsence::Variable(self.copied(name)?),
            Absence::Attribute(of, name) => FrozenAbsence::Attribute(*of, self.copied(name)?),
            Absence::Unsafe(of, name) => FrozenAbsence::Unsafe(*of, self.copied(name)?),
            Absence::Parameter(name) => FrozenAbsence::Parameter(self.copied(name)?),
            Absence::Hint(hint) => FrozenAbsence::Hint(hint),
            Absence::Words(words) => FrozenAbsence::Words(self.copied(words)?),
            Absence::UnsafeWords(words) => FrozenAbsence::UnsafeWords(self.copied(words)?),
        })
    }
}
