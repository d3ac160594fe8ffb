//! Takes up a state that was kept.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::super::loops::{LoopRun, LoopSource, LoopState};
use super::super::{SharedLoop, Vm, World};
use crate::error::{Fault, LimitKind, Res};
use crate::growth::{
    Checkpoint, FrozenAbsence, FrozenOrigin, FrozenText, FrozenValue, GrowingInputs, InputPlace, Items, TrackedList,
};
use crate::input::{InputValue, Tag};
use crate::output::{Mark, MarkId, Origin, Run};
use crate::value::dict::Dict;
use crate::value::iter::Iter;
use crate::value::text::{JoinedText, Slice, Str};
use crate::value::{Absence, InputItems, List, Macro, Range, Selection, Value};

struct Thawer<'t, 'a> {
    world: &'t World<'a>,
    inputs: &'a dyn GrowingInputs,
    literals: &'t [&'a str],
    items: Vec<Value<'a>>,
    running: Option<SharedLoop<'a>>,
}

/// The error if a value is not in the new inputs.
#[cold]
fn not_there() -> Fault {
    Fault::value("a value that an earlier rendering kept is not at hand")
}

impl<'a> Vm<'_, 'a> {
    /// Takes up a state. `after` is the state after the last stretch before it, for the same inputs.
    pub(super) fn thaw(
        &mut self,
        kept: &'a Checkpoint,
        after: Option<&Checkpoint>,
        tracked: &'a TrackedList<'a>,
    ) -> Res<()> {
        let world = self.world;
        let inputs = tracked.inputs;
        if !self.sink.count_before(kept.written) {
            return Err(Fault::limit(LimitKind::Output, world.limits.output_bytes));
        }
        for mark in &kept.marks {
            let item = inputs.place_tag(&mark.item).ok_or_else(not_there)?;
            world.restore_mark(Mark { outer: MarkId(mark.outer), loop_at: mark.loop_at, item, index: mark.index });
        }
        let mut thawer = Thawer { world, inputs, literals: &self.literals, items: Vec::new(), running: None };
        // A template cannot store the loop in a list before the loop exists, but it can later, so
        // the loop comes first. It holds only items of the caller's list.
        let list = inputs.growing();
        let rest = InputItems::selected(list, Selection { start: kept.next, step: 1, len: usize::MAX });
        let source = match &kept.running.shared {
            None if kept.running.is_over => LoopSource::Plain(Iter::Empty),
            None => LoopSource::Plain(Iter::InputList(rest)),
            Some(shared) => {
                let of = match kept.running.first {
                    0 => Value::of(world, list)?,
                    start => {
                        let all = Selection { start, step: 1, len: usize::MAX };
                        Value::input_part(world, InputItems::selected(list, all))?
                    }
                };
                let mut state = LoopState::resumed(Iter::InputList(rest), shared);
                if shared.is_indexed {
                    state.set_items(of);
                }
                let before = thawer.value(&shared.before)?;
                let current = thawer.value(&shared.current)?;
                let after = match &shared.after {
                    Some(after) => Some(Some(thawer.value(after)?)),
                    None => None,
                };
                state.set_around(before, current, after);
                let state: SharedLoop<'a> = Rc::new(RefCell::new(state));
                thawer.running = Some(Rc::clone(&state));
                LoopSource::Shared(state)
            }
        };
        for items in &kept.items {
            let value = thawer.items(items)?;
            thawer.items.push(value);
        }
        for entries in &kept.namespaces {
            let dict = thawer.dict(entries)?;
            world.new_namespace(dict)?;
        }
        for volatile in kept.volatiles.iter().filter(|volatile| volatile.is_kept) {
            let value = after.and_then(|after| after.number(volatile.key)).ok_or_else(not_there)?;
            world.renew_number(volatile.namespace, volatile.entry as usize, value);
        }
        world.volatiles().set(kept.volatiles.clone());
        for (slot, value) in &kept.slots {
            self.slots[*slot as usize] = thawer.value(value)?;
        }
        self.loops.push(LoopRun {
            source,
            passes: kept.running.passes,
            has_passed: kept.running.has_passed,
            busy_at: Cell::new(None),
            is_new: false,
        });
        world.begin_passes(kept.running.at);
        self.pc = kept.pc as usize;
        Ok(())
    }
}

