//! Variables and literals.

use super::Vm;
use crate::error::Res;
use crate::output::{Offset, Origin};
use crate::value::text::Slice;
use crate::value::{Absence, Value};

impl<'a> Vm<'_, 'a> {
    pub(super) fn literal(&self, id: u32) -> Slice<'a> {
        Slice { text: self.literals[id as usize], origin: Origin::Literal { id, offset: Offset::new(0) } }
    }

    pub(super) fn frame_up(&self, up: u16) -> u32 {
        let mut frame = self.frame;
        for _ in 0..up {
            frame = self.frames[frame as usize].parent;
        }
        frame
    }

    pub(super) fn outer_slot(&self, up: u16, slot: u32) -> Value<'a> {
        let frame = self.frame_up(up);
        let slots = if frame == self.frame { &self.slots } else { &self.frames[frame as usize].slots };
        slots.get(slot as usize).cloned().unwrap_or(Value::Missing)
    }

    /// Looks up a global on its first use.
    #[inline(always)]
    pub(super) fn load_global(&mut self, global: u32) -> Res<()> {
        if matches!(self.globals[global as usize], Value::Missing) {
            self.globals[global as usize] = self.find_global(global)?;
        }
        Ok(())
    }

    #[inline(never)]
    pub(super) fn find_global(&self, global: u32) -> Res<Value<'a>> {
        let (name, function) = self.program.globals[global as usize];
        let name = self.program.name(name);
        Ok(match (self.context.get(name), function) {
            (Some(node), _) => Value::of(self.world, node)?,
            (None, Some(function)) => Value::Function(function),
            (None, None) => Value::Undefined(Absence::Variable(name)),
        })
    }
}
