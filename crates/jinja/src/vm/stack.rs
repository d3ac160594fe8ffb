//! The value stack.

use std::any::Any;
use std::ops::{Deref, DerefMut};

use crate::input::Tag;
use crate::value::Value;
use crate::value::text::{Slice, Str};

/// The values that the instructions operate on.
///
/// The common kinds of values have a push of their own, which is not inlined: within the
/// interpreter loop, the compiler would build the value elsewhere and copy it, and the wide loads
/// of the copy wait for the narrow stores before them.
#[derive(Default)]
pub(super) struct Stack<'a> {
    values: Vec<Value<'a>>,
}

impl<'a> Stack<'a> {
    pub(super) fn new() -> Stack<'a> {
        Stack { values: Vec::with_capacity(16) }
    }

    #[inline(never)]
    pub(super) fn push_flag(&mut self, flag: bool) {
        self.values.push(Value::Bool(flag));
    }

    #[inline(never)]
    pub(super) fn push_int(&mut self, number: i64) {
        self.values.push(Value::Int(number));
    }

    #[inline(never)]
    pub(super) fn push_slice(&mut self, slice: Slice<'a>) {
        self.values.push(Value::Str(Str::Slice(slice)));
    }

    #[inline(never)]
    pub(super) fn push_input_dict(&mut self, node: &'a dyn Any, tag: Tag) {
        self.values.push(Value::InputDict(node, tag));
    }

    #[inline(never)]
    pub(super) fn push_input_list(&mut self, node: &'a dyn Any, tag: Tag) {
        self.values.push(Value::InputList(node, tag));
    }

    /// Removes and returns the top `count` values.
    pub(super) fn take_top(&mut self, count: usize) -> Vec<Value<'a>> {
        self.values.split_off(self.values.len() - count)
    }

    /// Removes the top `count` values.
    #[inline]
    pub(super) fn drop_top(&mut self, count: usize) {
        self.values.truncate(self.values.len() - count);
    }

    /// Pushes a copy of a value.
    #[inline]
    pub(super) fn push_copy(&mut self, value: &Value<'a>) {
        match value {
            Value::Str(Str::Slice(slice)) => self.push_slice(*slice),
            Value::Bool(value) => self.push_flag(*value),
            Value::Int(value) => self.push_int(*value),
            Value::InputList(node, tag) => self.push_input_list(*node, *tag),
            Value::InputDict(node, tag) => self.push_input_dict(*node, *tag),
            other => self.values.push(other.clone()),
        }
    }
}

impl<'a> Deref for Stack<'a> {
    type Target = Vec<Value<'a>>;

    fn deref(&self) -> &Vec<Value<'a>> {
        &self.values
    }
}

impl<'a> DerefMut for Stack<'a> {
    fn deref_mut(&mut self) -> &mut Vec<Value<'a>> {
        &mut self.values
    }
}
