//! Quick answers about the kind and the truth of values.

use super::World;
use crate::builtins::tests;
use crate::compile::program::Kind;
use crate::error::Res;
use crate::input::{InputNode, InputValue};
use crate::value::Value;

/// Evaluates Python's `bool()` for a caller's value.
#[inline]
pub(super) fn is_input_true<'a>(world: &World<'a>, found: &InputNode<'a>) -> Res<bool> {
    Ok(match found.value {
        InputValue::Str(text) => !text.is_empty(),
        InputValue::Bool(value) => value,
        InputValue::Null => false,
        InputValue::List | InputValue::Dict => world.inputs.len(found.node) > 0,
        InputValue::Number(_) => Value::of_node(world, *found)?.is_true(world),
    })
}

/// Reports whether a value is of a kind.
#[inline]
pub(super) fn is_kind(value: &Value<'_>, kind: Kind) -> bool {
    match kind {
        Kind::Defined => !matches!(value, Value::Undefined(_) | Value::Missing),
        Kind::None => matches!(value, Value::None),
        Kind::String => matches!(value, Value::Str(_)),
        Kind::Mapping => value.is_mapping(),
        Kind::True => matches!(value, Value::Bool(true)),
        Kind::False => matches!(value, Value::Bool(false)),
        Kind::Iterable => matches!(value, Value::Missing) || tests::is_iterable(value),
        Kind::Sequence => matches!(value, Value::Missing) || tests::is_sequence(value),
    }
}

/// Reports whether a caller's value is of a kind.
#[inline]
pub(super) fn is_input_kind(value: InputValue<'_>, kind: Kind) -> bool {
    match kind {
        Kind::Defined => true,
        Kind::None => matches!(value, InputValue::Null),
        Kind::String => matches!(value, InputValue::Str(_)),
        Kind::Mapping => matches!(value, InputValue::Dict),
        Kind::True => matches!(value, InputValue::Bool(true)),
        Kind::False => matches!(value, InputValue::Bool(false)),
        Kind::Iterable | Kind::Sequence => matches!(value, InputValue::Str(_) | InputValue::List | InputValue::Dict),
    }
}
