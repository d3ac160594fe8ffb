//! Python's operators: `+`, `-`, `*`, `/`, `//`, `%`, `**`, and the signs.

use super::builder::{Builder, Pieces};
use super::number::{arithmetic, is_number};
use super::text::Str;
use super::{Value, ViewKind, number};
use crate::builtins::{html, percent};
use crate::error::{Fault, Res};
use crate::parser::ast::BinaryOp;
use crate::vm::World;

pub(crate) fn binary<'a>(world: &World<'a>, op: BinaryOp, left: &Value<'a>, right: &Value<'a>) -> Res<Value<'a>> {
    if is_number(left) && is_number(right) {
        return arithmetic(world, op, left, right);
    }
    match (op, left, right) {
        (BinaryOp::Add, Value::Str(left), Value::Str(right)) => return add_strings(world, left, right).map(Value::Str),
        (BinaryOp::Mod, Value::Str(format), Value::Undefined(_)) => {
            // `str.__mod__` takes the undefined value like any other argument.
            return percent::format(world, format, right).map(Value::Str);
        }
        (BinaryOp::Mul, Value::Str(text), Value::Undefined(_)) if text.is_markup() => {
            // `Markup` has its own `*`, which does not defer to the other operand.
            return Err(Fault::type_error("'Undefined' object cannot be interpreted as an integer"));
        }
        (_, Value::Undefined(absence), _) | (_, _, Value::Undefined(absence)) => {
            // This also applies to `list + undefined`: `list.__add__` refuses, then
            // `Undefined.__radd__` raises.
            return Err(absence.fault());
        }
        (BinaryOp::Add, left, right) if left.is_list() && right.is_list() => {
            return Value::list(world, joined(world, left, right)?);
        }
        (BinaryOp::Add, Value::Tuple(_), Value::Tuple(_)) => return Value::tuple(world, joined(world, left, right)?),
        (BinaryOp::Mul, Value::Str(text), times @ (Value::Int(_) | Value::Bool(_) | Value::Big(_)))
        | (BinaryOp::Mul, times @ (Value::Int(_) | Value::Bool(_) | Value::Big(_)), Value::Str(text)) => {
            return repeat_string(world, text, number::index(times)?).map(Value::Str);
        }
        (BinaryOp::Mul, items, times @ (Value::Int(_) | Value::Bool(_) | Value::Big(_)))
        | (BinaryOp::Mul, times @ (Value::Int(_) | Value::Bool(_) | Value::Big(_)), items)
            if items.is_list() || matches!(items, Value::Tuple(_)) =>
        {
            return repeat_items(world, items, number::index(times)?);
        }
        (BinaryOp::Mod, Value::Str(format), right) => return percent::format(world, format, right).map(Value::Str),
        _ => {}
    }
    let symbol = match op {
        BinaryOp::Add => match (left, right) {
            (Value::Str(_), other) => {
                return Err(Fault::type_error(format!("can only concatenate str (not \"{}\") to str", other.kind())));
            }
            (list, other) if list.is_list() => {
                return Err(Fault::type_error(format!("can only concatenate list (not \"{}\") to list", other.kind())));
            }
            (Value::Tuple(_), other) => {
                return Err(Fault::type_error(format!(
                    "can only concatenate tuple (not \"{}\") to tuple",
                    other.kind()
                )));
            }
            _ => "+",
        },
        BinaryOp::Sub if matches!(left, Value::View(view) if view.kind != ViewKind::Values) => {
            return Err(Fault::unsupported("sets are not supported"));
        }
        BinaryOp::Sub => "-",
        BinaryOp::Mul => match (left, right) {
            (items, other) | (other, items) if items.is_list() || matches!(items, Value::Str(_) | Value::Tuple(_)) => {
                return Err(Fault::type_error(format!(
                    "can't multiply sequence by non-int of type '{}'",
                    other.kind()
                )));
            }
            _ => "*",
        },
        BinaryOp::Div => "/",
        BinaryOp::FloorDiv => "//",
        BinaryOp::Mod => "%",
        BinaryOp::Pow => "** or pow()",
    };
    Err(Fault::type_error(format!(
        "unsupported operand type(s) for {symbol}: '{}' and '{}'",
        left.kind(),
        right.kind()
    )))
}

