//! Passes of a loop that do nothing, whatever their item is.
//!
//! Some templates search for a message from the end on, and go on to the first message after they
//! found it. From then on, each pass only finds out that nothing is to do. Such a pass is proved to
//! do nothing, to raise no error and to be like all that follow, so the loop ends there.

use std::rc::Rc;

use super::super::Vm;
use super::super::loops::LoopSource;
use crate::compile::program::{Field, KeyOf, Op};
use crate::parser::ast::{BinaryOp, NameId};
use crate::parser::known;
use crate::value::Value;
use crate::value::iter::Iter;

/// The most steps of a pass that is looked at.
const MOST_STEPS: usize = 200;

/// A value of a pass.
#[derive(Clone)]
enum Guess<'a> {
    /// It is the same in every pass.
    Known(Value<'a>),
    /// An integer that may be another one in every pass.
    Number,
    /// Something else, which is not looked at.
    Item,
}

/// A pass with any item.
struct Pass<'v, 'w, 'a> {
    vm: &'v Vm<'w, 'a>,
    /// The position of the loop's step.
    top: usize,
    pc: usize,
    stack: Vec<Guess<'a>>,
    /// The slots that were set.
    slots: Vec<(u32, Guess<'a>)>,
}

impl<'a> Vm<'_, 'a> {
    /// Reports whether no more passes of the running loop need to run. It must be a loop over some
    /// items of the growing list.
    #[cold]
    pub(in super::super) fn is_idle(&self) -> bool {
        let Some(run) = self.loops.last() else { return false };
        let state = match &run.source {
            LoopSource::Shared(state) => Some(state),
            LoopSource::Plain(_) => None,
        };
        let is_closed = |iter: &Iter<'a>| match iter {
            Iter::InputList(items) => !items.is_open() && self.world.grows(items.selection().0),
            _ => false,
        };
        let is_closed = match &run.source {
            LoopSource::Plain(iter) => is_closed(iter),
            LoopSource::Shared(state) => {
                state.try_borrow().is_ok_and(|state| state.is_plain() && is_closed(state.iter()))
            }
        };
        if !is_closed || self.calls.len() != 1 || run.passes == 0 {
            return false;
        }
        // What a pass does with any item depends on the namespaces alone, once one was completed.
        let version = self.world.namespace_version();
        if run.busy_at.get() == Some(version) {
            return false;
        }
        let Some(top) = self.pc.checked_sub(1) else { return false };
        let live = self.program.live();
        if let Some(state) = state {
            let is_it =
                |slot: &u32| matches!(&self.slots[*slot as usize], Value::Loop(other) if Rc::ptr_eq(state, other));
            // The loop's own reference, and that of its variable.
            if Rc::strong_count(state) > 2 || live.at(top, true).iter().any(is_it) {
                return false;
            }
        }
        let mut pass = Pass { vm: self, top, pc: self.pc, stack: vec![Guess::Item], slots: Vec::new() };
        let does_nothing = (0..MOST_STEPS).find_map(|_| pass.step()).unwrap_or(false);
        // What the pass sets is set again before it is read.
        let is_live = |slot: u32| live.at(top, false).contains(&slot) || live.at(top, true).contains(&slot);
        let is_idle = does_nothing && !pass.slots.iter().any(|(slot, _)| is_live(*slot));
        if !is_idle {
            run.busy_at.set(Some(version));
        }
        is_idle
    }
}

impl<'a> Pass<'_, '_, 'a> {
    /// Takes a step. Returns whether the pass does nothing, once that is known.
    fn step(&mut self) -> Option<bool> {
        if self.pc == self.top {
            return Some(self.stack.is_empty());
        }
        match self.try_step() {
            Some(()) => None,
            None => Some(false),
        }
    }

