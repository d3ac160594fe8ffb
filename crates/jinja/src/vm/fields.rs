//! Fields of variables: `message.role`, `message['role']`.

use std::any::Any;

use super::World;
use crate::compile::program::{Field, Key, KeyOf};
use crate::input::InputNode;
use crate::value::{Absence, TypeName, Value};

/// The number of lookups that are remembered.
const SLOTS: usize = 8;

/// The latest lookups in the caller's dicts. A template asks for the same field of a message in
/// several conditions in a row, and the caller's values do not change during a rendering.
#[derive(Default)]
pub(super) struct Fields<'a> {
    known: [Known<'a>; SLOTS],
}

#[derive(Default)]
struct Known<'a> {
    of: Option<(&'a dyn Any, Key)>,
    found: Option<InputNode<'a>>,
}

/// The result of a lookup in a caller's dict.
pub(super) enum Answer<'f, 'a> {
    /// The variable is not a caller's dict, or the key may be one of a dict's own attributes. The
    /// general path decides.
    Elsewhere,
    /// The dict has no such field.
    Absent(Absence<'a>),
    // Inspected in place, since moving it takes as long as finding it.
    Found(&'f InputNode<'a>),
}

impl<'a> Fields<'a> {
    /// Looks up a field of a variable with this value.
    #[inline(always)]
    pub(super) fn ask(
        &mut self,
        world: &World<'a>,
        literals: &[&'a str],
        variable: &Value<'a>,
        field: Field,
    ) -> Answer<'_, 'a> {
        let Value::InputDict(dict, _) = variable else { return Answer::Elsewhere };
        let known = &mut self.known[field.key.number() % SLOTS];
        if !matches!(known.of, Some((of, key)) if key == field.key && std::ptr::eq(of, *dict)) {
            let key = match field.key.of() {
                KeyOf::DictName(_) => return Answer::Elsewhere,
                KeyOf::Name(name) => world.program.name(name),
                KeyOf::Literal(id) => literals[id as usize],
            };
            // An error here occurs again on the general path.
            if world.charge_search(*dict).is_err() {
                return Answer::Elsewhere;
            }
            known.of = Some((*dict, field.key));
            world.inputs.look_up(*dict, key, &mut known.found);
        }
        match &known.found {
            Some(found) => Answer::Found(found),
            None => match field.key.of() {
                KeyOf::Name(name) => Answer::Absent(Absence::Attribute(TypeName::Dict, world.program.name(name))),
                _ => Answer::Elsewhere,
            },
        }
    }
}
