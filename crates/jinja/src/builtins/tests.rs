//! Tests, which are applied with `is`.

use num_bigint::BigInt;

use super::{Args, TestFn, needed};
use crate::error::{Fault, Res};
use crate::parser::ast::{BinaryOp, CompareOp};
use crate::value::Value;
use crate::value::compare::{compare, is_same};
use crate::value::number::is_number;
use crate::value::operate::binary;
use crate::vm::World;

pub(super) const TESTS: &[(&str, TestFn)] = &[
    ("defined", |_, args| one(args, |value| !value.is_undefined())),
    ("undefined", |_, args| one(args, Value::is_undefined)),
    ("none", |_, args| one(args, |value| matches!(value, Value::None))),
    ("string", |_, args| one(args, |value| matches!(value, Value::Str(_)))),
    ("mapping", |_, args| one(args, Value::is_mapping)),
    ("iterable", |_, args| one(args, is_iterable)),
    ("sequence", |_, args| one(args, is_sequence)),
    ("boolean", |_, args| one(args, |value| matches!(value, Value::Bool(_)))),
    ("true", |_, args| one(args, |value| matches!(value, Value::Bool(true)))),
    ("false", |_, args| one(args, |value| matches!(value, Value::Bool(false)))),
    ("integer", |_, args| one(args, |value| matches!(value, Value::Int(_) | Value::Big(_)))),
    ("float", |_, args| one(args, |value| matches!(value, Value::Float(_)))),
    ("number", |_, args| one(args, is_number)),
    ("callable", |_, args| one(args, is_callable)),
    ("escaped", |_, args| one(args, |value| matches!(value, Value::Str(text) if text.is_markup()))),
    ("odd", odd),
    ("even", even),
    ("divisibleby", divisible_by),
    ("lower", lower),
    ("upper", upper),
    ("sameas", same_as),
    ("filter", filter),
    ("test", test),
    ("in", |world, args| compared(world, args, CompareOp::In)),
    ("==", |world, args| compared(world, args, CompareOp::Eq)),
    ("eq", |world, args| compared(world, args, CompareOp::Eq)),
    ("equalto", |world, args| compared(world, args, CompareOp::Eq)),
    ("!=", |world, args| compared(world, args, CompareOp::Ne)),
    ("ne", |world, args| compared(world, args, CompareOp::Ne)),
    (">", |world, args| compared(world, args, CompareOp::Gt)),
    ("gt", |world, args| compared(world, args, CompareOp::Gt)),
    ("greaterthan", |world, args| compared(world, args, CompareOp::Gt)),
    (">=", |world, args| compared(world, args, CompareOp::Ge)),
    ("ge", |world, args| compared(world, args, CompareOp::Ge)),
    ("<", |world, args| compared(world, args, CompareOp::Lt)),
    ("lt", |world, args| compared(world, args, CompareOp::Lt)),
    ("lessthan", |world, args| compared(world, args, CompareOp::Lt)),
    ("<=", |world, args| compared(world, args, CompareOp::Le)),
    ("le", |world, args| compared(world, args, CompareOp::Le)),
];

fn one<'a>(args: Args<'_, 'a>, holds: impl Fn(&Value<'a>) -> bool) -> Res<bool> {
    args.bind::<0>("test", [])?;
    Ok(holds(args.subject()))
}

fn other<'s, 'a>(args: Args<'s, 'a>) -> Res<&'s Value<'a>> {
    match (args.positional(), args.names) {
        ([other], []) => Ok(other),
        (found, _) => Err(Fault::type_error(format!("expected 1 argument for the test, found {}", found.len()))),
    }
}

fn compared<'a>(world: &World<'a>, args: Args<'_, 'a>, op: CompareOp) -> Res<bool> {
    compare(world, op, args.subject(), other(args)?)
}

pub(crate) fn is_iterable(value: &Value<'_>) -> bool {
    is_sequence(value) || matches!(value, Value::View(_) | Value::Generator(_) | Value::Loop(_))
}

/// jinja2: a sequence has a length and `__getitem__`. The undefined value has both.
pub(crate) fn is_sequence(value: &Value<'_>) -> bool {
    value.is_sequence() || value.is_mapping() || matches!(value, Value::Str(_) | Value::Undefined(_))
}

fn is_callable(value: &Value<'_>) -> bool {
    matches!(
        value,
        Value::Function(_)
            | Value::Method(_)
            | Value::Macro(_)
            | Value::Joiner(_)
            | Value::Loop(_)
            | Value::Undefined(_)
    )
}

fn remainder<'a>(world: &World<'a>, value: &Value<'a>, by: &Value<'a>) -> Res<Value<'a>> {
    binary(world, BinaryOp::Mod, value, by)
}

fn is_int(value: &Value<'_>, expected: i64) -> bool {
    match value {
        Value::Int(value) => *value == expected,
        Value::Float(value) => *value == expected as f64,
        Value::Big(value) => **value == BigInt::from(expected),
        _ => false,
    }
}

fn odd<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<bool> {
    args.bind::<0>("odd", [])?;
    Ok(is_int(&remainder(world, args.subject(), &Value::Int(2))?, 1))
}

fn even<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<bool> {
    args.bind::<0>("even", [])?;
    Ok(is_int(&remainder(world, args.subject(), &Value::Int(2))?, 0))
}

fn divisible_by<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<bool> {
    let [by] = args.bind("divisibleby", ["num"])?;
    Ok(is_int(&remainder(world, args.subject(), needed("divisibleby", "num", by)?)?, 0))
}

fn lower<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<bool> {
    args.bind::<0>("lower", [])?;
    let text = args.subject().to_str(world)?;
    world.work(text.plain().len() * 4)?;
    Ok(super::strings::is_lower(text.plain()))
}

fn upper<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<bool> {
    args.bind::<0>("upper", [])?;
    let text = args.subject().to_str(world)?;
    world.work(text.plain().len() * 4)?;
    Ok(super::strings::is_upper(text.plain()))
}

fn same_as<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<bool> {
    let [other] = args.bind("sameas", ["other"])?;
    is_same(world, args.subject(), needed("sameas", "other", other)?)
}

fn filter<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<bool> {
    args.bind::<0>("filter", [])?;
    names(world, args, |name| super::filter(name).is_some())
}

fn test<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<bool> {
    args.bind::<0>("test", [])?;
    names(world, args, |name| super::test(name).is_some())
}

/// Reports whether a value is the name of an entry in jinja2's table.
fn names<'a>(world: &World<'a>, args: Args<'_, 'a>, is_known: impl Fn(&str) -> bool) -> Res<bool> {
    match args.subject() {
        Value::Str(name) => Ok(is_known(name.plain())),
        other => crate::value::compare::hash(world, other, 0).map(|_| false),
    }
}
