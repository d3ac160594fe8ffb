//! Quick answers about the kind and the truth of values.

use super::World;
use crate::builtins::tests;
use crate::compile::program::TypeTest;
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
pub(super) fn is_kind(value: &Value<'_>, kind: TypeTest) -> bool {
    match kind {
        TypeTest::Defined => !matches!(value, Value::Undefined(_) | Value::Missing),
        TypeTest::None => matches!(value, Value::None),
        TypeTest::String => matches!(value, Value::Str(_)),
        TypeTest::Mapping => value.is_mapping(),
        TypeTest::True => matches!(value, Value::Bool(true)),
        TypeTest::False => matches!(value, Value::Bool(false)),
        TypeTest::Iterable => matches!(value, Value::Missing) || tests::is_iterable(value),
        TypeTest::Sequence => matches!(value, Value::Missing) || tests::is_sequence(value),
    }
}

/// Reports whether a caller's value is of a kind.
#[inline]
pub(super) fn is_input_kind(value: InputValue<'_>, kind: TypeTest) -> bool {
    match kind {
        TypeTest::Defined => true,
        TypeTest::None => matches!(value, InputValue::Null),
        TypeTest::String => matches!(value, InputValue::Str(_)),
        TypeTest::Mapping => matches!(value, InputValue::Dict),
        TypeTest::True => matches!(value, InputValue::Bool(true)),
        TypeTest::False => matches!(value, InputValue::Bool(false)),
        TypeTest::Iterable | TypeTest::Sequence => {
            matches!(value, InputValue::Str(_) | InputValue::List | InputValue::Dict)
        }
    }
}
