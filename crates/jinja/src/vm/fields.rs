//! Fields of variables: `message.role`, `message['role']`.

use std::any::Any;

use super::growth::volatile::turned;
use super::look::with_test;
use super::{Vm, World};
use crate::compile::program::{Field, Key, KeyOf, Op};
use crate::error::Res;
use crate::input::{InputNode, InputValue, Tag};
use crate::output::{Offset, Origin};
use crate::value::text::{Slice, Str};
use crate::value::{Absence, TypeName, Value, subscript};

/// The number of lookups that are remembered.
const SLOTS: usize = 8;

/// The latest lookups in the caller's dicts. A template asks for the same field of a message in
/// several conditions in a row, and the caller's values do not change during a rendering.
#[derive(Default)]
pub(super) struct FieldCache<'a> {
    known: [FieldLookup<'a>; SLOTS],
}

#[derive(Default)]
struct FieldLookup<'a> {
    of: Option<(&'a dyn Any, Key)>,
    found: Option<InputNode<'a>>,
}

/// The result of a lookup in a caller's dict.
pub(super) enum FieldAnswer<'f, 'a> {
    /// The variable is not a caller's dict, or the key may be one of a dict's own attributes. The
    /// general path decides.
    Elsewhere,
    /// The dict has no such field.
    Absent(Absence<'a>),
    // Inspected in place, since moving it takes as long as finding it.
    Found(&'f InputNode<'a>),
}

impl<'a> FieldCache<'a> {
    /// Looks up a field of a variable with this value.
    #[inline(always)]
    pub(super) fn ask(
        &mut self,
        world: &World<'a>,
        literals: &[&'a str],
        variable: &Value<'a>,
        field: Field,
    ) -> FieldAnswer<'_, 'a> {
        let Value::InputDict(dict, _) = variable else { return FieldAnswer::Elsewhere };
        let known = &mut self.known[field.key.number() % SLOTS];
        if !matches!(known.of, Some((of, key)) if key == field.key && std::ptr::eq(of, *dict)) {
            let key = match field.key.of() {
                KeyOf::DictName(_) => return FieldAnswer::Elsewhere,
                KeyOf::Name(name) => world.program.name(name),
                KeyOf::Literal(id) => literals[id as usize],
            };
            // An error here occurs again on the general path.
            if world.charge_search(*dict).is_err() {
                return FieldAnswer::Elsewhere;
            }
            known.of = Some((*dict, field.key));
            known.found = None;
            world.inputs.look_up(*dict, key, &mut known.found);
        }
        match &known.found {
            Some(found) => FieldAnswer::Found(found),
            None => match field.key.of() {
                KeyOf::Name(name) => FieldAnswer::Absent(Absence::Attribute(TypeName::Dict, world.program.name(name))),
                _ => FieldAnswer::Elsewhere,
            },
        }
    }
}

/// Looks up a field of a variable in a caller's dict. As a macro, it borrows only the parts of the
/// machine that it needs.
macro_rules! ask {
    ($vm:expr, $field:expr) => {
        $vm.fields.ask($vm.world, &$vm.literals, &$vm.slots[$field.slot as usize], $field)
    };
}
pub(super) use ask;

impl<'a> Vm<'_, 'a> {
    /// Pushes a field of a variable.
    pub(super) fn push_field(&mut self, field: Field) -> Res<()> {
        match ask!(self, field) {
            FieldAnswer::Found(found) => {
                match found.value {
                    InputValue::Str(text) => {
                        self.stack.push_slice(input_slice(text, found.tag));
                    }
                    InputValue::Dict => self.stack.push_input_dict(found.node, found.tag),
                    InputValue::List => self.stack.push_input_list(found.node, found.tag),
                    InputValue::Null => self.stack.push(Value::None),
                    InputValue::Bool(value) => self.stack.push_flag(value),
                    InputValue::Number(_) => self.stack.push(Value::of_node(self.world, *found)?),
                }
                return Ok(());
            }
            FieldAnswer::Absent(absence) => {
                self.stack.push(Value::Undefined(absence));
                return Ok(());
            }
            FieldAnswer::Elsewhere => {}
        }
        if let KeyOf::Name(name) = field.key.of() {
            match &self.slots[field.slot as usize] {
                Value::Namespace(id) => {
                    let (id, name) = (*id, self.program.name(name));
                    if self.world.volatiles().are_some()
                        && let Some(number) = self.compared_number(id, name)
                    {
                        self.stack.push_int(number);
                        return Ok(());
                    }
                    if self.world.with_attribute(id, name, |value| self.stack.push_copy(value)).is_some() {
                        return Ok(());
                    }
                }
                Value::Loop(state) => match state.borrow().quick_attribute(name) {
                    Some(Value::Int(number)) => {
                        self.stack.push_int(number);
                        return Ok(());
                    }
                    Some(value) => {
                        self.stack.push(value);
                        return Ok(());
                    }
                    None => {}
                },
                _ => {}
            }
        }
        let value = self.field(field)?;
        self.stack.push(value);
        Ok(())
    }

