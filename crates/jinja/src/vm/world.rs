//! The shared state of one rendering: its budget, its clock, its namespaces and its position in
//! loops.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::clock::Clock;
use crate::compile::program::Program;
use crate::error::{Fault, LimitKind, Res};
use crate::input::{Inputs, Tag};
use crate::limits::{Limits, Meter};
use crate::output::{Mark, MarkId};
use crate::parser::ast::CompareOp;
use crate::template::Environment;
use crate::value::dict::Dict;
use crate::value::text::Str;
use crate::value::{Macro, Value};

use super::growth::volatile::Volatiles;

pub(crate) struct World<'a> {
    pub(crate) limits: &'a Limits,
    pub(crate) meter: Rc<Meter>,
    pub(crate) clock: Option<&'a dyn Clock>,
    pub(crate) program: &'a Program,
    pub(crate) inputs: &'a dyn Inputs,
    /// The address of the list that may get more items, or 0.
    growing: usize,
    interrupted: Option<&'a dyn Fn() -> bool>,
    /// Fuel until the next check of the deadline.
    chunk: Cell<u64>,
    namespaces: RefCell<Vec<Dict<'a>>>,
    /// How often an attribute of one was set.
    namespace_version: Cell<u64>,
    pub(super) volatiles: Volatiles,
    /// The last arguments of `loop.changed`, one entry for each loop.
    pub(crate) changed: RefCell<Vec<Value<'a>>>,
    marks: RefCell<Vec<Mark>>,
    passes: RefCell<Vec<Pass>>,
    mark: Cell<MarkId>,
    is_mark_old: Cell<bool>,
    /// The address of a caller's dict known to be small, since the next lookup is usually in the
    /// same dict.
    small: Cell<usize>,
}

/// Returns the address of a caller's value, which identifies it during a rendering.
pub(crate) fn address(node: &dyn Any) -> usize {
    std::ptr::from_ref(node).cast::<()>() as usize
}

/// A pass of a running loop. It gets a number when something is written in it.
#[derive(Clone, Copy)]
struct Pass {
    id: MarkId,
    loop_at: u32,
    item: Option<Tag>,
    index: u32,
}

/// The fuel for a step. Each byte that an operation processes takes 1.
const STEP: u64 = 16;

/// The fuel for recording a loop pass.
const MARK: u64 = 128;

/// The fuel consumed between two checks of the deadline.
const CHUNK: u64 = 4096 * STEP;

