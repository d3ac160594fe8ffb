//! Running loops and the `loop` variable.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use super::look::with_test;
use super::{SharedLoop, Vm, World};
use crate::compile::program::Op;
use crate::error::{Fault, Res};
use crate::growth::FrozenState;
use crate::input::{InputNode, InputValue};
use crate::parser::ast::NameId;
use crate::parser::known;
use crate::value::Value;
use crate::value::iter::{Iter, check_loop};

/// A running loop.
pub(super) struct LoopRun<'a> {
    pub(super) source: LoopSource<'a>,
    pub(super) passes: usize,
    /// Whether a pass was completed, in which case `else` is skipped.
    pub(super) has_passed: bool,
    /// Whether the loop has just begun.
    pub(super) is_new: bool,
    /// The namespaces' version at which a pass was found to do something.
    pub(super) busy_at: Cell<Option<u64>>,
}

pub(super) enum LoopSource<'a> {
    Plain(Iter<'a>),
    /// A loop whose body reads `loop`.
    Shared(Rc<RefCell<LoopState<'a>>>),
}

/// jinja2's `LoopContext`.
pub(crate) struct LoopState<'a> {
    iter: Iter<'a>,
    /// The sequence being iterated, if its items can be accessed by index.
    items: Option<Value<'a>>,
    length: Option<usize>,
    index0: i64,
    /// The previous and current items, if `items` is not set.
    before: Value<'a>,
    current: Value<'a>,
    /// The next item, if it was already fetched; `Some(None)` is the end.
    after: Option<Option<Value<'a>>>,
    depth0: u32,
    /// An upper bound on the nesting depth of the values. The items change, and a value that holds
    /// the loop does not recompute its depth.
    depth_of_values: u32,
    /// The index in [`World::changed`] of the last arguments of `loop.changed`.
    changed: Option<usize>,
    /// The routine and the outer frame of a recursive loop.
    pub(super) recursion: Option<(u32, u32)>,
    /// The routine and the frame of the test that the next items must pass.
    pub(super) test: Option<(u32, u32)>,
    /// Whether an item was taken whose test has not finished.
    is_testing: bool,
}

