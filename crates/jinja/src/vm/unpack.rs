//! Values taken apart into variables and arguments.

use super::{Vm, World};
use crate::error::{Fault, Res};
use crate::value::Value;
use crate::value::dict::Dict;
use crate::value::iter::Iter;

impl<'a> Vm<'_, 'a> {
    /// Unpacks a value onto the stack, with the first part on top.
    pub(super) fn unpack(&mut self, value: &Value<'a>, count: usize) -> Res<()> {
        let world = self.world;
        if let Value::Tuple(list) | Value::List(list) = value
            && list.items.len() == count
        {
            self.stack.extend(list.items.iter().rev().cloned());
            return Ok(());
        }
        let mut iter = Iter::new(world, value)
            .map_err(|_| Fault::type_error(format!("cannot unpack non-iterable {} object", value.kind())))?;
        let base = self.stack.len();
        while let Some(item) = iter.next(world)? {
            if self.stack.len() - base == count {
                return Err(Fault::value(format!("too many values to unpack (expected {count})")));
            }
            self.stack.push(item);
        }
        let found = self.stack.len() - base;
        if found < count {
            return Err(Fault::value(format!("not enough values to unpack (expected {count}, got {found})")));
        }
        self.stack[base..].reverse();
        Ok(())
    }
}

/// Extends a dict with the entries of another. Duplicate keys are an error, as in a call.
pub(super) fn extended<'a>(world: &World<'a>, dict: &Value<'a>, more: &Value<'a>) -> Res<Value<'a>> {
    if let Value::Undefined(absence) = more {
        return Err(absence.fault());
    }
    if !more.is_mapping() {
        return Err(Fault::type_error(format!("argument after ** must be a mapping, not {}", more.kind())));
    }
    let mut extended = Dict::new(world)?;
    for source in [dict, more] {
        for index in 0..source.size(world).unwrap_or(0) {
            let Some((key, value)) = source.entry_at(world, index)? else { continue };
            if extended.get(world, &key)?.is_some() {
                return Err(Fault::type_error("got multiple values for a keyword argument"));
            }
            extended.insert(world, key, value)?;
        }
    }
    Ok(extended.into_value())
}