impl<'a> Thawer<'_, 'a> {
    fn value(&self, value: &'a FrozenValue) -> Res<Value<'a>> {
        Ok(match value {
            FrozenValue::Missing => Value::Missing,
            FrozenValue::Undefined(absence) => Value::Undefined(match absence {
                FrozenAbsence::Variable(name) => Absence::Variable(name),
                FrozenAbsence::Attribute(of, name) => Absence::Attribute(*of, name),
                FrozenAbsence::Unsafe(of, name) => Absence::Unsafe(*of, name),
                FrozenAbsence::Parameter(name) => Absence::Parameter(name),
                FrozenAbsence::Hint(hint) => Absence::Hint(hint),
                FrozenAbsence::Words(words) => Absence::Words(Rc::from(&**words)),
                FrozenAbsence::UnsafeWords(words) => Absence::UnsafeWords(Rc::from(&**words)),
            }),
            FrozenValue::None => Value::None,
            FrozenValue::Bool(value) => Value::Bool(*value),
            FrozenValue::Int(value) => Value::Int(*value),
            FrozenValue::Big(value) => Value::Big(Rc::new(value.clone())),
            FrozenValue::Float(bits) => Value::Float(f64::from_bits(*bits)),
            FrozenValue::Str(text) => Value::Str(self.text(text)?),
            FrozenValue::Input(place) => Value::of_node(self.world, self.inputs.look(self.node(place)?))?,
            FrozenValue::InputPart(place, selection) => {
                Value::input_part(self.world, InputItems::selected(self.node(place)?, *selection))?
            }
            FrozenValue::Items(at) => self.items.get(*at as usize).cloned().ok_or_else(not_there)?,
            FrozenValue::Range { start, stop, step, len } => {
                Value::Range(Rc::new(Range { start: *start, stop: *stop, step: *step, len: *len }))
            }
            FrozenValue::Namespace(id) => Value::Namespace(*id),
            FrozenValue::Macro(routine) => Value::Macro(Rc::new(Macro { routine: *routine, frame: 0, depth: 0 })),
            FrozenValue::Function(function) => Value::Function(*function),
            FrozenValue::Loop => Value::Loop(self.running.clone().ok_or_else(not_there)?),
        })
    }

    fn items(&self, items: &'a Items) -> Res<Value<'a>> {
        let values = |items: &'a [FrozenValue]| items.iter().map(|item| self.value(item)).collect::<Res<Vec<_>>>();
        Ok(match items {
            Items::List(items) => Value::list(self.world, values(items)?)?,
            Items::Tuple(items) => Value::tuple(self.world, values(items)?)?,
            Items::Group(items) => Value::Tuple(Rc::new(List::group(self.world, values(items)?)?)),
            Items::Dict(entries) => self.dict(entries)?.into_value(),
        })
    }

    fn dict(&self, entries: &'a [(FrozenValue, FrozenValue)]) -> Res<Dict<'a>> {
        let mut dict = Dict::new(self.world)?;
        for (key, value) in entries {
            dict.insert(self.world, self.value(key)?, self.value(value)?)?;
        }
        Ok(dict)
    }

    fn node(&self, place: &InputPlace) -> Res<&'a dyn Any> {
        self.inputs.node(place).ok_or_else(not_there)
    }

    fn tag(&self, place: &InputPlace) -> Res<Tag> {
        self.inputs.place_tag(place).ok_or_else(not_there)
    }

    fn text(&self, text: &'a FrozenText) -> Res<Str<'a>> {
        Ok(match text {
            FrozenText::Literal { id, start, len } => {
                let whole = self.literals.get(*id as usize).copied().unwrap_or_default();
                let text = whole.get(*start..*start + *len).ok_or_else(not_there)?;
                Str::literal(text, *id, *start)
            }
            FrozenText::Input { place, start, len } => {
                let InputValue::Str(whole) = self.inputs.look(self.node(place)?).value else { return Err(not_there()) };
                let range = *start..*start + *len;
                if whole.get(range.clone()).is_none() {
                    return Err(not_there());
                }
                Str::input(whole, self.tag(place)?).slice(self.world, range)?
            }
            FrozenText::Slice { text, origin } => Str::Slice(Slice { text, origin: self.origin(origin)? }),
            FrozenText::Joined { text, runs, is_markup } => {
                let mut thawed = Vec::with_capacity(runs.len());
                for run in runs {
                    thawed.push(Run { origin: self.origin(&run.origin)?, end: run.end, mark: MarkId(run.mark) });
                }
                Str::Joined(Rc::new(JoinedText::restored(self.world, text.clone(), thawed.into(), *is_markup)?))
            }
        })
    }

    fn origin(&self, origin: &FrozenOrigin) -> Res<Origin> {
        Ok(match origin {
            FrozenOrigin::Literal { id, offset } => Origin::Literal { id: *id, offset: *offset },
            FrozenOrigin::Input { place, offset } => Origin::Input { tag: self.tag(place)?, offset: *offset },
            FrozenOrigin::Engine => Origin::Engine,
        })
    }
}