impl<'a> LoopState<'a> {
    pub(super) fn new(
        world: &World<'a>,
        of: &Value<'a>,
        iter: Iter<'a>,
        depth0: u32,
        recursion: Option<(u32, u32)>,
        test: Option<(u32, u32)>,
    ) -> LoopState<'a> {
        let length = match &iter {
            _ if test.is_some() => None,
            Iter::Generator(_) | Iter::Loop(_) | Iter::Ready(_) => None,
            // Computed on demand.
            Iter::Characters { .. } => None,
            // The length of a growing list is taken only where it is read.
            Iter::InputList(items) if items.is_open() => None,
            other => other.left(world),
        };
        LoopState {
            iter,
            items: (test.is_none() && of.is_sequence()).then(|| of.clone()),
            length,
            index0: -1,
            before: Value::Missing,
            current: Value::Missing,
            after: None,
            depth0,
            // Filters add at most this much depth to the items of a generator.
            depth_of_values: of.depth() + 5,
            changed: None,
            recursion,
            test,
            is_testing: false,
        }
    }

    pub(crate) fn index0(&self) -> i64 {
        self.index0
    }

    pub(super) fn depth(&self) -> u32 {
        self.depth0 + 1
    }

    pub(crate) fn depth_of_values(&self) -> u32 {
        self.depth_of_values
    }

    /// Makes the next item the current one and returns it.
    #[inline]
    pub(crate) fn advance(&mut self, world: &World<'a>) -> Res<Option<Value<'a>>> {
        if self.items.is_some() {
            let next = self.iter.next(world)?;
            self.index0 += i64::from(next.is_some());
            return Ok(next);
        }
        let next = match self.after.take() {
            Some(next) => next,
            None => self.next_of_all(world)?,
        };
        if let Some(item) = &next {
            self.count(item);
        }
        Ok(next)
    }

    fn count(&mut self, item: &Value<'a>) {
        self.index0 += 1;
        self.before = std::mem::replace(&mut self.current, item.clone());
    }

    /// Returns the next item of a loop without a test. With a test, only the machine can find it.
    fn next_of_all(&mut self, world: &World<'a>) -> Res<Option<Value<'a>>> {
        if self.test.is_some() {
            return Err(Fault::unsupported(
                "looking ahead in a loop with a test from inside a function is not supported",
            ));
        }
        self.iter.next(world)
    }

    /// Returns the next item for the loop statement, which then tests it unless it was already
    /// tested by looking ahead.
    #[inline]
    pub(super) fn take(&mut self, world: &World<'a>) -> Res<Option<Value<'a>>> {
        if self.test.is_none() || self.after.is_some() {
            return self.advance(world);
        }
        self.take_untested(world)
    }

    /// Returns the next item of a caller's list that can be accessed by index and has no test. This
    /// is what most loops run over.
    #[inline]
    pub(super) fn take_input(&mut self, world: &World<'a>) -> Option<InputNode<'a>> {
        match &mut self.iter {
            Iter::InputList(items) if self.items.is_some() => {
                let next = items.take_first(world)?;
                self.index0 += 1;
                Some(next)
            }
            _ => None,
        }
    }

    /// Returns the next item, which has not been tested.
    pub(super) fn take_untested(&mut self, world: &World<'a>) -> Res<Option<Value<'a>>> {
        let next = self.iter.next(world)?;
        self.is_testing = next.is_some();
        Ok(next)
    }

    /// Reports whether an item is being tested.
    pub(super) fn is_testing(&self) -> bool {
        self.is_testing
    }

    /// Ends the test of an item during a look ahead.
    pub(super) fn end_test(&mut self) {
        self.is_testing = false;
    }

    /// Makes the tested item the current one.
    pub(super) fn pass(&mut self, item: &Value<'a>) {
        self.is_testing = false;
        self.count(item);
    }

    /// Reports whether the next item is known, or available without a test.
    pub(super) fn knows_next(&self) -> bool {
        self.test.is_none() || self.after.is_some()
    }

    /// Sets the next item, as found by looking ahead.
    pub(super) fn set_next(&mut self, next: Option<Value<'a>>) {
        self.after = Some(next);
    }

    /// Sets all remaining items that pass the test, after the known next one.
    pub(super) fn set_rest(&mut self, rest: VecDeque<Value<'a>>) {
        self.test = None;
        self.iter = Iter::Ready(rest);
    }

    fn peek(&mut self, world: &World<'a>) -> Res<Option<&Value<'a>>> {
        if self.after.is_none() {
            self.after = Some(self.next_of_all(world)?);
        }
        Ok(self.after.as_ref().and_then(Option::as_ref))
    }

    pub(crate) fn length(&mut self, world: &World<'a>) -> Res<usize> {
        if let Some(length) = self.length {
            return Ok(length);
        }
        if let (Some(items), None) = (&self.items, &self.test) {
            let length = items.size(world).unwrap_or(0);
            self.length = Some(length);
            return Ok(length);
        }
        if self.test.is_some() {
            return Err(Fault::unsupported(
                "taking the length of a loop with a test from inside a function is not supported",
            ));
        }
        let done = (self.index0 + 1) as usize;
        let iter = std::mem::replace(&mut self.iter, Iter::Empty);
        let rest: VecDeque<Value<'a>> = iter.rest(world)?.into();
        let length = rest.len() + done + usize::from(matches!(self.after, Some(Some(_))));
        self.iter = Iter::Ready(rest);
        self.length = Some(length);
        Ok(length)
    }

    /// Returns an attribute that templates read in every pass, if it is known without looking at
    /// the next items.
    #[inline]
    pub(super) fn quick_attribute(&self, name: u32) -> Option<Value<'a>> {
        Some(match NameId(name) {
            known::INDEX0 => Value::Int(self.index0),
            known::INDEX => Value::Int(self.index0 + 1),
            known::FIRST => Value::Bool(self.index0 == 0),
            known::LAST => Value::Bool(self.index0 + 1 >= self.length? as i64),
            _ => return None,
        })
    }

    pub(crate) fn attribute(&mut self, world: &World<'a>, name: &str) -> Res<Option<Value<'a>>> {
        let quick = match name {
            "first" => self.quick_attribute(known::FIRST.0),
            "last" => self.quick_attribute(known::LAST.0),
            "index" => self.quick_attribute(known::INDEX.0),
            "index0" => self.quick_attribute(known::INDEX0.0),
            _ => None,
        };
        if quick.is_some() {
            return Ok(quick);
        }
        let index0 = self.index0;
        Ok(Some(match name {
            "last" if self.items.is_some() => Value::Bool(self.following(world)?.is_none()),
            "last" => Value::Bool(self.peek(world)?.is_none()),
            "length" => Value::length(self.length(world)?),
            "revindex" => Value::Int(self.length(world)? as i64 - index0),
            "revindex0" => Value::Int(self.length(world)? as i64 - index0 - 1),
            "previtem" if index0 == 0 => Value::undefined("there is no previous item"),
            "previtem" => match &self.items {
                Some(items) => items.item_at(world, (index0 - 1).max(0) as usize)?.unwrap_or(Value::None),
                None => self.before.clone(),
            },
            "nextitem" if self.items.is_some() => {
                self.following(world)?.unwrap_or(Value::undefined("there is no next item"))
            }
            "nextitem" => match self.peek(world)? {
                Some(next) => next.clone(),
                None => Value::undefined("there is no next item"),
            },
            "depth" => Value::Int(i64::from(self.depth0) + 1),
            "depth0" => Value::Int(i64::from(self.depth0)),
            _ => return Ok(None),
        }))
    }

    /// Returns the next item of a sequence that can be accessed by index.
    fn following(&self, world: &World<'a>) -> Res<Option<Value<'a>>> {
        self.items.as_ref().map_or(Ok(None), |items| items.item_at(world, (self.index0 + 1) as usize))
    }

    /// Returns where the last arguments of `loop.changed` are stored. They live in the world, since
    /// they may hold the loop itself.
    pub(crate) fn changed_place(&mut self, world: &World<'a>) -> usize {
        *self.changed.get_or_insert_with(|| {
            let mut changed = world.changed.borrow_mut();
            changed.push(Value::Missing);
            changed.len() - 1
        })
    }
}

/// The state of a loop over the growing list, as far as it is kept.
pub(super) struct KeptState<'s, 'a> {
    pub(super) index0: i64,
    pub(super) depth0: u32,
    pub(super) depth_of_values: u32,
    pub(super) before: &'s Value<'a>,
    pub(super) current: &'s Value<'a>,
    pub(super) after: Option<&'s Value<'a>>,
    /// The index of the first item of the loop, if items can be accessed by index.
    pub(super) first: Option<usize>,
    pub(super) test: Option<(u32, u32)>,
    pub(super) is_testing: bool,
}

impl<'a> LoopState<'a> {
    /// Returns the index of the next item in the growing list.
    pub(super) fn open_start(&self) -> Option<usize> {
        match &self.iter {
            Iter::InputList(items) => items.open_start(),
            _ => None,
        }
    }

    /// Reports whether the next item is taken from the iterator as it is.
    pub(super) fn is_plain(&self) -> bool {
        self.test.is_none() && self.after.is_none() && !self.is_testing
    }

    pub(super) fn iter(&self) -> &Iter<'a> {
        &self.iter
    }

    /// Returns the state to keep, or `None` if it depends on the end of the list.
    pub(super) fn kept(&self) -> Option<KeptState<'_, 'a>> {
        let first = match &self.items {
            Some(Value::InputList(..)) => Some(0),
            Some(Value::InputPart(part)) => Some(part.items.open_start()?),
            Some(_) => return None,
            None => None,
        };
        let after = match &self.after {
            Some(None) => return None,
            Some(Some(after)) => Some(after),
            None => None,
        };
        if self.length.is_some() || self.changed.is_some() || self.recursion.is_some() {
            return None;
        }
        Some(KeptState {
            index0: self.index0,
            depth0: self.depth0,
            depth_of_values: self.depth_of_values,
            before: &self.before,
            current: &self.current,
            after,
            first,
            test: self.test,
            is_testing: self.is_testing,
        })
    }

    /// Takes up a state that was kept, without its values.
    pub(super) fn resumed(iter: Iter<'a>, kept: &FrozenState) -> LoopState<'a> {
        LoopState {
            iter,
            items: None,
            length: None,
            index0: kept.index0,
            before: Value::Missing,
            current: Value::Missing,
            after: None,
            depth0: kept.depth0,
            depth_of_values: kept.depth_of_values,
            changed: None,
            recursion: None,
            test: kept.test.map(|routine| (routine, 0)),
            is_testing: kept.is_testing,
        }
    }

    /// Sets the list whose items can be accessed by index.
    pub(super) fn set_items(&mut self, items: Value<'a>) {
        self.items = Some(items);
    }

    /// Sets the previous and the current item, and the next one if it was already fetched.
    pub(super) fn set_around(&mut self, before: Value<'a>, current: Value<'a>, after: Option<Option<Value<'a>>>) {
        (self.before, self.current, self.after) = (before, current, after);
    }
}

impl<'a> Vm<'_, 'a> {
    pub(super) fn begin_loop(&mut self, site: u32) -> Res<()> {
        let world = self.world;
        let site = self.program.loops[site as usize];
        let value = self.pop();
        if let Some(state) = with_test(&value) {
            self.look_to_end(&state)?;
        }
        let iter = Iter::new(world, &value)?;
        let source = match site.slot {
            None => LoopSource::Plain(iter),
            Some(slot) => {
                world.work(256)?;
                let mut depth = 0;
                let mut recursion = None;
                if let (Some(routine), Some(call)) = (site.routine, self.calls.last()) {
                    depth = call.depth;
                    recursion = Some((routine, self.frames[self.frame as usize].parent));
                    self.keep_frames(self.frames[self.frame as usize].parent);
                }
                let test = site.test.map(|routine| (routine, self.frame));
                let state: SharedLoop<'a> =
                    Rc::new(RefCell::new(LoopState::new(world, &value, iter, depth, recursion, test)));
                self.slots[slot as usize] = Value::Loop(Rc::clone(&state));
                LoopSource::Shared(state)
            }
        };
        self.loops.push(LoopRun { source, passes: 0, has_passed: false, is_new: true, busy_at: Cell::new(None) });
        world.begin_passes(site.at);
        Ok(())
    }

    /// Begins the next pass of the running loop with its item, or ends the loop. Returns true if
    /// nothing else is to be rendered.
    #[inline(always)]
    pub(super) fn next_pass(&mut self, end: u32) -> Res<bool> {
        let world = self.world;
        if self.recorder.is_some() {
            if self.at_top() {
                return Ok(true);
            }
            if self.is_idle() {
                self.pc = end as usize;
                return Ok(false);
            }
        }
        let Some(run) = self.loops.last_mut() else { return Ok(false) };
        // The common case: a loop over a list of the caller's.
        let found = match &mut run.source {
            LoopSource::Plain(Iter::InputList(items)) => items.take_first(world),
            LoopSource::Shared(state) => state.borrow_mut().take_input(world),
            LoopSource::Plain(_) => None,
        };
        if let Some(InputNode { node, value: InputValue::Dict, tag }) = found {
            world.begin_pass(Some(tag), run.passes);
            run.passes += 1;
            check_loop(world, run.passes)?;
            match self.program.ops.get(self.pc) {
                Some(Op::Store(slot)) => {
                    self.slots[*slot as usize] = Value::InputDict(node, tag);
                    self.pc += 1;
                }
                _ => self.stack.push_input_dict(node, tag),
            }
            return Ok(false);
        }
        let next = match (found, &mut run.source) {
            (Some(found), _) => Some(Value::of_node(world, found)?),
            (None, LoopSource::Plain(iter)) => iter.next(world)?,
            (None, LoopSource::Shared(state)) => state.borrow_mut().take(world)?,
        };
        match next {
            Some(item) => {
                world.begin_pass(item.tag(), run.passes);
                run.passes += 1;
                check_loop(world, run.passes)?;
                self.stack.push(item);
            }
            None if self.recorder.is_some() && self.at_end(end) => return Ok(true),
            None => self.pc = end as usize,
        }
        Ok(false)
    }

    /// Ends the loop and reports whether a pass was completed.
    pub(super) fn end_loop(&mut self) -> bool {
        self.world.end_passes();
        let Some(run) = self.loops.pop() else { return false };
        if let LoopSource::Shared(state) = &run.source
            && Rc::strong_count(state) > 2
            && state.borrow().test.is_some()
        {
            // The loop is referenced elsewhere and may need to look ahead later.
            self.keep_frames(self.frame);
        }
        run.has_passed
    }

    fn keep_frames(&mut self, from: u32) {
        let mut frame = from;
        while !self.frames[frame as usize].is_kept {
            self.frames[frame as usize].is_kept = true;
            frame = self.frames[frame as usize].parent;
        }
    }
}
