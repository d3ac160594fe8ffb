//! Numbers that a longer list may change, as long as every test of them has the same result.
//!
//! Templates search for the index of the last user message, and compare the index of each message
//! with it. That index is another one in every turn, but the comparisons of most messages are not.

use std::cell::{Cell, RefCell};

use crate::parser::ast::CompareOp;
use crate::vm::World;

/// The numbers in namespaces that a longer list may change.
#[derive(Default)]
pub(in super::super) struct Volatiles {
    /// Whether there are any.
    are_some: Cell<bool>,
    all: RefCell<Vec<Volatile>>,
}

/// A number in a namespace, and the values of it for which everything was the same so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Volatile {
    /// The namespace, and the index of the attribute in it.
    pub(crate) namespace: u32,
    pub(crate) entry: u32,
    /// The same in the state after the last stretch.
    pub(crate) key: (u32, u32),
    pub(crate) low: i64,
    pub(crate) high: i64,
    /// Whether it still has the value that it had after the last stretch.
    pub(crate) is_kept: bool,
}

impl Volatiles {
    pub(in super::super) fn set(&self, volatiles: Vec<Volatile>) {
        self.are_some.set(!volatiles.is_empty());
        self.all.replace(volatiles);
    }

    pub(in super::super) fn all(&self) -> Vec<Volatile> {
        self.all.borrow().clone()
    }

    /// Reports whether there are any, which is rare.
    #[inline]
    pub(in super::super) fn are_some(&self) -> bool {
        self.are_some.get()
    }

    fn change(&self, namespace: u32, entry: usize, change: impl FnOnce(&mut Volatile)) {
        let mut all = self.all.borrow_mut();
        let is_it =
            |known: &&mut Volatile| known.is_kept && known.namespace == namespace && known.entry as usize == entry;
        if let Some(found) = all.iter_mut().find(is_it) {
            change(found);
        }
    }

    /// Notes that a number was set to another value.
    pub(in super::super) fn note_set(&self, namespace: u32, entry: usize) {
        self.change(namespace, entry, |found| found.is_kept = false);
    }

    /// Notes that a number was read, so that it may have no other value.
    pub(in super::super) fn note_read(&self, namespace: u32, entry: usize, value: i64) {
        self.change(namespace, entry, |found| found.require(value, value));
    }

    /// Notes a comparison of a number with another one, to the right of it.
    pub(in super::super) fn note_compared(&self, namespace: u32, entry: usize, value: i64, op: CompareOp, other: i64) {
        let (below, above) = (other.saturating_sub(1), other.saturating_add(1));
        let is_other = |is_equal: bool| match is_equal {
            true => (value, value),
            false if value < other => (i64::MIN, below),
            false => (above, i64::MAX),
        };
        let (low, high) = match (op, value.cmp(&other)) {
            (CompareOp::Lt, std::cmp::Ordering::Less) | (CompareOp::Ge, std::cmp::Ordering::Less) => (i64::MIN, below),
            (CompareOp::Lt | CompareOp::Ge, _) => (other, i64::MAX),
            (CompareOp::Gt, std::cmp::Ordering::Greater) | (CompareOp::Le, std::cmp::Ordering::Greater) => {
                (above, i64::MAX)
            }
            (CompareOp::Gt | CompareOp::Le, _) => (i64::MIN, other),
            (CompareOp::Eq | CompareOp::Ne, order) => is_other(order.is_eq()),
            (CompareOp::In | CompareOp::NotIn, _) => (value, value),
        };
        self.change(namespace, entry, |found| found.require(low, high));
    }
}

impl Volatile {
    fn require(&mut self, low: i64, high: i64) {
        self.low = self.low.max(low);
        self.high = self.high.min(high);
    }
}

/// Returns the comparison with its sides exchanged.
pub(in super::super) fn turned(op: CompareOp) -> CompareOp {
    match op {
        CompareOp::Lt => CompareOp::Gt,
        CompareOp::Le => CompareOp::Ge,
        CompareOp::Gt => CompareOp::Lt,
        CompareOp::Ge => CompareOp::Le,
        other => other,
    }
}

impl World<'_> {
    pub(in super::super) fn volatiles(&self) -> &Volatiles {
        &self.volatiles
    }
}