/// Evaluates `a + b`. If one is safe HTML, the other is escaped.
pub(crate) fn add_strings<'a>(world: &World<'a>, left: &Str<'a>, right: &Str<'a>) -> Res<Str<'a>> {
    let is_markup = left.is_markup() || right.is_markup();
    world.work(left.weight() + right.weight())?;
    let mut builder = Builder::new(world);
    for side in [left, right] {
        if is_markup && !side.is_markup() {
            builder.push_str(&html::escape(world, side)?)?;
        } else {
            builder.push_str(side)?;
        }
    }
    builder.finish_as(is_markup)
}

fn repeat_string<'a>(world: &World<'a>, text: &Str<'a>, times: i64) -> Res<Str<'a>> {
    let times = usize::try_from(times).unwrap_or(0);
    match times {
        0 => return Str::empty().with_markup(world, text.is_markup()),
        1 => return Ok(text.clone()),
        _ if text.is_empty() => return Ok(text.clone()),
        _ => {}
    }
    let bytes = text.plain().len().saturating_mul(times);
    world.meter.check(bytes)?;
    world.work(bytes)?;
    let mut builder = Builder::new(world);
    builder.reserve(bytes)?;
    if let Str::Slice(slice) = text {
        // The repeated text is one piece.
        builder.push(&slice.text.repeat(times), slice.origin.changed())?;
        return builder.finish();
    }
    world.work(text.weight().saturating_mul(times))?;
    for _ in 0..times {
        builder.push_str(text)?;
    }
    builder.finish_as(text.is_markup())
}

fn repeat_items<'a>(world: &World<'a>, items: &Value<'a>, times: i64) -> Res<Value<'a>> {
    let times = usize::try_from(times).unwrap_or(0);
    let length = items.size(world).unwrap_or(0);
    world.check_items(length.saturating_mul(times))?;
    let once = super::iter::collect(world, items)?;
    let mut all = Vec::with_capacity(length * times);
    for _ in 0..times {
        if once.is_empty() {
            break;
        }
        all.extend_from_slice(&once);
    }
    if matches!(items, Value::Tuple(_)) { Value::tuple(world, all) } else { Value::list(world, all) }
}

fn joined<'a>(world: &World<'a>, left: &Value<'a>, right: &Value<'a>) -> Res<Vec<Value<'a>>> {
    let length = left.size(world).unwrap_or(0) + right.size(world).unwrap_or(0);
    world.check_items(length)?;
    let mut items = Vec::with_capacity(length);
    for side in [left, right] {
        match side {
            Value::List(list) | Value::Tuple(list) => items.extend_from_slice(&list.items),
            side => {
                for index in 0..side.size(world).unwrap_or(0) {
                    items.extend(side.item_at(world, index)?);
                }
            }
        }
    }
    Ok(items)
}

pub(crate) fn negative<'a>(world: &World<'a>, value: &Value<'a>) -> Res<Value<'a>> {
    match value {
        Value::Float(value) => Ok(Value::Float(-value)),
        value if is_number(value) => arithmetic(world, BinaryOp::Sub, &Value::Int(0), value),
        Value::Undefined(absence) => Err(absence.fault()),
        other => Err(Fault::type_error(format!("bad operand type for unary -: '{}'", other.kind()))),
    }
}

pub(crate) fn positive<'a>(value: &Value<'a>) -> Res<Value<'a>> {
    match value {
        Value::Bool(value) => Ok(Value::Int(i64::from(*value))),
        value if is_number(value) => Ok(value.clone()),
        Value::Undefined(absence) => Err(absence.fault()),
        other => Err(Fault::type_error(format!("bad operand type for unary +: '{}'", other.kind()))),
    }
}
