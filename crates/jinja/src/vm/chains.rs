//! Sums of strings, which are joined or written at once.

use super::{Vm, World};
use crate::error::Res;
use crate::parser::ast::BinaryOp;
use crate::value::Value;
use crate::value::builder::{Builder, Pieces};
use crate::value::operate::binary;

impl<'a> Vm<'_, 'a> {
    pub(super) fn check_chain(&mut self, count: usize) -> Res<()> {
        let base = self.stack.len() - count;
        let is_plain = |value: &Value<'a>| matches!(value, Value::Str(text) if !text.is_markup());
        let starts_plain = is_plain(&self.stack[base]);
        if starts_plain && is_plain(&self.stack[self.stack.len() - 1]) {
            return Ok(());
        }
        let right = self.pop();
        if !starts_plain {
            let sum = binary(self.world, BinaryOp::Add, &self.stack[base], &right)?;
            self.stack[base] = sum;
            self.stack.push(Value::text(""));
            return Ok(());
        }
        let left = self.join_chain(count - 1)?;
        let sum = binary(self.world, BinaryOp::Add, &left, &right)?;
        self.stack.truncate(base);
        self.stack.push(sum);
        self.stack.resize(base + count, Value::text(""));
        Ok(())
    }

    /// Joins the top values, which are strings. If the first is not a plain string, it already
    /// holds the sum and is returned.
    pub(super) fn join_chain(&mut self, count: usize) -> Res<Value<'a>> {
        let base = self.stack.len() - count;
        match &self.stack[base] {
            Value::Str(first) if !first.is_markup() => {}
            other => return Ok(other.clone()),
        }
        let mut builder = Builder::new(self.world);
        for value in &self.stack[base..] {
            if let Value::Str(text) = value {
                self.world.work(text.weight())?;
                builder.push_str(text)?;
            }
        }
        builder.finish().map(Value::Str)
    }
}

/// Handles an operand of `literal + value` that is not a plain string, with the error that Python
/// raises for the sum.
#[cold]
pub(super) fn refuse_addend<'a>(world: &World<'a>, value: &Value<'a>) -> Res<()> {
    binary(world, BinaryOp::Add, &Value::text(""), value).map(drop)
}
