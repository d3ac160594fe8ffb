//! Running loops, and what `loop` knows.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use super::World;
use crate::error::{Fault, Res};
use crate::value::Value;
use crate::value::iter::Iter;

/// A loop that runs.
pub(super) struct LoopRun<'a> {
    pub(super) source: Source<'a>,
    pub(super) passes: usize,
    /// Whether a pass came to its end, so that there is no `else`.
    pub(super) has_passed: bool,
}

pub(super) enum Source<'a> {
    Plain(Iter<'a>),
    /// One whose body reads `loop`.
    Shared(Rc<RefCell<LoopState<'a>>>),
}

/// jinja2's `LoopContext`.
pub(crate) struct LoopState<'a> {
    iter: Iter<'a>,
    /// What it goes through, where its items can be had by number.
    items: Option<Value<'a>>,
    length: Option<usize>,
    index0: i64,
    /// The item before and the current one, where they can not.
    before: Value<'a>,
    current: Value<'a>,
    /// The next item, where it was looked at already; `Some(None)` is the end.
    after: Option<Option<Value<'a>>>,
    depth0: u32,
    /// Values inside values, at most: the items change, and what holds the loop does not look again.
    depth_of_values: u32,
    /// Where [`World::changed`] keeps what `loop.changed` was called with last.
    changed: Option<usize>,
    /// The routine and the outer frame of a recursive loop.
    pub(super) recursion: Option<(u32, u32)>,
    /// The routine and the frame of a test that the next items have still to pass.
    pub(super) test: Option<(u32, u32)>,
    /// An item was taken whose test is not over.
    is_testing: bool,
}

impl<'a> LoopState<'a> {
    pub(super) fn new(
        of: &Value<'a>,
        iter: Iter<'a>,
        depth0: u32,
        recursion: Option<(u32, u32)>,
        test: Option<(u32, u32)>,
    ) -> LoopState<'a> {
        let length = match &iter {
            _ if test.is_some() => None,
            Iter::Generator(_) | Iter::Loop(_) | Iter::Ready(_) => None,
            // Counted when it is asked for.
            Iter::Characters { .. } => None,
            other => other.left(),
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
            // What filters make of the items of a generator is at most so much deeper.
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

    /// The next item, which becomes the current one.
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

    /// The next item of a loop without a test; that of a loop with one only the machine can find.
    fn next_of_all(&mut self, world: &World<'a>) -> Res<Option<Value<'a>>> {
        if self.test.is_some() {
            return Err(Fault::unsupported("a look ahead in a loop with a test, from inside a function"));
        }
        self.iter.next(world)
    }

    /// The next item for the loop itself, which tests it then unless a look ahead has.
    #[inline]
    pub(super) fn take(&mut self, world: &World<'a>) -> Res<Option<Value<'a>>> {
        if self.test.is_none() || self.after.is_some() {
            return self.advance(world);
        }
        self.take_untested(world)
    }

    /// An item that has still to be tested.
    pub(super) fn take_untested(&mut self, world: &World<'a>) -> Res<Option<Value<'a>>> {
        let next = self.iter.next(world)?;
        self.is_testing = next.is_some();
        Ok(next)
    }

    /// Whether the current item is one that was taken untested.
    pub(super) fn is_testing(&self) -> bool {
        self.is_testing
    }

    /// The test of a look ahead is over.
    pub(super) fn end_test(&mut self) {
        self.is_testing = false;
    }

    /// The item that was tested is the current one.
    pub(super) fn pass(&mut self, item: &Value<'a>) {
        self.is_testing = false;
        self.count(item);
    }

    /// Whether the next item is known, or can be had without a test.
    pub(super) fn knows_next(&self) -> bool {
        self.test.is_none() || self.after.is_some()
    }

    /// What a look ahead has found.
    pub(super) fn set_next(&mut self, next: Option<Value<'a>>) {
        self.after = Some(next);
    }

    /// All items that pass behind the next one.
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
        if self.test.is_some() {
            return Err(Fault::unsupported("the length of a loop with a test, from inside a function"));
        }
        let done = (self.index0 + 1) as usize;
        let iter = std::mem::replace(&mut self.iter, Iter::Empty);
        let rest: VecDeque<Value<'a>> = iter.rest(world)?.into();
        let length = rest.len() + done + usize::from(matches!(self.after, Some(Some(_))));
        self.iter = Iter::Ready(rest);
        self.length = Some(length);
        Ok(length)
    }

    pub(crate) fn attribute(&mut self, world: &World<'a>, name: &str) -> Res<Option<Value<'a>>> {
        let index0 = self.index0;
        Ok(Some(match name {
            "first" => Value::Bool(index0 == 0),
            "last" => match self.length {
                Some(length) => Value::Bool(index0 + 1 >= length as i64),
                None => Value::Bool(self.peek(world)?.is_none()),
            },
            "index" => Value::Int(index0 + 1),
            "index0" => Value::Int(index0),
            "length" => Value::length(self.length(world)?),
            "revindex" => Value::Int(self.length(world)? as i64 - index0),
            "revindex0" => Value::Int(self.length(world)? as i64 - index0 - 1),
            "previtem" if index0 == 0 => Value::undefined("there is no previous item"),
            "previtem" => match &self.items {
                Some(items) => items.item_at(world, (index0 - 1).max(0) as usize)?.unwrap_or(Value::None),
                None => self.before.clone(),
            },
            "nextitem" if self.items.is_some() => {
                let next = self.items.as_ref().map_or(Ok(None), |items| items.item_at(world, (index0 + 1) as usize))?;
                next.unwrap_or(Value::undefined("there is no next item"))
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

    /// Where the last arguments of `loop.changed` are kept: in the world, since they may hold the loop itself.
    pub(crate) fn changed_place(&mut self, world: &World<'a>) -> usize {
        *self.changed.get_or_insert_with(|| {
            let mut changed = world.changed.borrow_mut();
            changed.push(Value::Missing);
            changed.len() - 1
        })
    }
}