    fn try_step(&mut self) -> Option<()> {
        let op = *self.vm.program.ops.get(self.pc)?;
        self.pc += 1;
        match op {
            Op::None => self.push(Value::None),
            Op::True => self.push(Value::Bool(true)),
            Op::False => self.push(Value::Bool(false)),
            Op::Int(value) => self.push(Value::Int(value)),
            Op::Literal(id) => self.push(Value::Str(crate::value::text::Str::Slice(self.vm.literal(id)))),
            Op::Slot(slot, _) => {
                let guess = self.slot(slot)?;
                self.stack.push(guess);
            }
            // It was looked up in an earlier pass.
            Op::Global(global) => match self.vm.globals.get(global as usize)? {
                Value::Missing => return None,
                value => self.push(value.clone()),
            },
            Op::Store(slot) => {
                let guess = self.stack.pop()?;
                self.set(slot, guess);
            }
            Op::StoreLiteral(id, slot) => {
                let value = Value::Str(crate::value::text::Str::Slice(self.vm.literal(id)));
                self.set(slot, Guess::Known(value));
            }
            Op::StoreField(field, slot) => {
                let guess = self.field(field)?;
                self.set(slot, guess);
            }
            Op::Clear(slot) => self.set(slot, Guess::Known(Value::Missing)),
            Op::Alias { slot, up: 0, from } => {
                let guess = match self.slot(from) {
                    Some(guess) => guess,
                    None => Guess::Known(Value::Missing),
                };
                self.set(slot.into(), guess);
            }
            Op::Field(field) => {
                let guess = self.field(field)?;
                self.stack.push(guess);
            }
            Op::Length => match self.stack.pop()? {
                Guess::Known(list) if list.is_list() => self.stack.push(Guess::Number),
                _ => return None,
            },
            Op::Binary(BinaryOp::Add | BinaryOp::Sub) => match (self.stack.pop()?, self.stack.pop()?) {
                (Guess::Number | Guess::Known(Value::Int(_)), Guess::Number | Guess::Known(Value::Int(_))) => {
                    self.stack.push(Guess::Number);
                }
                _ => return None,
            },
            Op::Pop => drop(self.stack.pop()?),
            Op::Not => {
                let holds = self.known_truth()?;
                self.push(Value::Bool(!holds));
            }
            Op::Jump(target) => self.pc = target as usize,
            Op::TruthStack => self.decide_on_top()?,
            Op::TruthSlot(slot) => {
                let guess = self.slot(slot)?;
                self.stack.push(guess);
                self.decide_on_top()?;
            }
            Op::TruthField(field) => {
                let guess = self.field(field)?;
                self.stack.push(guess);
                self.decide_on_top()?;
            }
            Op::And(target) => self.jump_if(false, target as usize)?,
            Op::Or(target) => self.jump_if(true, target as usize)?,
            // The pass before this one was completed.
            Op::LoopPassed => self.vm.loops.last()?.has_passed.then_some(())?,
            _ => return None,
        }
        Some(())
    }

    /// Decides on the value at the top of the stack.
    fn decide_on_top(&mut self) -> Option<()> {
        let holds = self.known_truth()?;
        self.decide(holds)
    }

    /// Jumps if the truth of the top of the stack is `holds`, and removes the top otherwise.
    fn jump_if(&mut self, holds: bool, target: usize) -> Option<()> {
        match self.top_truth()? == holds {
            true => self.pc = target,
            false => _ = self.stack.pop(),
        }
        Some(())
    }

    fn push(&mut self, value: Value<'a>) {
        self.stack.push(Guess::Known(value));
    }

    fn set(&mut self, slot: u32, guess: Guess<'a>) {
        self.slots.push((slot, guess));
    }

    fn slot(&self, slot: u32) -> Option<Guess<'a>> {
        if let Some((_, guess)) = self.slots.iter().rfind(|(known, _)| *known == slot) {
            return match guess {
                Guess::Known(Value::Missing) => None,
                guess => Some(guess.clone()),
            };
        }
        // A variable that is live before a pass is not set in one.
        match self.vm.slots.get(slot as usize)? {
            value @ (Value::Namespace(_) | Value::Bool(_) | Value::None | Value::Loop(_)) if self.is_constant(slot) => {
                Some(Guess::Known(value.clone()))
            }
            _ => None,
        }
    }

    fn is_constant(&self, slot: u32) -> bool {
        self.vm.program.live().at(self.top, false).contains(&slot)
    }

    /// Returns an attribute of a namespace or of this loop.
    fn field(&self, field: Field) -> Option<Guess<'a>> {
        let KeyOf::Name(name) = field.key.of() else { return None };
        match self.slot(field.slot.into())? {
            Guess::Known(Value::Namespace(id)) => {
                let value = self.vm.world.namespace_get(id, self.vm.program.name(name))?;
                match value {
                    Value::Bool(_) | Value::None | Value::Int(_) => Some(Guess::Known(value)),
                    _ => None,
                }
            }
            Guess::Known(Value::Loop(state)) => match &self.vm.loops.last()?.source {
                LoopSource::Shared(running) if Rc::ptr_eq(running, &state) => match NameId(name) {
                    known::INDEX0 | known::INDEX => Some(Guess::Number),
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns the truth of a value that is the same in every pass.
    fn truth(guess: &Guess<'a>) -> Option<bool> {
        match guess {
            Guess::Known(Value::Bool(value)) => Some(*value),
            Guess::Known(Value::Int(value)) => Some(*value != 0),
            Guess::Known(Value::None) => Some(false),
            _ => None,
        }
    }

    fn known_truth(&mut self) -> Option<bool> {
        Pass::truth(&self.stack.pop()?)
    }

    fn top_truth(&self) -> Option<bool> {
        Pass::truth(self.stack.last()?)
    }

    /// Executes the step after a condition.
    fn decide(&mut self, holds: bool) -> Option<()> {
        let next = *self.vm.program.ops.get(self.pc)?;
        self.pc += 1;
        match next {
            Op::JumpUnless(target) if !holds => self.pc = target as usize,
            Op::JumpWhen(target) if holds => self.pc = target as usize,
            Op::JumpUnless(_) | Op::JumpWhen(_) => {}
            Op::PushFlag(wanted) => self.push(Value::Bool(holds == wanted)),
            _ => return None,
        }
        Some(())
    }
}