impl<'a> World<'a> {
    pub(crate) fn new(
        program: &'a Program,
        inputs: &'a dyn Inputs,
        growing: Option<&'a dyn Any>,
        environment: &'a Environment<'a>,
    ) -> World<'a> {
        let limits = &environment.limits;
        let fuel = limits.instructions.saturating_mul(STEP);
        let meter = Meter::new(limits.live_bytes, fuel, limits.instructions);
        let chunk = meter.take_fuel(CHUNK);
        World {
            limits,
            meter: Rc::new(meter),
            clock: environment.clock,
            program,
            inputs,
            growing: growing.map_or(0, address),
            interrupted: environment.interrupted,
            chunk: Cell::new(chunk),
            namespaces: RefCell::default(),
            namespace_version: Cell::new(0),
            volatiles: Volatiles::default(),
            changed: RefCell::default(),
            marks: RefCell::new(Vec::with_capacity(16)),
            passes: RefCell::default(),
            mark: Cell::default(),
            is_mark_old: Cell::new(false),
            small: Cell::new(0),
        }
    }

    /// Reports whether a list may get more items (see [`crate::growth`]).
    #[inline]
    pub(crate) fn grows(&self, list: &'a dyn Any) -> bool {
        address(list) == self.growing
    }

    /// Charges for a key lookup in a caller's dict, which may be a linear search.
    #[inline]
    pub(crate) fn charge_search(&self, dict: &'a dyn Any) -> Res<()> {
        let place = address(dict);
        if place == self.small.get() {
            return Ok(());
        }
        let length = self.inputs.len(dict);
        if length > 32 {
            return self.work(length * 8);
        }
        self.small.set(place);
        Ok(())
    }

    /// Charges for one step of the program.
    #[inline(always)]
    pub(crate) fn step(&self) -> Res<()> {
        self.burn(STEP)
    }

    /// Charges for processing this many bytes.
    #[inline]
    pub(crate) fn work(&self, bytes: usize) -> Res<()> {
        self.burn(bytes as u64)
    }

    #[inline(always)]
    fn burn(&self, fuel: u64) -> Res<()> {
        let chunk = self.chunk.get();
        if chunk >= fuel {
            self.chunk.set(chunk - fuel);
            return Ok(());
        }
        self.next_chunk(fuel)
    }

    #[cold]
    fn next_chunk(&self, fuel: u64) -> Res<()> {
        if self.interrupted.is_some_and(|interrupted| interrupted()) {
            return Err(Fault::limit(LimitKind::Deadline, 0));
        }
        let wanted = fuel - self.chunk.replace(0);
        self.meter.burn(wanted)?;
        self.chunk.set(self.meter.take_fuel(CHUNK));
        Ok(())
    }

    /// Consumes fuel where an error cannot be returned. If too little is left, the next step fails.
    fn spend(&self, fuel: u64) {
        let chunk = self.chunk.get();
        if chunk >= fuel {
            self.chunk.set(chunk - fuel);
        } else {
            self.chunk.set(0);
            self.meter.take_fuel(fuel - chunk);
        }
    }

    /// Returns the number of steps taken so far, rounded up.
    pub(super) fn steps(&self) -> u64 {
        let left = self.meter.fuel_left().saturating_add(self.chunk.get());
        self.limits.instructions.saturating_mul(STEP).saturating_sub(left).div_ceil(STEP)
    }

    pub(crate) fn new_namespace(&self, attributes: Dict<'a>) -> Res<Value<'a>> {
        let mut namespaces = self.namespaces.borrow_mut();
        namespaces.push(attributes);
        Ok(Value::Namespace(namespaces.len() as u32 - 1))
    }

    /// Reads an attribute of a namespace.
    #[inline]
    pub(crate) fn with_attribute<T>(&self, id: u32, name: &str, read: impl FnOnce(&Value<'a>) -> T) -> Option<T> {
        if self.volatiles.are_some() {
            self.note_read(id, name);
        }
        self.namespaces.borrow()[id as usize].get_str(name).map(read)
    }

    pub(crate) fn namespace_get(&self, id: u32, name: &str) -> Option<Value<'a>> {
        self.with_attribute(id, name, Value::clone)
    }

    #[cold]
    fn note_read(&self, id: u32, name: &str) {
        if let Some((entry, value)) = self.number_in(id, name) {
            self.volatiles.note_read(id, entry, value);
        }
    }

    /// Notes that an attribute is only compared with a number, to the right of it. Returns the
    /// attribute if it is a number.
    #[cold]
    pub(super) fn compared(&self, id: u32, name: &str, op: CompareOp, other: i64) -> Option<i64> {
        let (entry, value) = self.number_in(id, name)?;
        self.volatiles.note_compared(id, entry, value, op, other);
        Some(value)
    }

    fn number_in(&self, id: u32, name: &str) -> Option<(usize, i64)> {
        let namespaces = self.namespaces.borrow();
        let namespace = namespaces.get(id as usize)?;
        let entry = namespace.place_str(name)?;
        match namespace.entries()[entry].1 {
            Value::Int(value) => Some((entry, value)),
            _ => None,
        }
    }

    /// Sets a number to its value for a longer list.
    pub(super) fn renew_number(&self, id: u32, entry: usize, value: i64) {
        if let Some(namespace) = self.namespaces.borrow_mut().get_mut(id as usize) {
            namespace.set_number(entry, value);
        }
    }

    /// Returns how often an attribute of a namespace was set.
    pub(super) fn namespace_version(&self) -> u64 {
        self.namespace_version.get()
    }

    pub(crate) fn namespace_set(&self, id: u32, name: &'a str, value: Value<'a>) -> Res<()> {
        self.namespace_version.set(self.namespace_version.get() + 1);
        crate::builtins::functions::check_attribute(name)?;
        let key = crate::builtins::functions::name_value(name);
        let mut namespaces = self.namespaces.borrow_mut();
        let namespace = &mut namespaces[id as usize];
        if self.volatiles.are_some()
            && let Some(entry) = namespace.place_str(name)
        {
            self.volatiles.note_set(id, entry);
        }
        match namespace.get_str_mut(name) {
            Some(place) => {
                self.check_depth(value.depth() + 1)?;
                *place = value;
                Ok(())
            }
            None => namespace.insert(self, key, value),
        }
    }

    /// Reads all attributes of a namespace.
    pub(crate) fn namespace_entries(&self, id: u32) -> Vec<(Value<'a>, Value<'a>)> {
        if self.volatiles.are_some() {
            let namespaces = self.namespaces.borrow();
            for (entry, (_, value)) in namespaces[id as usize].entries().iter().enumerate() {
                if let Value::Int(value) = value {
                    self.volatiles.note_read(id, entry, *value);
                }
            }
        }
        self.kept_entries(id)
    }

    /// Returns all attributes of a namespace, to keep them.
    pub(super) fn kept_entries(&self, id: u32) -> Vec<(Value<'a>, Value<'a>)> {
        self.namespaces.borrow()[id as usize].entries().to_vec()
    }

    pub(crate) fn macro_name(&self, routine: u32) -> Option<&'a str> {
        Some(self.program.name(self.program.routines[routine as usize].name?))
    }

    pub(crate) fn macro_attribute(&self, found: &Macro, name: &str) -> Res<Option<Value<'a>>> {
        let routine = &self.program.routines[found.routine as usize];
        let of_name = |id: u32| {
            Value::Str(Str::Slice(crate::value::text::Slice {
                text: self.program.name(id),
                origin: crate::Origin::Engine,
            }))
        };
        Ok(Some(match name {
            "name" => routine.name.map_or(Value::None, of_name),
            "arguments" => Value::tuple(self, routine.params.iter().map(|param| of_name(*param)).collect())?,
            "catch_kwargs" => Value::Bool(routine.kwargs_slot.is_some()),
            "catch_varargs" => Value::Bool(routine.varargs_slot.is_some()),
            "caller" => Value::Bool(routine.caller_slot.is_some()),
            "explicit_caller" => Value::Bool(routine.params.contains(&crate::parser::known::CALLER.0)),
            _ => return Ok(None),
        }))
    }

    // Loop passes: which pass of which loop writes the output.

    pub(super) fn begin_passes(&self, loop_at: u32) {
        let outer = Pass { id: MarkId(0), loop_at, item: None, index: 0 };
        self.passes.borrow_mut().push(outer);
    }

    #[inline]
    pub(super) fn begin_pass(&self, item: Option<Tag>, index: usize) {
        if let Some(pass) = self.passes.borrow_mut().last_mut() {
            pass.id = MarkId(0);
            pass.item = item;
            pass.index = index as u32;
            self.is_mark_old.set(true);
        }
    }

    pub(super) fn end_passes(&self) {
        self.passes.borrow_mut().pop();
        self.is_mark_old.set(true);
    }

    /// Returns the innermost pass over an input value.
    #[inline]
    pub(crate) fn current_mark(&self) -> MarkId {
        if self.is_mark_old.get() {
            self.renew_mark();
        }
        self.mark.get()
    }

    fn renew_mark(&self) {
        self.is_mark_old.set(false);
        let mut passes = self.passes.borrow_mut();
        let mut marks = self.marks.borrow_mut();
        // Passes get their numbers from the outside in.
        let known = passes.iter().rposition(|pass| pass.id.is_some());
        let mut outer = known.map_or(MarkId(0), |at| passes[at].id);
        for pass in &mut passes[known.map_or(0, |at| at + 1)..] {
            if let Some(item) = pass.item {
                // Recorded passes are not counted as memory, since fuel bounds their number.
                self.spend(MARK);
                marks.push(Mark { outer, loop_at: pass.loop_at, item, index: pass.index });
                pass.id = MarkId(marks.len() as u32);
                outer = pass.id;
            }
        }
        self.mark.set(outer);
    }

    /// Reports whether a pass ran inside another one.
    pub(super) fn is_inside(&self, inner: MarkId, outer: MarkId) -> bool {
        let marks = self.marks.borrow();
        let mut next = inner;
        while next.is_some() {
            if next == outer {
                return true;
            }
            self.spend(4);
            next = marks[next.0 as usize - 1].outer;
        }
        false
    }

    /// Returns the tags of the input values that the active loops are at, innermost first.
    pub(super) fn current_items(&self) -> Vec<Tag> {
        self.passes.borrow().iter().rev().filter_map(|pass| pass.item).collect()
    }

    /// Returns the position of the tag of the innermost running loop.
    pub(super) fn innermost_loop(&self) -> Option<u32> {
        self.passes.borrow().last().map(|pass| pass.loop_at)
    }

    /// Returns the pass with a number.
    pub(super) fn mark(&self, id: MarkId) -> Option<Mark> {
        self.marks.borrow().get((id.0 as usize).checked_sub(1)?).copied()
    }

    /// Records a pass of an earlier rendering.
    pub(super) fn restore_mark(&self, mark: Mark) -> MarkId {
        let mut marks = self.marks.borrow_mut();
        marks.push(mark);
        MarkId(marks.len() as u32)
    }

    pub(super) fn take_marks(&self) -> Vec<Mark> {
        self.marks.take()
    }
}