    /// Returns a number in a namespace, if all that the next steps do is to compare it with another.
    #[cold]
    fn compared_number(&self, id: u32, name: &str) -> Option<i64> {
        let compares = |at: usize| match self.program.ops.get(at)? {
            Op::Compare(op) | Op::CompareStack(op) => Some(*op),
            _ => None,
        };
        if let (Some(op), Some(Value::Int(left))) = (compares(self.pc), self.stack.last()) {
            return self.world.compared(id, name, turned(op), *left);
        }
        let right = match *self.program.ops.get(self.pc)? {
            Op::Int(number) => number,
            Op::Field(field) => match (&self.slots[field.slot as usize], field.key.of()) {
                (Value::Loop(state), KeyOf::Name(name)) => match state.try_borrow().ok()?.quick_attribute(name)? {
                    Value::Int(number) => number,
                    _ => return None,
                },
                _ => return None,
            },
            _ => return None,
        };
        self.world.compared(id, name, compares(self.pc + 1)?, right)
    }

    /// Replaces the top value with one of its attributes.
    pub(super) fn push_attribute(&mut self, name: u32) -> Res<()> {
        let (value, name) = (self.pop(), self.program.name(name));
        if self.world.volatiles().are_some()
            && let Value::Namespace(id) = value
            && let Some(number) = self.compared_number(id, name)
        {
            self.stack.push_int(number);
            return Ok(());
        }
        if let Some(state) = with_test(&value) {
            self.look_for(&state, name)?;
        }
        let found = subscript::attribute(self.world, &value, name)?;
        self.stack.push(found);
        Ok(())
    }

    /// Evaluates Python's `bool()` for a field that is not one of a caller's dict.
    pub(super) fn is_field_true(&mut self, field: Field) -> Res<bool> {
        if let KeyOf::Name(name) = field.key.of() {
            let quick = match &self.slots[field.slot as usize] {
                Value::Namespace(id) => {
                    let name = self.program.name(name);
                    self.world.with_attribute(*id, name, |value| value.is_true(self.world))
                }
                Value::Loop(state) => state.borrow().quick_attribute(name).map(|value| value.is_true(self.world)),
                _ => None,
            };
            if let Some(holds) = quick {
                return Ok(holds);
            }
        }
        Ok(self.field(field)?.is_true(self.world))
    }

    /// Returns a field of a variable.
    #[inline]
    pub(super) fn field(&mut self, field: Field) -> Res<Value<'a>> {
        if let Some(state) = with_test(&self.slots[field.slot as usize]) {
            self.look_for(
                &state,
                match field.key.of() {
                    KeyOf::Name(name) | KeyOf::DictName(name) => self.program.name(name),
                    KeyOf::Literal(id) => self.literals[id as usize],
                },
            )?;
        }
        let value = &self.slots[field.slot as usize];
        if let Value::Missing = value {
            return Err(Absence::Variable(self.program.name(field.variable.into())).fault());
        }
        match field.key.of() {
            KeyOf::Name(name) | KeyOf::DictName(name) => {
                subscript::attribute(self.world, value, self.program.name(name))
            }
            KeyOf::Literal(id) => self.item_literal(value, id),
        }
    }

    #[inline]
    pub(super) fn item_literal(&self, value: &Value<'a>, id: u32) -> Res<Value<'a>> {
        if let Value::InputDict(..) = value
            && let Some(found) = value.dict_get_str(self.world, self.literals[id as usize])?
        {
            return Ok(found);
        }
        subscript::item(self.world, value, &Value::Str(Str::Slice(self.literal(id))))
    }

    pub(super) fn is_literal(&self, value: &Value<'a>, id: u32) -> Res<bool> {
        let (Value::Str(text), wanted) = (value, self.literals[id as usize]) else { return Ok(false) };
        if wanted.len() > 256 {
            self.world.work(wanted.len())?;
        }
        Ok(text.plain() == wanted)
    }
}

/// Creates a string slice for a caller's string.
#[inline]
fn input_slice<'a>(text: &'a str, tag: Tag) -> Slice<'a> {
    Slice { text, origin: Origin::Input { tag, offset: Offset::new(0) } }
}
