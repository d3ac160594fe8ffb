//! Looking ahead in loops with a test. Such loops take their items one by one, as jinja2's
//! generators do. To answer what `loop` reports about later items, their tests have to run in the
//! middle of a step.

use std::collections::VecDeque;
use std::rc::Rc;

use super::call::CallOutput;
use super::{CallEnd, SharedLoop, Vm};
use crate::error::{Fault, LimitKind, Res};
use crate::value::Value;

/// The most tests that may run inside each other; each uses the native stack.
const MOST_LOOKS: usize = 20;

/// Returns the loop if the value is a loop whose next items must still pass a test.
#[inline]
pub(super) fn with_test<'a>(value: &Value<'a>) -> Option<SharedLoop<'a>> {
    match value {
        Value::Loop(state) if state.try_borrow().is_ok_and(|state| state.test.is_some()) => Some(Rc::clone(state)),
        _ => None,
    }
}

impl<'a> Vm<'_, 'a> {
    /// Looks ahead as far as an attribute of `loop` requires.
    #[cold]
    pub(super) fn look_for(&mut self, state: &SharedLoop<'a>, attribute: &str) -> Res<()> {
        match attribute {
            "last" | "nextitem" => self.look_ahead(state),
            "length" | "revindex" | "revindex0" => self.look_to_end(state),
            _ => Ok(()),
        }
    }

    fn look_ahead(&mut self, state: &SharedLoop<'a>) -> Res<()> {
        if !state.borrow().knows_next() {
            let next = self.next_passing(state)?;
            state.borrow_mut().set_next(next);
        }
        Ok(())
    }

    /// Tests all remaining items.
    #[cold]
    pub(super) fn look_to_end(&mut self, state: &SharedLoop<'a>) -> Res<()> {
        let mut rest = VecDeque::new();
        while let Some(item) = self.next_passing(state)? {
            if rest.len() == rest.capacity() {
                self.world.meter.check(rest.len() * 2 * size_of::<Value<'a>>())?;
            }
            rest.push_back(item);
        }
        state.borrow_mut().set_rest(rest);
        Ok(())
    }

    fn next_passing(&mut self, state: &SharedLoop<'a>) -> Res<Option<Value<'a>>> {
        let Some((routine, frame)) = state.borrow().test else { return Ok(None) };
        if state.borrow().is_testing() {
            return Err(Fault::value("generator already executing"));
        }
        loop {
            self.world.step()?;
            let next = state.borrow_mut().take_untested(self.world)?;
            let Some(item) = next else { return Ok(None) };
            if self.looks >= MOST_LOOKS {
                return Err(Fault::limit(LimitKind::Recursion, MOST_LOOKS));
            }
            self.begin(routine, frame, 0, CallOutput::Written, CallEnd::Test)?;
            self.stack.push(item);
            self.looks += 1;
            self.run()?;
            self.looks -= 1;
            state.borrow_mut().end_test();
            let item = self.stack.pop();
            if self.stack.pop().is_some_and(|value| value.is_true(self.world)) {
                return Ok(item);
            }
        }
    }
}
